//! What a client attaches to a job for itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Texts by which a client finds its jobs again; nothing here reads them. The bounds are those of OpenAI's metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Metadata(BTreeMap<String, String>);

/// Says which bound metadata break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    /// There are too many pairs.
    #[error("metadata has {found} keys, and at most {} are taken", Metadata::MAX_PAIRS)]
    Pairs {
        /// How many there are.
        found: usize,
    },
    /// A key is empty or too long.
    #[error("a metadata key has from 1 to {} characters, not {length}", Metadata::MAX_KEY_CHARS)]
    Key {
        /// The key, cut to what is allowed.
        key: String,
        /// Its number of characters.
        length: usize,
    },
    /// A value is too long.
    #[error("a metadata value has at most {} characters, not {length}", Metadata::MAX_VALUE_CHARS)]
    Value {
        /// Its key.
        key: String,
        /// Its number of characters.
        length: usize,
    },
}

impl Metadata {
    /// How many pairs there may be.
    pub const MAX_PAIRS: usize = 16;
    /// How many characters a key may have.
    pub const MAX_KEY_CHARS: usize = 64;
    /// How many characters a value may have.
    pub const MAX_VALUE_CHARS: usize = 512;

    /// Takes pairs as metadata.
    ///
    /// Errors: [`InvalidMetadata`] about the first bound that is broken.
    pub fn new(pairs: BTreeMap<String, String>) -> Result<Self, InvalidMetadata> {
        if pairs.len() > Self::MAX_PAIRS {
            return Err(InvalidMetadata::Pairs { found: pairs.len() });
        }
        for (key, value) in &pairs {
            let (key_chars, value_chars) = (key.chars().count(), value.chars().count());
            if !(1..=Self::MAX_KEY_CHARS).contains(&key_chars) {
                let key = key.chars().take(Self::MAX_KEY_CHARS).collect();
                return Err(InvalidMetadata::Key { key, length: key_chars });
            }
            if value_chars > Self::MAX_VALUE_CHARS {
                return Err(InvalidMetadata::Value { key: key.clone(), length: value_chars });
            }
        }
        Ok(Self(pairs))
    }

    /// Returns the pairs.
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for Metadata {
    type Error = InvalidMetadata;

    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, InvalidMetadata> {
        Self::new(pairs)
    }
}

impl From<Metadata> for BTreeMap<String, String> {
    fn from(metadata: Metadata) -> Self {
        metadata.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Metadata, InvalidMetadata> {
        Metadata::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn bounds_are_counted_in_characters() {
        assert!(of(&[(&"ä".repeat(64), &"ä".repeat(512))]).is_ok());
        assert_eq!(of(&[("", "x")]), Err(InvalidMetadata::Key { key: String::new(), length: 0 }));
        assert!(matches!(of(&[(&"k".repeat(65), "x")]), Err(InvalidMetadata::Key { length: 65, .. })));
        assert!(matches!(of(&[("k", &"x".repeat(513))]), Err(InvalidMetadata::Value { length: 513, .. })));
        let many: BTreeMap<String, String> = (0..17).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(Metadata::new(many), Err(InvalidMetadata::Pairs { found: 17 }));
    }
}
