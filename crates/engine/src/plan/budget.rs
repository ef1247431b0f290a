//! What a plan may spend.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// How many of the transformer's leading blocks stay on the device while it denoises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResidentLayers {
    /// As many as the budget holds after everything else.
    #[default]
    Auto,
    /// This many; more than there are count as all.
    Fixed(usize),
}

/// Says that a text is no number of blocks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resident layers must be a whole number or auto, got {text:?}")]
pub struct NoResidentLayers {
    text: String,
}

impl FromStr for ResidentLayers {
    type Err = NoResidentLayers;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Fixed).map_err(|_| NoResidentLayers { text: text.to_owned() })
    }
}

impl fmt::Display for ResidentLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(layers) => layers.fmt(f),
        }
    }
}

/// The memory that a generation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Budgets {
    /// Bytes of the device, what its driver keeps for itself included.
    pub hbm_bytes: u64,
    /// Bytes of the host that may be pinned or private; none for as many as there are.
    pub host_bytes: Option<u64>,
    /// The transformer's resident blocks.
    pub resident_layers: ResidentLayers,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_blocks_or_auto_is_read_and_nothing_else() {
        assert_eq!("auto".parse(), Ok(ResidentLayers::Auto));
        assert_eq!("12".parse(), Ok(ResidentLayers::Fixed(12)));
        for text in ["", "-1", "1.5", "all", "true"] {
            let error = text.parse::<ResidentLayers>().unwrap_err();
            assert_eq!(error.to_string(), format!("resident layers must be a whole number or auto, got {text:?}"));
        }
    }
}
