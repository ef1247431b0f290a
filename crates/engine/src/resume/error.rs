//! Why a generation cannot go on from a checkpoint.

use crate::checkpoint::{ShardProblem, StoredDtype};

/// Why a generation cannot go on from a checkpoint. Nothing was run; it can be started over without the checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There are more bytes than a checkpoint of this specification can have.
    #[error("the checkpoint has {bytes} bytes, one of this specification has at most {most}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most that a checkpoint of the specification can have.
        most: usize,
    },
    /// It is cut off, or its header is malformed or contradicts the length of its data.
    #[error("the checkpoint is no intact safetensors file")]
    Malformed(#[source] ShardProblem),
    /// A key of the metadata is missing or is not what it should be.
    #[error("the checkpoint's metadata have no usable {key}")]
    Metadata {
        /// The key.
        key: &'static str,
    },
    /// It has a format that this build does not know.
    #[error("the checkpoint has format version {found}, this build knows version {known}")]
    Version {
        /// The version that it names.
        found: u32,
        /// The only version that this build knows.
        known: u32,
    },
    /// It belongs to another specification.
    #[error("the checkpoint belongs to another specification")]
    ForeignSpec,
    /// It was made from other media.
    #[error("the checkpoint was made from other media")]
    ForeignMedia,
    /// It was made by an engine whose results differ in bits.
    #[error("the checkpoint was made by engine {found}, this one is {own}")]
    ForeignEngine {
        /// The fingerprint that it names.
        found: String,
        /// The fingerprint of this engine.
        own: String,
    },
    /// It names a step that the schedule does not have.
    #[error("the checkpoint was made after step {step} of a schedule of {total} steps")]
    Step {
        /// The step that it names.
        step: usize,
        /// The steps of the schedule.
        total: usize,
    },
    /// It lacks a tensor.
    #[error("the checkpoint lacks the tensor {tensor}")]
    Missing {
        /// The tensor.
        tensor: &'static str,
    },
    /// It holds tensors that no checkpoint has.
    #[error("the checkpoint holds {found} tensors, expected {expected}")]
    Tensors {
        /// How many it holds.
        found: usize,
        /// How many a checkpoint has.
        expected: usize,
    },
    /// A tensor is not F32.
    #[error("the checkpoint's tensor {tensor} is {found}, expected F32")]
    Dtype {
        /// The tensor.
        tensor: &'static str,
        /// The element type that it has.
        found: StoredDtype,
    },
    /// A tensor has another shape than the specification's latents.
    #[error("the checkpoint's tensor {tensor} has shape {found:?}, expected {expected:?}")]
    Shape {
        /// The tensor.
        tensor: &'static str,
        /// The shape that the specification gives it.
        expected: [usize; 2],
        /// The shape that it has.
        found: Vec<usize>,
    },
    /// Its step or its data are not those that were written.
    #[error("the checkpoint's step and data do not have the SHA-256 that its metadata name")]
    Digest,
    /// A tensor holds an infinity or a value that is no number.
    #[error("the checkpoint's tensor {tensor} holds values that are not finite")]
    NotFinite {
        /// The tensor.
        tensor: &'static str,
    },
}
