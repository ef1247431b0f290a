//! The transformer's weights, as the checkpoint names and stores them.

use crate::checkpoint::{Component, GateOrder, QkvRows};
use crate::load::LoadError;
use crate::ops::{DType, Tensor};
use crate::projection::Linear;
use crate::weights::WeightLoader;

/// Queries, keys and values of one attention, and its output projection.
pub struct AttentionWeights<B> {
    /// `[3 · inner, hidden]`, rows in `qkv_rows` order.
    pub qkv: Tensor<B>,
    /// How queries, keys and values lie in `qkv`.
    pub qkv_rows: QkvRows,
    /// Norm of a query head, `[head_dim]`.
    pub q_norm: Tensor<B>,
    /// Norm of a key head, `[head_dim]`.
    pub k_norm: Tensor<B>,
    /// `[hidden, inner]`.
    pub out: Tensor<B>,
}

/// A gated feed-forward layer.
pub struct FeedForwardWeights<B> {
    /// `[2 · ffn, hidden]`, halves in `order`.
    pub fc1: Tensor<B>,
    /// Which half of `fc1` is the gate.
    pub order: GateOrder,
    /// `[hidden, ffn]`.
    pub fc2: Tensor<B>,
}

/// One token refiner block.
pub struct RefinerBlockWeights<B> {
    /// `[hidden]`.
    pub norm1: Tensor<B>,
    /// Attention over the text rows.
    pub attention: AttentionWeights<B>,
    /// `[hidden]`.
    pub norm2: Tensor<B>,
    /// The feed-forward layer.
    pub feed_forward: FeedForwardWeights<B>,
}

/// One DiT block without its AdaLN projection, which is two fifths of what the checkpoint has of it.
pub struct DitBlockWeights<B> {
    /// `[hidden]`.
    pub norm1: Tensor<B>,
    /// Attention over the whole sequence.
    pub attention: AttentionWeights<B>,
    /// `[hidden]`.
    pub norm2: Tensor<B>,
    /// The feed-forward layer.
    pub feed_forward: FeedForwardWeights<B>,
}

/// What only the beginning of a request needs, outside the refiner's blocks.
pub(super) struct DitStartWeights<B> {
    /// Prompt embeddings to the hidden width.
    pub condition_proj: Linear<B>,
    /// First half of the timestep MLP; F32.
    pub time_in: Linear<B>,
    /// Second half of the timestep MLP; F32.
    pub time_out: Linear<B>,
    /// Norm after the refiner, `[hidden]`.
    pub refiner_norm: Tensor<B>,
}

/// What every step needs outside the block stack.
pub struct DitWeights<B> {
    /// Video rows to the hidden width; F32.
    pub video_patch_proj: Linear<B>,
    /// Audio rows to the hidden width; F32.
    pub audio_patch_proj: Linear<B>,
    /// Norm before the heads, `[hidden]`.
    pub final_norm: Tensor<B>,
    /// Timestep embedding to the final shift and scale, `[2 · hidden, time_embed_dim]`.
    pub final_adaln: Linear<B>,
    /// Head of the video rows; F32.
    pub video_out: Linear<B>,
    /// Head of the audio rows; F32.
    pub audio_out: Linear<B>,
}

impl<B> DitWeights<B> {
    /// Takes the weights outside the block stack, for products in `dtype`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn load(to: &dyn WeightLoader<B>, component: &Component, dtype: DType) -> Result<Self, LoadError> {
        let pinned = |name: &str| load_linear(to, component, name, DType::F32);
        Ok(Self {
            video_patch_proj: pinned("video_patch_proj")?,
            audio_patch_proj: pinned("audio_patch_proj")?,
            final_norm: load(to, component, "final_layer.norm.weight")?,
            final_adaln: load_linear(to, component, "final_layer.adaln_proj.linear", dtype)?,
            video_out: pinned("final_layer.video_out")?,
            audio_out: pinned("final_layer.audio_out")?,
        })
    }
}

