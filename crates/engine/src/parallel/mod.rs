//! Ranks and their collectives.
//!
//! Blocks are written for one rank of a group from the first day: where tensor parallelism sums partial products, the
//! block says so. Alone, the collectives do nothing.

use crate::ops::{OpError, Ops, ViewMut};

/// This rank's place among those that share one generation, and its collectives.
pub trait Rank<O: Ops>: Send + Sync {
    /// Sums `partial` over the tensor-parallel group, in place on every rank: after a projection whose inputs are
    /// sharded.
    ///
    /// Errors: [`OpError`] when the collective fails.
    fn sum_partial(&self, ops: &O, partial: ViewMut<'_, O::Buffer>) -> Result<(), OpError>;
}

/// The only rank.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl<O: Ops> Rank<O> for Alone {
    fn sum_partial(&self, _ops: &O, _partial: ViewMut<'_, O::Buffer>) -> Result<(), OpError> {
        Ok(())
    }
}
