//! Projections that several networks share.

use crate::checkpoint::QkvRows;
use crate::ops::{OpError, Ops, Tensor, View, ViewMut};

/// A projection with a bias.
pub struct Linear<B> {
    /// `[out, in]`.
    pub weight: Tensor<B>,
    /// `[out]`.
    pub bias: Tensor<B>,
}

impl<B> Linear<B> {
    /// `y = x · weightᵀ + bias`.
    ///
    /// Errors: [`OpError`] when shapes do not fit.
    pub fn apply<O: Ops<Buffer = B>>(&self, ops: &O, x: View<'_, B>, y: ViewMut<'_, B>) -> Result<(), OpError> {
        ops.linear(self.weight.view(), Some(self.bias.view()), x, y)
    }
}

/// One of the three projections in a joint one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Queries.
    Query = 0,
    /// Keys.
    Key = 1,
    /// Values.
    Value = 2,
}

macro_rules! heads_of {
    ($(#[$doc:meta])* $name:ident, $view:ident) => {
        $(#[$doc])*
        pub fn $name<B>(
            joint: $view<'_, B>,
            order: QkvRows,
            heads: usize,
            head_dim: usize,
            part: Part,
        ) -> $view<'_, B> {
            match order {
                QkvRows::PerHead => joint.split(1, &[heads, 3, head_dim]).select(2, part as usize),
                QkvRows::Grouped => joint.split(1, &[3, heads, head_dim]).select(1, part as usize),
            }
        }
    };
}

heads_of!(
    /// The heads of one part of a joint projection `[rows, 3 · heads · head_dim]`, as `[rows, heads, head_dim]`.
    ///
    /// Weights keep the row order of their checkpoint; a strided view of their product finds the heads in either.
    heads_of,
    View
);
heads_of!(
    /// The same, for writing.
    heads_of_mut,
    ViewMut
);
