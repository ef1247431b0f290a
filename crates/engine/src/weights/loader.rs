//! Where a network's weights are brought.

use std::cell::RefCell;

use crate::checkpoint::Stored;
use crate::ops::{DType, OpError, Ops, Passage, SLOT_ALIGNMENT, Slot, Tensor};

/// Makes tensors of what is stored: on a device, for good, or in a slot of it.
pub(crate) trait WeightLoader<B> {
    /// Takes a tensor in its stored type, as [`Ops::weight`] does.
    fn weight(&self, stored: &Stored) -> Result<Tensor<B>, OpError>;

    /// Takes a factor of products in `dtype`, as [`Ops::weight_in`] does.
    fn weight_in(&self, stored: &Stored, dtype: DType) -> Result<Tensor<B>, OpError>;
}

impl<O: Ops> WeightLoader<O::Buffer> for O {
    fn weight(&self, stored: &Stored) -> Result<Tensor<O::Buffer>, OpError> {
        Ops::weight(self, stored)
    }

    fn weight_in(&self, stored: &Stored, dtype: DType) -> Result<Tensor<O::Buffer>, OpError> {
        Ops::weight_in(self, stored, dtype)
    }
}

/// Lays the tensors of a block out in a slot, one after another.
pub(super) struct SlotLoader<'a, S> {
    slot: &'a S,
    laid: RefCell<Laid>,
}

/// The tensors of a block, and the bytes that they take in a slot.
#[derive(Default)]
struct Laid {
    passages: Vec<Passage>,
    bytes: usize,
}

impl<'a, S> SlotLoader<'a, S> {
    pub(super) fn new(slot: &'a S) -> Self {
        Self { slot, laid: RefCell::default() }
    }

    /// Fills the slot with what was laid out.
    ///
    /// Errors: those of [`Slot::fill`].
    pub(super) fn fill<B>(self) -> Result<(), OpError>
    where
        S: Slot<B>,
    {
        let Laid { passages, bytes } = self.laid.into_inner();
        self.slot.fill(passages, bytes)
    }

    fn lay<B>(&self, stored: &Stored, dtype: Option<DType>) -> Result<Tensor<B>, OpError>
    where
        S: Slot<B>,
    {
        let mut laid = self.laid.borrow_mut();
        let passage = Passage::new(stored, dtype, laid.bytes.next_multiple_of(SLOT_ALIGNMENT))?;
        laid.bytes = passage.offset + passage.bytes();
        let tensor = self.slot.tensor(&passage);
        laid.passages.push(passage);
        Ok(tensor)
    }
}

impl<B, S: Slot<B>> WeightLoader<B> for SlotLoader<'_, S> {
    fn weight(&self, stored: &Stored) -> Result<Tensor<B>, OpError> {
        self.lay(stored, None)
    }

    fn weight_in(&self, stored: &Stored, dtype: DType) -> Result<Tensor<B>, OpError> {
        self.lay(stored, Some(dtype))
    }
}
