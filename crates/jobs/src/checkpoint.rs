//! Where a job can be gone on with after its worker is gone.

use serde::{Deserialize, Serialize};

use crate::blob::BlobKey;

/// What an engine's results depend on to the last bit: weights, kernels, types, topology. Engines with the same
/// fingerprint can go on with each other's checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

/// A stored denoising state that a job's row names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where it lies: always [`Lease::checkpoint_key`](crate::Lease::checkpoint_key) of the claim that made it.
    pub key: BlobKey,
    /// How many steps are done.
    pub step: u32,
    /// Its length.
    pub size_bytes: u64,
    /// The SHA-256 of its bytes, as 64 lower-case hex digits.
    pub sha256: String,
    /// The engine that can go on with it.
    pub fingerprint: Fingerprint,
}
