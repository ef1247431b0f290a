//! What the golden cases are computed on.

use crate::device::Device;
use crate::engine::ComputeDtype;
use crate::ops::cuda::AttentionChoice;

/// A device that is open, and how to open it again for a whole engine.
pub(super) struct Target<'a, O> {
    pub(super) ops: &'a O,
    pub(super) device: Device,
    pub(super) attention: AttentionChoice,
    /// Whether it is a GPU.
    pub(super) is_gpu: bool,
    /// What the requests of F32 are computed in.
    pub(super) dtype: ComputeDtype,
}

impl<O> Clone for Target<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Target<'_, O> {}
