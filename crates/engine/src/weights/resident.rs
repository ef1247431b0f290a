//! A whole stack on the device.

use super::{BlockGuard, WeightError, WeightSource};
use crate::ops::Ops;

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

impl<O: Ops, W: Send + Sync> WeightSource<O, W> for ResidentWeights<W> {
    fn len(&self) -> usize {
        self.blocks.len()
    }

    fn block(&self, _: &O, index: usize) -> Result<BlockGuard<'_, W>, WeightError> {
        match self.blocks.get(index) {
            Some(weights) => Ok(Box::new(weights)),
            None => Err(WeightError::beyond(index, self.blocks.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::cpu::Cpu;

    #[test]
    fn a_block_beyond_the_stack_is_named() {
        let (ops, source) = (Cpu::new(1), ResidentWeights::new(vec![1, 2]));
        assert_eq!(**source.block(&ops, 1).unwrap(), 2);
        let error = source.block(&ops, 2).err().unwrap();
        assert_eq!(error.to_string(), "could not get the weights of block 2");
    }
}
