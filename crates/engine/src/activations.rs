//! The buffers that a network computes in, planned before any is made.

use crate::ops::{DType, Dims, OpError, Ops, Tensor};

/// One named buffer of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// What the network calls it.
    pub name: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Shape, outermost first.
    pub shape: Dims,
}

impl Planned {
    /// Plans a buffer.
    pub fn new(name: &'static str, dtype: DType, shape: impl Into<Dims>) -> Self {
        Self { name, dtype, shape: shape.into() }
    }

    /// Its size; more than memory could hold saturates.
    pub fn bytes(&self) -> usize {
        self.dtype.size().saturating_mul(self.shape.elements())
    }
}

/// Every buffer that a network needs for one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivationPlan(Vec<Planned>);

impl ActivationPlan {
    /// Holds the buffers of a plan.
    pub fn new(buffers: Vec<Planned>) -> Self {
        Self(buffers)
    }

    /// Returns the buffers.
    pub fn buffers(&self) -> &[Planned] {
        &self.0
    }

    /// Their size in all; more than memory could hold saturates.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Planned::bytes).fold(0, usize::saturating_add)
    }

    /// Makes buffer `name`.
    ///
    /// Panics: When the plan has no such buffer: a network allocates exactly what it planned.
    ///
    /// Errors: [`OpError`] when memory runs out.
    pub fn make<O: Ops>(&self, ops: &O, name: &str) -> Result<Tensor<O::Buffer>, OpError> {
        let planned = self.0.iter().find(|planned| planned.name == name).expect("a network makes what it planned");
        ops.alloc(planned.dtype, planned.shape)
    }
}

/// How many rows of `row_bytes` fit in `budget_bytes`: at least one, at most `rows`.
pub fn rows_per_chunk(budget_bytes: usize, row_bytes: usize, rows: usize) -> usize {
    (budget_bytes / row_bytes.max(1)).clamp(1, rows.max(1))
}
