//! A digest of named values.

use std::fmt::Display;

use sha2::{Digest, Sha256};

use crate::hex::hex;

/// Hashes names and values so that no two sequences of them run into the same bytes.
pub(super) struct Transcript(Sha256);

impl Transcript {
    pub(super) fn begin(title: &str) -> Self {
        let mut transcript = Self(Sha256::new());
        transcript.hash(title.as_bytes());
        transcript
    }

    /// Takes a value by its text.
    pub(super) fn say(&mut self, name: &str, value: impl Display) {
        self.show(name, value.to_string().as_bytes());
    }

    /// Takes a value by its bytes.
    pub(super) fn show(&mut self, name: &str, value: &[u8]) {
        self.hash(name.as_bytes());
        self.hash(value);
    }

    /// Takes values by their bits.
    pub(super) fn show_floats(&mut self, name: &str, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.show(name, &bytes);
    }

    /// Returns the digest of everything, 64 hex digits.
    pub(super) fn end(self) -> String {
        hex(&self.0.finalize())
    }

    fn hash(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }
}
