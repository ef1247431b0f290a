//! Slots of a processor: nothing is copied, since mapped weights are computed with where they lie. They keep the books that
//! a device's slots go by, so that reading one before it is filled or after it was filled anew shows on the processor too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::buffer::HostBuffer;
use crate::ops::{OpError, Passage, Slot, Tensor};

/// A slot of the processor.
#[derive(Debug, Default)]
pub struct HostSlot(Arc<Books>);

/// How often a slot was filled, and which of these fillings may be read.
#[derive(Debug, Default)]
struct Books {
    filled: AtomicU64,
    readable: AtomicU64,
}

/// The right to read a slot while it holds one filling.
#[derive(Debug, Clone)]
pub struct Lease {
    books: Arc<Books>,
    filling: u64,
}

impl Lease {
    /// Panics: When the slot does not hold what was lent: the engine's own fault, which would be a race on a device.
    pub(super) fn check(&self) {
        let readable = self.books.readable.load(Ordering::Acquire);
        assert_eq!(readable, self.filling, "weights are read while their slot does not hold them");
    }
}

impl Slot<HostBuffer> for HostSlot {
    fn tensor(&self, passage: &Passage) -> Tensor<HostBuffer> {
        let dtype = passage.stored_dtype;
        let lease = Lease { books: Arc::clone(&self.0), filling: self.0.filled.load(Ordering::Acquire) + 1 };
        let buffer = HostBuffer::Mapped { pieces: passage.stored.pieces.clone(), dtype, lease: Some(lease) };
        Tensor::from_buffer(buffer, dtype, passage.shape)
    }

    fn fill(&self, _: Vec<Passage>, _: usize) -> Result<(), OpError> {
        self.0.readable.store(0, Ordering::Release);
        self.0.filled.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn acquire(&self) -> Result<(), OpError> {
        self.0.readable.store(self.0.filled.load(Ordering::Acquire), Ordering::Release);
        Ok(())
    }

    fn release(&self) {
        // What was read before is over already.
        self.0.readable.store(0, Ordering::Release);
    }
}
