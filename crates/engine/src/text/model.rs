//! The text encoder: a prompt's rows in, its embeddings out.

use super::buffers::TextBuffers;
use super::layer::LmLayer;
use super::presentation::Presentation;
use super::rope::rotary_tables;
use super::weights::{LmLayerWeights, load};
use crate::activations::ActivationPlan;
use crate::checkpoint::{Component, TextConfig};
use crate::load::LoadError;
use crate::ops::{DType, Ops, Tensor};
use crate::parallel::Rank;
use crate::run::{Run, RunError};
use crate::weights::{ResidentWeights, WeightSource};

/// Qwen3-VL's language model up to the layer whose output conditions the DiT.
///
/// The conditioning is the residual stream after [`TextConfig::CONDITIONING_LAYERS`] layers, without the final norm.
/// Later layers, the final norm and the vocabulary's head are never read.
pub struct TextEncoder<O: Ops> {
    config: TextConfig,
    dtype: DType,
    feed_forward_bytes: usize,
    embed_tokens: Tensor<O::Buffer>,
    layers: Box<dyn WeightSource<LmLayerWeights<O::Buffer>>>,
    rank: Box<dyn Rank<O>>,
}

impl<O: Ops> TextEncoder<O>
where
    O::Buffer: 'static,
{
    /// Takes the language model of `component`, to compute in `dtype` (F32 or BF16).
    ///
    /// `feed_forward_bytes` bounds the inner activations of a feed-forward layer; it is part of the numerics, since a
    /// matrix product may sum differently for another number of rows.
    ///
    /// Errors: [`LoadError`] naming a tensor that is missing or contradicts `config`.
    pub fn load(
        ops: &O,
        component: &Component,
        config: TextConfig,
        dtype: DType,
        feed_forward_bytes: usize,
        rank: Box<dyn Rank<O>>,
    ) -> Result<Self, LoadError> {
        let table = [config.vocab_size, config.hidden_size];
        let embed_tokens = load(ops, component, "model.language_model.embed_tokens.weight", &table)?;
        let layers = (0..TextConfig::CONDITIONING_LAYERS)
            .map(|index| LmLayerWeights::load(ops, component, &config, index))
            .collect::<Result<_, _>>()?;
        let layers = Box::new(ResidentWeights::new(layers));
        Ok(Self { config, dtype, feed_forward_bytes, embed_tokens, layers, rank })
    }
}

impl<O: Ops> TextEncoder<O> {
    /// Plans the activations of a prompt of `rows` tokens.
    pub fn plan(&self, rows: usize) -> ActivationPlan {
        TextBuffers::<O::Buffer>::plan(&self.config, self.dtype, self.feed_forward_bytes, rows)
    }

    /// Encodes a prompt to its embeddings, `[rows, hidden]` in the encoder's dtype.
    ///
    /// Shows the tap `te.inputs_embeds`, `te.hidden_after_layer_N` and `prompt_embeds`; reports one part per layer.
    ///
    /// Errors: [`RunError::Stopped`] at the next layer once the control says so; [`RunError::Op`],
    /// [`RunError::Weights`].
    pub fn encode(
        &self,
        ops: &O,
        presentation: &Presentation,
        run: &mut Run<'_>,
    ) -> Result<Tensor<O::Buffer>, RunError> {
        let mut buffers = TextBuffers::make(ops, &self.plan(presentation.ids().len()))?;
        let tables = rotary_tables(presentation.positions(), self.config.mrope_section, self.config.rope_theta);
        ops.write(&tables.cos, buffers.cos.view_mut())?;
        ops.write(&tables.sin, buffers.sin.view_mut())?;
        let ids = ops.indices(presentation.ids())?;
        ops.gather_rows(self.embed_tokens.view(), ids.view(), buffers.hidden.view_mut())?;
        show(ops, run, "te.inputs_embeds", &buffers.hidden)?;

        let layer = LmLayer { ops, rank: &*self.rank, config: &self.config };
        for index in 0..self.layers.len() {
            run.check()?;
            layer.forward(&*self.layers.block(index)?, &mut buffers)?;
            show(ops, run, &format!("te.hidden_after_layer_{index}"), &buffers.hidden)?;
            run.part(index + 1, self.layers.len());
        }
        show(ops, run, "prompt_embeds", &buffers.hidden)?;
        Ok(buffers.hidden)
    }
}

/// Shows the tap one tensor.
fn show<O: Ops>(ops: &O, run: &mut Run<'_>, name: &str, x: &Tensor<O::Buffer>) -> Result<(), RunError> {
    Ok(run.tap.see(name, x.shape(), &|| ops.read(x.view()))?)
}
