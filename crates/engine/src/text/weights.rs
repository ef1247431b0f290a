//! Weights of the language model, as stored.

use crate::checkpoint::{Component, StoredDtype, TextConfig};
use crate::load::LoadError;
use crate::ops::{DType, Tensor};
use crate::weights::WeightLoader;

/// Element types that weights may be stored in; products round them to the activations' type.
pub(super) const STORED: [StoredDtype; 3] = [StoredDtype::BF16, StoredDtype::F16, StoredDtype::F32];

/// Loads tensor `name` after checking its shape.
fn load<B>(
    to: &dyn WeightLoader<B>,
    component: &Component,
    name: &str,
    shape: &[usize],
) -> Result<Tensor<B>, LoadError> {
    let stored = component.expect(name, shape, &STORED)?;
    Ok(to.weight(&stored)?)
}

/// Weights of one decoder layer; projections are `[out, in]`.
pub struct LmLayerWeights<B> {
    /// Norm before attention `[hidden]`.
    pub input_norm: Tensor<B>,
    /// Query projection `[query_dim, hidden]`.
    pub q: Tensor<B>,
    /// Key projection `[kv_dim, hidden]`.
    pub k: Tensor<B>,
    /// Value projection `[kv_dim, hidden]`.
    pub v: Tensor<B>,
    /// Norm of each query head `[head_dim]`.
    pub q_norm: Tensor<B>,
    /// Norm of each key head `[head_dim]`.
    pub k_norm: Tensor<B>,
    /// Output projection `[hidden, query_dim]`.
    pub o: Tensor<B>,
    /// Norm before the feed-forward layer `[hidden]`.
    pub post_attention_norm: Tensor<B>,
    /// Gate projection `[intermediate, hidden]`.
    pub gate: Tensor<B>,
    /// Up projection `[intermediate, hidden]`.
    pub up: Tensor<B>,
    /// Down projection `[hidden, intermediate]`.
    pub down: Tensor<B>,
}

impl<B> LmLayerWeights<B> {
    /// Loads layer `index`, for products in `dtype`.
    ///
    /// Errors: [`LoadError::Checkpoint`] for a tensor that is missing or of another shape, by name.
    pub(super) fn load(
        to: &dyn WeightLoader<B>,
        component: &Component,
        config: &TextConfig,
        index: usize,
        dtype: DType,
    ) -> Result<Self, LoadError> {
        let full = |name: &str| format!("model.language_model.layers.{index}.{name}.weight");
        let norm = |name: &str, shape: &[usize]| load(to, component, &full(name), shape);
        let factor = |name: &str, shape: &[usize]| -> Result<Tensor<B>, LoadError> {
            Ok(to.weight_in(&component.expect(&full(name), shape, &STORED)?, dtype)?)
        };
        let &TextConfig { hidden_size, intermediate_size, head_dim, .. } = config;
        let (query_dim, kv_dim) = (config.query_dim(), config.kv_dim());
        Ok(Self {
            input_norm: norm("input_layernorm", &[hidden_size])?,
            q: factor("self_attn.q_proj", &[query_dim, hidden_size])?,
            k: factor("self_attn.k_proj", &[kv_dim, hidden_size])?,
            v: factor("self_attn.v_proj", &[kv_dim, hidden_size])?,
            q_norm: norm("self_attn.q_norm", &[head_dim])?,
            k_norm: norm("self_attn.k_norm", &[head_dim])?,
            o: factor("self_attn.o_proj", &[hidden_size, query_dim])?,
            post_attention_norm: norm("post_attention_layernorm", &[hidden_size])?,
            gate: factor("mlp.gate_proj", &[intermediate_size, hidden_size])?,
            up: factor("mlp.up_proj", &[intermediate_size, hidden_size])?,
            down: factor("mlp.down_proj", &[hidden_size, intermediate_size])?,
        })
    }
}
