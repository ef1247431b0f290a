//! The decoder's weights, typed and in the type that they compute in.

use crate::checkpoint::{Component, GateOrder, QkvRows, StoredDtype, VideoVaeConfig};
use crate::load::LoadError;
use crate::ops::{DType, Ops, Tensor};
use crate::projection::{Affine, Linear};

/// One decoder block. Projections are in the compute type, norms and branch scales in F32.
pub struct VitBlockWeights<B> {
    /// `[dim]`.
    pub norm1: Tensor<B>,
    /// Queries, keys and values, `[3 · dim, dim]`, rows in `qkv_rows` order.
    pub qkv: Linear<B>,
    /// How queries, keys and values lie in `qkv`.
    pub qkv_rows: QkvRows,
    /// `[dim, dim]`.
    pub out: Linear<B>,
    /// Scale of the attention branch, `[dim]`.
    pub scale1: Tensor<B>,
    /// `[dim]`.
    pub norm2: Tensor<B>,
    /// Gate and value of the feed-forward layer, `[2 · ffn, dim]`, halves in `gate_order`.
    pub w1: Linear<B>,
    /// Which half of `w1` is the gate.
    pub gate_order: GateOrder,
    /// `[dim, ffn]`.
    pub w2: Linear<B>,
    /// Scale of the feed-forward branch, `[dim]`.
    pub scale2: Tensor<B>,
}

/// Everything of the decoder outside the block stack.
pub struct VitWeights<B> {
    /// The 1x1x1 convolution in front, as a projection over channels `[channels, channels]`.
    pub post_quant_conv: Linear<B>,
    /// Latent channels to the decoder's width.
    pub proj_in: Linear<B>,
    /// Tokens that follow those of the grid, `[registers + 1, dim]`: the learned registers, then one of zeros.
    pub suffix: Tensor<B>,
    /// Weight and bias of the last norm, `[dim]` each; F32.
    pub norm_out: Affine<B>,
    /// Decoder width to the pixels of one patch.
    pub proj_out: Linear<B>,
}

/// Takes tensors of the decoder in its compute type.
pub(super) struct Loader<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) component: &'a Component,
    pub(super) config: &'a VideoVaeConfig,
    pub(super) compute: DType,
}

impl<O: Ops> Loader<'_, O> {
    /// Takes everything outside the block stack.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn frame(&self) -> Result<VitWeights<O::Buffer>, LoadError> {
        let config = self.config;
        let (dim, channels) = (config.decoder_dim(), config.latent_channels);
        let side = config.spatial_compression();
        let patch = config.out_channels * config.temporal_compression() * side * side;
        Ok(VitWeights {
            post_quant_conv: self.post_quant_conv()?,
            proj_in: self.linear("decoder.x_embedder", dim, channels)?,
            suffix: self.suffix()?,
            norm_out: Affine::take("decoder.norm_out", dim, |name, shape| self.pinned(name, shape))?,
            proj_out: self.linear("decoder.proj_out", patch, dim)?,
        })
    }

    /// Takes block `index`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn block(&self, index: usize) -> Result<VitBlockWeights<O::Buffer>, LoadError> {
        let (dim, ffn) = (self.config.decoder_dim(), self.config.decoder_ffn_dim());
        let name = |leaf: &str| format!("decoder.transformer_blocks.{index}.{leaf}");
        Ok(VitBlockWeights {
            norm1: self.pinned(&name("norm1.weight"), &[dim])?,
            qkv: self.linear(&name("attn.to_qkv"), 3 * dim, dim)?,
            qkv_rows: self.component.qkv_rows(),
            out: self.linear(&name("attn.to_out"), dim, dim)?,
            scale1: self.pinned(&name("scale1"), &[dim])?,
            norm2: self.pinned(&name("norm2.weight"), &[dim])?,
            w1: self.linear(&name("ff.w1"), 2 * ffn, dim)?,
            gate_order: self.component.gate_order(),
            w2: self.linear(&name("ff.w2"), dim, ffn)?,
            scale2: self.pinned(&name("scale2"), &[dim])?,
        })
    }

    fn post_quant_conv(&self) -> Result<Linear<O::Buffer>, LoadError> {
        let channels = self.config.latent_channels;
        let kernel = self.component.expect_values("post_quant_conv.weight", &[channels, channels, 1, 1, 1])?;
        let mut weight = self.ops.alloc(self.compute, [channels, channels].into())?;
        self.ops.write(&kernel, weight.view_mut())?;
        Ok(Linear { weight, bias: self.computed("post_quant_conv.bias", &[channels])? })
    }

    fn suffix(&self) -> Result<Tensor<O::Buffer>, LoadError> {
        let (registers, dim) = (self.config.decoder_num_register_tokens, self.config.decoder_dim());
        let mut rows = self.component.expect_values("decoder.register_tokens", &[1, registers, dim])?;
        rows.resize((registers + 1) * dim, 0.0);
        let mut suffix = self.ops.alloc(self.compute, [registers + 1, dim].into())?;
        self.ops.write(&rows, suffix.view_mut())?;
        Ok(suffix)
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear<O::Buffer>, LoadError> {
        Linear::take(name, [outputs, inputs], |name, shape| self.computed(name, shape))
    }

    /// A tensor that stays F32.
    fn pinned(&self, name: &str, shape: &[usize]) -> Result<Tensor<O::Buffer>, LoadError> {
        Ok(self.ops.weight(&self.component.expect(name, shape, &[StoredDtype::F32])?)?)
    }

    /// A tensor rounded to the compute type.
    fn computed(&self, name: &str, shape: &[usize]) -> Result<Tensor<O::Buffer>, LoadError> {
        let stored = self.pinned(name, shape)?;
        if stored.dtype() == self.compute {
            return Ok(stored);
        }
        let mut rounded = self.ops.alloc(self.compute, shape.into())?;
        self.ops.cast(stored.view(), rounded.view_mut())?;
        Ok(rounded)
    }
}
