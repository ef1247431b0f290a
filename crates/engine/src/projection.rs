//! Projections and norms that several networks share.

use crate::checkpoint::QkvRows;
use crate::load::LoadError;
use crate::ops::{OpError, Ops, Tensor, View, ViewMut};

/// A projection with a bias.
pub struct Linear<B> {
    /// `[out, in]`.
    pub weight: Tensor<B>,
    /// `[out]`.
    pub bias: Tensor<B>,
}

impl<B> Linear<B> {
    /// Takes the weight `[outputs, inputs]` and the bias of the projection `name`, each by `tensor`.
    ///
    /// Errors: what `tensor` gives.
    pub(crate) fn take(
        name: &str,
        [outputs, inputs]: [usize; 2],
        tensor: impl Fn(&str, &[usize]) -> Result<Tensor<B>, LoadError>,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            weight: tensor(&format!("{name}.weight"), &[outputs, inputs])?,
            bias: tensor(&format!("{name}.bias"), &[outputs])?,
        })
    }

    /// `y = x · weightᵀ + bias`.
    ///
    /// Errors: [`OpError`] when shapes do not fit.
    pub fn apply<O: Ops<Buffer = B>>(&self, ops: &O, x: View<'_, B>, y: ViewMut<'_, B>) -> Result<(), OpError> {
        ops.linear(self.weight.view(), Some(self.bias.view()), x, y)
    }
}

/// A norm with a bias.
pub struct Affine<B> {
    /// `[dim]`.
    pub weight: Tensor<B>,
    /// `[dim]`.
    pub bias: Tensor<B>,
}

impl<B> Affine<B> {
    /// Takes weight and bias `[width]` of the norm `name`, each by `tensor`.
    ///
    /// Errors: what `tensor` gives.
    pub(crate) fn take(
        name: &str,
        width: usize,
        tensor: impl Fn(&str, &[usize]) -> Result<Tensor<B>, LoadError>,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            weight: tensor(&format!("{name}.weight"), &[width])?,
            bias: tensor(&format!("{name}.bias"), &[width])?,
        })
    }

    /// `y = LayerNorm(x) · weight + bias`.
    ///
    /// Errors: [`OpError`] when shapes do not fit.
    pub fn layer_norm<O: Ops<Buffer = B>>(
        &self,
        ops: &O,
        x: View<'_, B>,
        eps: f32,
        y: ViewMut<'_, B>,
    ) -> Result<(), OpError> {
        ops.layer_norm(x, self.weight.view(), self.bias.view(), eps, y)
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
