//! Where a network gets the weights of its blocks from.
//!
//! A network asks for one block at a time and holds the guard while it computes with it; what stands behind (resident
//! tensors, mapped files, device slots that a copy stream refills) is the source's business and never changes a result.

use std::ops::Deref;

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

/// A stack of equal blocks whose weights `W` may live anywhere.
pub trait WeightSource<W>: Send + Sync {
    /// Returns how many blocks there are.
    fn len(&self) -> usize;

    /// Tells whether there are no blocks.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lends the weights of block `index`; they stay valid until the guard is dropped.
    ///
    /// Errors: [`WeightError`] when they cannot be read.
    fn block(&self, index: usize) -> Result<BlockGuard<'_, W>, WeightError>;
}

/// Weights of one block, held while it computes. Each source has a guard of its own, whose `Drop` may free a slot; a
/// device only queues work, so such a slot is free when what was queued before the drop is done.
pub type BlockGuard<'a, W> = Box<dyn Deref<Target = W> + 'a>;

/// Every block's weights at once: on the CPU they are views of the mapped checkpoint, so nothing is copied.
pub struct ResidentWeights<W> {
    blocks: Vec<W>,
}

impl<W> ResidentWeights<W> {
    /// Holds `blocks` in order.
    pub fn new(blocks: Vec<W>) -> Self {
        Self { blocks }
    }
}

impl<W: Send + Sync> WeightSource<W> for ResidentWeights<W> {
    fn len(&self) -> usize {
        self.blocks.len()
    }

    fn block(&self, index: usize) -> Result<BlockGuard<'_, W>, WeightError> {
        match self.blocks.get(index) {
            Some(weights) => Ok(Box::new(weights)),
            None => Err(WeightError { index, source: format!("there are {} blocks", self.blocks.len()).into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard};

    use super::*;

    /// One slot for all blocks: whoever holds a block keeps the next one out.
    struct OneSlot(Mutex<usize>);

    struct SlotGuard<'a>(MutexGuard<'a, usize>);

    impl Deref for SlotGuard<'_> {
        type Target = usize;

        fn deref(&self) -> &usize {
            &self.0
        }
    }

    impl WeightSource<usize> for OneSlot {
        fn len(&self) -> usize {
            3
        }

        fn block(&self, index: usize) -> Result<BlockGuard<'_, usize>, WeightError> {
            let mut slot = self.0.try_lock().map_err(|_| WeightError { index, source: "the slot is in use".into() })?;
            *slot = 10 * index;
            Ok(Box::new(SlotGuard(slot)))
        }
    }

    #[test]
    fn dropping_a_guard_frees_its_slot_for_the_next_block() {
        let source: &dyn WeightSource<usize> = &OneSlot(Mutex::new(0));
        for index in 0..source.len() {
            let weights = source.block(index).unwrap();
            assert_eq!(**weights, 10 * index);
            assert!(source.block(index + 1).is_err(), "the slot was given away while it was held");
        }
    }

    #[test]
    fn a_block_beyond_the_stack_is_named() {
        let source = ResidentWeights::new(vec![1, 2]);
        assert_eq!(**source.block(1).unwrap(), 2);
        let error = source.block(2).err().unwrap();
        assert_eq!(error.to_string(), "could not get the weights of block 2");
    }
}
