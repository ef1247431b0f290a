//! How the finished video is encoded.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The encoding policy of the finished MP4; it never changes what the model generates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// The request named no policy: the server's own is used, and `default` is echoed.
    #[default]
    Default,
    /// Visually clean at a moderate size.
    High,
    /// Nothing is lost after the conversion to 8-bit video.
    Lossless,
}

impl Quality {
    /// Holds the values that a request may name.
    pub const REQUESTABLE: [Self; 2] = [Self::Lossless, Self::High];

    /// Returns the name that the API echoes: `default`, `high` or `lossless`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::High => "high",
            Self::Lossless => "lossless",
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Quality {
    type Err = UnknownQuality;

    /// Reads a value that a request may name; `default` is not one of them.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::REQUESTABLE
            .into_iter()
            .find(|quality| quality.as_str() == name)
            .ok_or_else(|| UnknownQuality(name.to_owned()))
    }
}

/// Says that a name belongs to no quality that a request may ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quality must be one of lossless, high, got {0:?}")]
pub struct UnknownQuality(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_name_high_and_lossless_only() {
        assert_eq!("high".parse::<Quality>().unwrap(), Quality::High);
        assert_eq!("lossless".parse::<Quality>().unwrap(), Quality::Lossless);
        for refused in ["default", "best", ""] {
            assert!(refused.parse::<Quality>().is_err(), "{refused:?}");
        }
    }
}