impl<B> DitStartWeights<B> {
    /// Takes what a request begins with, for products in `dtype`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn load(to: &dyn WeightLoader<B>, component: &Component, dtype: DType) -> Result<Self, LoadError> {
        Ok(Self {
            condition_proj: load_linear(to, component, "condition_proj", dtype)?,
            time_in: load_linear(to, component, "time_embedder.proj_in", DType::F32)?,
            time_out: load_linear(to, component, "time_embedder.proj_out", DType::F32)?,
            refiner_norm: load(to, component, "token_refiner.final_norm.weight")?,
        })
    }
}

impl<B> RefinerBlockWeights<B> {
    /// Takes the weights of refiner block `index`, for products in `dtype`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn load(
        to: &dyn WeightLoader<B>,
        component: &Component,
        index: usize,
        dtype: DType,
    ) -> Result<Self, LoadError> {
        let prefix = format!("token_refiner.blocks.{index}");
        Ok(Self {
            norm1: load(to, component, &format!("{prefix}.norm1.weight"))?,
            attention: AttentionWeights::load(to, component, &prefix, dtype)?,
            norm2: load(to, component, &format!("{prefix}.norm2.weight"))?,
            feed_forward: FeedForwardWeights::load(to, component, &prefix, dtype)?,
        })
    }
}

impl<B> DitBlockWeights<B> {
    /// Takes the weights of block `index`, for products in `dtype`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub(super) fn load(
        to: &dyn WeightLoader<B>,
        component: &Component,
        index: usize,
        dtype: DType,
    ) -> Result<Self, LoadError> {
        let prefix = format!("blocks.{index}");
        Ok(Self {
            norm1: load(to, component, &format!("{prefix}.norm1.weight"))?,
            attention: AttentionWeights::load(to, component, &prefix, dtype)?,
            norm2: load(to, component, &format!("{prefix}.norm2.weight"))?,
            feed_forward: FeedForwardWeights::load(to, component, &prefix, dtype)?,
        })
    }
}

/// Takes the AdaLN projection of block `index`, timestep embedding to modulation, `[18 · hidden, time_embed_dim]`.
///
/// Errors: [`LoadError`] naming the tensor.
pub(super) fn load_adaln<B>(
    to: &dyn WeightLoader<B>,
    component: &Component,
    index: usize,
    dtype: DType,
) -> Result<Linear<B>, LoadError> {
    load_linear(to, component, &format!("blocks.{index}.adaln_proj.linear"), dtype)
}

impl<B> AttentionWeights<B> {
    fn load(to: &dyn WeightLoader<B>, component: &Component, prefix: &str, dtype: DType) -> Result<Self, LoadError> {
        Ok(Self {
            qkv: load_factor(to, component, &format!("{prefix}.attn.qkv_proj.weight"), dtype)?,
            qkv_rows: component.qkv_rows(),
            q_norm: load(to, component, &format!("{prefix}.attn.q_norm.weight"))?,
            k_norm: load(to, component, &format!("{prefix}.attn.k_norm.weight"))?,
            out: load_factor(to, component, &format!("{prefix}.attn.out_proj.weight"), dtype)?,
        })
    }
}

impl<B> FeedForwardWeights<B> {
    fn load(to: &dyn WeightLoader<B>, component: &Component, prefix: &str, dtype: DType) -> Result<Self, LoadError> {
        Ok(Self {
            fc1: load_factor(to, component, &format!("{prefix}.mlp.fc1.weight"), dtype)?,
            order: component.gate_order(),
            fc2: load_factor(to, component, &format!("{prefix}.mlp.fc2.weight"), dtype)?,
        })
    }
}

fn load<B>(to: &dyn WeightLoader<B>, component: &Component, name: &str) -> Result<Tensor<B>, LoadError> {
    Ok(to.weight(&component.get(name)?)?)
}

/// Loads a factor of products in `dtype`.
fn load_factor<B>(
    to: &dyn WeightLoader<B>,
    component: &Component,
    name: &str,
    dtype: DType,
) -> Result<Tensor<B>, LoadError> {
    Ok(to.weight_in(&component.get(name)?, dtype)?)
}

fn load_linear<B>(
    to: &dyn WeightLoader<B>,
    component: &Component,
    name: &str,
    dtype: DType,
) -> Result<Linear<B>, LoadError> {
    Ok(Linear {
        weight: load_factor(to, component, &format!("{name}.weight"), dtype)?,
        bias: load_factor(to, component, &format!("{name}.bias"), dtype)?,
    })
}
