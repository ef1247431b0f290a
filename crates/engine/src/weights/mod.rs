//! Where a network gets the weights of its blocks from.
//!
//! A network asks for one block at a time and holds the guard while it computes with it; what stands behind (resident
//! tensors, slots that are filled while others are computed with) is the source's business and never changes a result.

mod loader;
mod placement;
mod resident;
mod staged;
mod streamed;

use std::ops::Deref;

use crate::ops::Ops;

pub(crate) use loader::WeightLoader;
pub use placement::{NoResidentLayers, Placement, ResidentLayers};
pub use resident::ResidentWeights;
pub(crate) use staged::{Staged, StagedGuard};
pub(crate) use streamed::{SLOTS, StreamedWeights};

/// Why a block's weights could not be had.
#[derive(Debug, thiserror::Error)]
#[error("could not get the weights of block {index}")]
pub struct WeightError {
    /// The block.
    pub index: usize,
    /// What went wrong.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl WeightError {
    fn beyond(index: usize, blocks: usize) -> Self {
        Self { index, source: format!("there are {blocks} blocks").into() }
    }
}

/// A stack of equal blocks whose weights `W` may live anywhere.
pub trait WeightSource<O: Ops, W>: Send + Sync {
    /// Returns how many blocks there are.
    fn len(&self) -> usize;

    /// Tells whether there are no blocks.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lends the weights of block `index` on the device of `ops`; they stay valid until the guard is dropped.
    ///
    /// Errors: [`WeightError`] when they cannot be read, or the device has no room for them.
    fn block(&self, ops: &O, index: usize) -> Result<BlockGuard<'_, W>, WeightError>;

    /// Says that no block is needed for a while: what is held of them on the device for as long as they are goes.
    fn rest(&self) {}
}

/// Weights of one block, held while it computes. Each source has a guard of its own, whose `Drop` may free them; a
/// device only queues work, so they are free when what was queued before the drop is done.
pub type BlockGuard<'a, W> = Box<dyn Deref<Target = W> + 'a>;

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;
    use crate::ops::cpu::Cpu;

    /// One slot for all blocks: whoever holds a block keeps the next one out.
    struct OneSlot(Mutex<usize>);

    struct SlotGuard<'a>(MutexGuard<'a, usize>);

    impl Deref for SlotGuard<'_> {
        type Target = usize;

        fn deref(&self) -> &usize {
            &self.0
        }
    }

    impl WeightSource<Cpu, usize> for OneSlot {
        fn len(&self) -> usize {
            3
        }

        fn block(&self, _: &Cpu, index: usize) -> Result<BlockGuard<'_, usize>, WeightError> {
            let mut slot = self.0.try_lock().map_err(|_| WeightError { index, source: "the slot is in use".into() })?;
            *slot = 10 * index;
            Ok(Box::new(SlotGuard(slot)))
        }
    }

    #[test]
    fn dropping_a_guard_frees_its_slot_for_the_next_block() {
        let source: &dyn WeightSource<Cpu, usize> = &OneSlot(Mutex::new(0));
        let ops = Cpu::new(1);
        for index in 0..source.len() {
            let weights = source.block(&ops, index).unwrap();
            assert_eq!(**weights, 10 * index);
            assert!(source.block(&ops, index + 1).is_err(), "the slot was given away while it was held");
        }
    }
}
