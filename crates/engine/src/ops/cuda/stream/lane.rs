//! The stream of copies.

use std::sync::Arc;

use cudarc::driver::{CudaStream, result};

use super::copier::Lane;
use super::pinned::PinnedBuffer;
use super::slot::SlotMemory;
use super::steps::Step;
use crate::ops::cuda::context::Context;
use crate::ops::cuda::error::CudaError;

/// What a thread copies at a time; large enough for a bus of any speed, and small beside weights.
pub(super) const CHUNK_BYTES: usize = 8 << 20;

/// A stream of one GPU beside that which computes.
pub(super) struct CopyStream {
    context: Arc<Context>,
    stream: Arc<CudaStream>,
}

impl CopyStream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        Ok(Self { context: Arc::clone(context), stream: context.new_stream()? })
    }

    fn queue(&self, bytes: &[u8], slot: &SlotMemory, offset: usize) -> Result<(), CudaError> {
        self.context.bind()?;
        let address = slot.device().place(offset, bytes.len());
        // SAFETY: the place is inside the slot, which lives until its copies are done; so do `bytes`: a buffer's are waited
        // for before they change, and a tensor's pages stay mapped as long as they are registered.
        unsafe { result::memcpy_htod_async(address, bytes, self.stream.cu_stream()) }
            .map_err(CudaError::driver("copying weights to the GPU"))
    }
}

impl Lane for CopyStream {
    type Slot = SlotMemory;
    type Buffer = PinnedBuffer;

    fn buffer(&self) -> Result<PinnedBuffer, CudaError> {
        PinnedBuffer::new(&self.context, CHUNK_BYTES)
    }

    fn writable<'b>(&self, buffer: &'b mut PinnedBuffer) -> Result<&'b mut [u8], CudaError> {
        buffer.writable()
    }

    fn begin(&self, slot: &SlotMemory) -> Result<(), CudaError> {
        // On the host, so that it is never further ahead than the slots are.
        slot.free().synchronize().map_err(CudaError::driver("waiting for a slot"))
    }

    fn copy(&self, buffer: &mut PinnedBuffer, bytes: usize, slot: &SlotMemory, offset: usize) -> Result<(), CudaError> {
        let queued = self.queue(&buffer.bytes()[..bytes], slot, offset);
        // Also behind a copy that may have been queued all the same.
        let marked = buffer.read().record(&self.stream).map_err(CudaError::driver("marking a copy"));
        queued.and(marked)
    }

    fn copy_direct(&self, step: &Step, slot: &SlotMemory) -> Result<(), CudaError> {
        self.queue(&step.piece.bytes()[step.range.clone()], slot, step.offset)
    }

    fn end(&self, slot: &SlotMemory) -> Result<(), CudaError> {
        slot.ready().record(&self.stream).map_err(CudaError::driver("marking a slot"))
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        if let Err(error) = self.stream.synchronize() {
            tracing::debug!(%error, "copies of weights did not end well");
        }
    }
}
