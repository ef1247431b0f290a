//! The resolved request as a store keeps it.

use clapboard_h3::{GenerationSpec, SpecError};

/// A [`GenerationSpec`] as JSON, with its version beside it.
///
/// Stores and dispatchers pass it on unread, so that a program may hold jobs of a newer one; only the worker that runs
/// a job and the API that shows it decode it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecRecord {
    /// The version of the spec, by which workers claim.
    pub version: u32,
    /// The spec.
    pub json: String,
}

impl SpecRecord {
    /// Encodes a spec.
    pub fn encode(spec: &GenerationSpec) -> Self {
        Self { version: spec.version, json: spec.encode() }
    }

    /// Decodes the spec.
    ///
    /// Errors: [`SpecError`] when this program does not know its version or it is no spec at all.
    pub fn decode(&self) -> Result<GenerationSpec, SpecError> {
        GenerationSpec::decode(&self.json)
    }
}
