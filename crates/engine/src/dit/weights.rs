//! The transformer's weights, as the checkpoint names and stores them.

use crate::checkpoint::{Component, DitConfig, GateOrder, QkvRows};
use crate::load::LoadError;
use crate::ops::{DType, Ops, Tensor};
use crate::projection::Linear;

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

/// Everything outside the block stack.
pub struct DitWeights<B> {
    /// Video rows to the hidden width; F32.
    pub video_patch_proj: Linear<B>,
    /// Audio rows to the hidden width; F32.
    pub audio_patch_proj: Linear<B>,
    /// Prompt embeddings to the hidden width.
    pub condition_proj: Linear<B>,
    /// First half of the timestep MLP; F32.
    pub time_in: Linear<B>,
    /// Second half of the timestep MLP; F32.
    pub time_out: Linear<B>,
    /// Refiner blocks.
    pub refiner: Vec<RefinerBlockWeights<B>>,
    /// Norm after the refiner, `[hidden]`.
    pub refiner_norm: Tensor<B>,
    /// Norm before the heads, `[hidden]`.
    pub final_norm: Tensor<B>,
    /// Timestep embedding to the final shift and scale, `[2 · hidden, time_embed_dim]`.
    pub final_adaln: Linear<B>,
    /// Head of the video rows; F32.
    pub video_out: Linear<B>,
    /// Head of the audio rows; F32.
    pub audio_out: Linear<B>,
}

impl<B: Send + Sync> DitWeights<B> {
    /// Takes the weights outside the block stack, for products in `dtype`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub fn load<O: Ops<Buffer = B>>(
        ops: &O,
        component: &Component,
        config: &DitConfig,
        dtype: DType,
    ) -> Result<Self, LoadError> {
        let pinned = |name: &str| load_linear(ops, component, name, DType::F32);
        let linear = |name: &str| load_linear(ops, component, name, dtype);
        let refiner = (0..config.num_refiner_layers)
            .map(|index| {
                let prefix = format!("token_refiner.blocks.{index}");
                Ok(RefinerBlockWeights {
                    norm1: load(ops, component, &format!("{prefix}.norm1.weight"))?,
                    attention: AttentionWeights::load(ops, component, &prefix, dtype)?,
                    norm2: load(ops, component, &format!("{prefix}.norm2.weight"))?,
                    feed_forward: FeedForwardWeights::load(ops, component, &prefix, dtype)?,
                })
            })
            .collect::<Result<_, LoadError>>()?;
        Ok(Self {
            video_patch_proj: pinned("video_patch_proj")?,
            audio_patch_proj: pinned("audio_patch_proj")?,
            condition_proj: linear("condition_proj")?,
            time_in: pinned("time_embedder.proj_in")?,
            time_out: pinned("time_embedder.proj_out")?,
            refiner,
            refiner_norm: load(ops, component, "token_refiner.final_norm.weight")?,
            final_norm: load(ops, component, "final_layer.norm.weight")?,
            final_adaln: linear("final_layer.adaln_proj.linear")?,
            video_out: pinned("final_layer.video_out")?,
            audio_out: pinned("final_layer.audio_out")?,
        })
    }
}

impl<B: Send + Sync> DitBlockWeights<B> {
    /// Takes the weights of block `index`, for products in `dtype`.
    ///
    /// Errors: [`LoadError`] naming the tensor.
    pub fn load<O: Ops<Buffer = B>>(
        ops: &O,
        component: &Component,
        index: usize,
        dtype: DType,
    ) -> Result<Self, LoadError> {
        let prefix = format!("blocks.{index}");
        Ok(Self {
            norm1: load(ops, component, &format!("{prefix}.norm1.weight"))?,
            attention: AttentionWeights::load(ops, component, &prefix, dtype)?,
            norm2: load(ops, component, &format!("{prefix}.norm2.weight"))?,
            feed_forward: FeedForwardWeights::load(ops, component, &prefix, dtype)?,
        })
    }
}

/// Takes the AdaLN projection of block `index`, timestep embedding to modulation, `[18 · hidden, time_embed_dim]`.
///
/// Errors: [`LoadError`] naming the tensor.
pub(super) fn load_adaln<O: Ops>(
    ops: &O,
    component: &Component,
    index: usize,
    dtype: DType,
) -> Result<Linear<O::Buffer>, LoadError> {
    load_linear(ops, component, &format!("blocks.{index}.adaln_proj.linear"), dtype)
}

impl<B: Send + Sync> AttentionWeights<B> {
    fn load<O: Ops<Buffer = B>>(ops: &O, component: &Component, prefix: &str, dtype: DType) -> Result<Self, LoadError> {
        Ok(Self {
            qkv: load_factor(ops, component, &format!("{prefix}.attn.qkv_proj.weight"), dtype)?,
            qkv_rows: component.qkv_rows(),
            q_norm: load(ops, component, &format!("{prefix}.attn.q_norm.weight"))?,
            k_norm: load(ops, component, &format!("{prefix}.attn.k_norm.weight"))?,
            out: load_factor(ops, component, &format!("{prefix}.attn.out_proj.weight"), dtype)?,
        })
    }
}

impl<B: Send + Sync> FeedForwardWeights<B> {
    fn load<O: Ops<Buffer = B>>(ops: &O, component: &Component, prefix: &str, dtype: DType) -> Result<Self, LoadError> {
        Ok(Self {
            fc1: load_factor(ops, component, &format!("{prefix}.mlp.fc1.weight"), dtype)?,
            order: component.gate_order(),
            fc2: load_factor(ops, component, &format!("{prefix}.mlp.fc2.weight"), dtype)?,
        })
    }
}

fn load<O: Ops>(ops: &O, component: &Component, name: &str) -> Result<Tensor<O::Buffer>, LoadError> {
    Ok(ops.weight(&component.get(name)?)?)
}

/// Loads a factor of products in `dtype`.
fn load_factor<O: Ops>(
    ops: &O,
    component: &Component,
    name: &str,
    dtype: DType,
) -> Result<Tensor<O::Buffer>, LoadError> {
    Ok(ops.weight_in(&component.get(name)?, dtype)?)
}

fn load_linear<O: Ops>(
    ops: &O,
    component: &Component,
    name: &str,
    dtype: DType,
) -> Result<Linear<O::Buffer>, LoadError> {
    Ok(Linear {
        weight: load_factor(ops, component, &format!("{name}.weight"), dtype)?,
        bias: load_factor(ops, component, &format!("{name}.bias"), dtype)?,
    })
}
