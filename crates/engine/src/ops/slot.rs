//! Memory of a device that blocks of weights stream through.

use super::{DType, Dims, OpError, Tensor};
use crate::checkpoint::{Stored, StoredDtype};

/// Where each tensor of a slot begins: a multiple of this many bytes, which every kernel and library is content with.
pub const SLOT_ALIGNMENT: usize = 256;

/// How the weights that go through a slot lie on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Masters {
    /// They come again and again: where the device can copy from their pages as they lie, those pages are kept in memory.
    Recurring,
    /// They come once for a request, and are copied on the way.
    Passing,
}

/// One tensor on its way to a slot.
#[derive(Debug)]
pub struct Passage {
    /// What is stored.
    pub stored: Stored,
    /// The type that it is stored in.
    pub stored_dtype: DType,
    /// The type that the device has it in; the processor computes from what is stored.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Dims,
    /// Where it begins in the slot, in bytes.
    pub offset: usize,
}

/// Room on a device for one block of weights, which is filled beside what the device computes, and filled anew when the
/// last that reads it is done.
///
/// The order is: [`tensor`](Self::tensor) for each of a block's, [`fill`](Self::fill), [`acquire`](Self::acquire), any
/// operations on the tensors, [`release`](Self::release). A device only queues work, so that none of them waits for
/// operations.
pub trait Slot<B>: Send + Sync {
    /// Returns the tensor that `passage` will be once the slot is filled with it.
    fn tensor(&self, passage: &Passage) -> Tensor<B>;

    /// Begins to fill the slot with `passages`, which take `bytes`, after everything that was queued before its last
    /// release. The first time it takes its memory; blocks of a stack are equal, so that later ones fit.
    ///
    /// Errors: [`OpError::Backend`] when there is no room, or a larger block comes than the first.
    fn fill(&self, passages: Vec<Passage>, bytes: usize) -> Result<(), OpError>;

    /// Lets whatever is queued from now on find the slot filled.
    ///
    /// Errors: [`OpError::Backend`] when it could not be filled.
    fn acquire(&self) -> Result<(), OpError>;

    /// Says that what was queued up to now is the last that reads it.
    fn release(&self);
}

/// Returns the type and the sizes of a stored tensor of floats.
///
/// Errors: [`OpError::Backend`] for a type that no operation takes; [`OpError::Shape`] for no pieces or more than four
/// axes.
pub(super) fn floats_of(op: &'static str, stored: &Stored) -> Result<(DType, Dims), OpError> {
    let shape = match stored.shape.as_slice() {
        [] => Dims::new(&[1]),
        shape if shape.len() <= Dims::MOST => Dims::new(shape),
        shape => {
            let expected = vec![0; Dims::MOST];
            return Err(OpError::Shape { op, name: "stored", expected, actual: shape.to_vec() });
        }
    };
    let Some(first) = stored.pieces.first() else {
        return Err(OpError::Shape { op, name: "pieces", expected: vec![1], actual: vec![0] });
    };
    let dtype = match first.dtype() {
        StoredDtype::F32 => DType::F32,
        StoredDtype::BF16 => DType::Bf16,
        StoredDtype::F16 => DType::F16,
        other => {
            let source = format!("{} is {other}, expected F32, BF16 or F16", first.name()).into();
            return Err(OpError::Backend { op, source });
        }
    };
    Ok((dtype, shape))
}

impl Passage {
    /// Places what is stored at `offset`, in `dtype` or as it is.
    ///
    /// Errors: those of the tensor's type and sizes, as [`Ops::weight`](super::Ops::weight) has them.
    pub(crate) fn new(stored: &Stored, dtype: Option<DType>, offset: usize) -> Result<Self, OpError> {
        let (stored_dtype, shape) = floats_of("weight", stored)?;
        Ok(Self { stored: stored.clone(), stored_dtype, dtype: dtype.unwrap_or(stored_dtype), shape, offset })
    }

    /// Returns the bytes that it takes in the slot.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}
