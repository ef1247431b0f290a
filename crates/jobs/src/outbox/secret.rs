//! What signs a delivery.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How many bytes a secret may have.
const LENGTHS: RangeInclusive<usize> = 24..=64;

/// A signing secret as Standard Webhooks has it: `whsec_` and 24 to 64 bytes in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Says that a text is no signing secret; it does not show the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signing secret is whsec_ and the base64 of 24 to 64 bytes")]
pub struct InvalidSecret;

impl Secret {
    /// What every secret begins with.
    pub const PREFIX: &'static str = "whsec_";

    /// Draws a new secret of 32 random bytes.
    pub fn random() -> Self {
        let mut bytes = vec![0; 32];
        getrandom::fill(&mut bytes).expect("the system has random bytes");
        Self(bytes)
    }

    /// Returns the bytes that sign.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text, for whom it belongs to and for stores.
    pub fn expose(&self) -> String {
        format!("{}{}", Self::PREFIX, STANDARD.encode(&self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromStr for Secret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(Self::PREFIX).ok_or(InvalidSecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| InvalidSecret)?;
        if LENGTHS.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(InvalidSecret) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_back_and_never_shown_by_accident() {
        let secret = Secret::random();
        assert_eq!(secret.expose().parse(), Ok(secret.clone()));
        assert_ne!(secret, Secret::random());
        assert_eq!((format!("{secret:?}").as_str(), secret.bytes().len()), ("Secret(..)", 32));
    }

    #[test]
    fn what_is_no_secret_is_refused_unseen() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for wrong in ["", "whsec_", "whsec_hunter2", "hunter2", &of(23), &of(65), &of(24)[6..]] {
            let refused = wrong.parse::<Secret>().unwrap_err();
            assert!(!refused.to_string().contains("hunter2"), "{wrong:?}");
        }
        assert!(of(24).parse::<Secret>().is_ok() && of(64).parse::<Secret>().is_ok());
    }
}
