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
    /// How many blocks there are.
    fn len(&self) -> usize;

    /// Whether there are no blocks.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the weights of block `index`; they stay valid until the guard is dropped, which frees their slot.
    ///
    /// # Errors
    /// [`WeightError`] when they cannot be read.
    fn block(&self, index: usize) -> Result<BlockGuard<'_, W>, WeightError>;
}

/// Weights of one block, held while it computes.
pub struct BlockGuard<'a, W> {
    weights: &'a W,
}

impl<W> Deref for BlockGuard<'_, W> {
    type Target = W;

    fn deref(&self) -> &W {
        self.weights
    }
}

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
            Some(weights) => Ok(BlockGuard { weights }),
            None => Err(WeightError { index, source: format!("there are {} blocks", self.blocks.len()).into() }),
        }
    }
}
