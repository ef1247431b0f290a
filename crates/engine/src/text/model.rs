//! The text encoder: a request's rows in, their embeddings out.

use std::sync::Arc;

use super::buffers::TextBuffers;
use super::embedding::TokenEmbeddings;
use super::layer::LmLayer;
use super::presentation::{Presentation, TokenKind};
use super::rope::rotary_tables;
use super::weights::LmLayerWeights;
use crate::activations::ActivationPlan;
use crate::checkpoint::{Component, TextConfig};
use crate::load::{LoadError, Loading, Passing};
use crate::ops::{DType, OpError, Ops, Tensor};
use crate::parallel::Rank;
use crate::run::{Run, RunError};
use crate::vision::{VisionEmbeds, VisionFeatures};
use crate::weights::{WeightLoader, WeightSource};

/// Qwen3-VL's language model up to the layer whose output conditions the DiT.
///
/// The conditioning is the residual stream after [`TextConfig::CONDITIONING_LAYERS`] layers, without the final norm.
/// Later layers, the final norm and the vocabulary's head are never read.
pub struct TextEncoder<O: Ops> {
    config: TextConfig,
    dtype: DType,
    feed_forward_bytes: usize,
    embed_tokens: TokenEmbeddings,
    layers: Box<dyn WeightSource<O, LmLayerWeights<O::Buffer>>>,
    rank: Box<dyn Rank<O>>,
}

impl<O: Ops + 'static> TextEncoder<O>
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
        component: &Arc<Component>,
        config: TextConfig,
        dtype: DType,
        feed_forward_bytes: usize,
        loading: Loading<'_>,
        rank: Box<dyn Rank<O>>,
    ) -> Result<Self, LoadError> {
        let table = [config.vocab_size, config.hidden_size];
        let embed_tokens = TokenEmbeddings::load(component, "model.language_model.embed_tokens.weight", table)?;
        let (stored, sizes) = (Arc::clone(component), config.clone());
        let layer = move |to: &dyn WeightLoader<_>, index| LmLayerWeights::load(to, &stored, &sizes, index, dtype);
        let layers = loading.stack(ops, TextConfig::CONDITIONING_LAYERS, Passing::Once, layer)?;
        Ok(Self { config, dtype, feed_forward_bytes, embed_tokens, layers, rank })
    }
}

impl<O: Ops> TextEncoder<O> {
    /// Plans the activations of `rows` tokens.
    pub fn plan(&self, rows: usize) -> ActivationPlan {
        TextBuffers::<O::Buffer>::plan(&self.config, self.dtype, self.feed_forward_bytes, rows)
    }

    /// Encodes a request to its embeddings, `[rows, hidden]` in the encoder's dtype; `vision` holds the tokens of the
    /// pictures and videos that were presented.
    ///
    /// Shows the tap `te.inputs_embeds`, `te.hidden_after_layer_N` (before a deepstack row is added) and
    /// `prompt_embeds`; reports one part per layer.
    ///
    /// Errors: [`RunError::Stopped`] at the next layer once the control says so; [`RunError::Op`], also when `vision`
    /// has more or fewer tokens than the presentation has places for; [`RunError::Weights`].
    pub fn encode(
        &self,
        ops: &O,
        presentation: &Presentation,
        vision: &VisionEmbeds<O::Buffer>,
        run: &mut Run<'_>,
    ) -> Result<Tensor<O::Buffer>, RunError> {
        let mut buffers = TextBuffers::make(ops, &self.plan(presentation.ids().len()))?;
        let tables = rotary_tables(presentation.positions(), self.config.mrope_section, self.config.rope_theta);
        ops.write(&tables.cos, buffers.cos.view_mut())?;
        ops.write(&tables.sin, buffers.sin.view_mut())?;
        self.embed_tokens.gather(ops, presentation.ids(), buffers.hidden.view_mut())?;
        let seen = [
            Seen::of(ops, presentation, TokenKind::Image, vision.images.as_ref())?,
            Seen::of(ops, presentation, TokenKind::Video, vision.videos.as_ref())?,
        ];
        for seen in seen.iter().flatten() {
            ops.scatter_rows(seen.features.pooled.view(), seen.rows.view(), buffers.hidden.view_mut())?;
        }
        run.show(ops, "te.inputs_embeds", &buffers.hidden)?;

        let layer = LmLayer { ops, rank: &*self.rank, config: &self.config };
        for index in 0..self.layers.len() {
            run.check()?;
            layer.forward(&*self.layers.block(ops, index)?, &mut buffers)?;
            run.show(ops, &format!("te.hidden_after_layer_{index}"), &buffers.hidden)?;
            for seen in seen.iter().flatten() {
                seen.add_deepstack(ops, index, &mut buffers)?;
            }
            run.part(index + 1, self.layers.len());
        }
        self.layers.rest();
        run.show(ops, "prompt_embeds", &buffers.hidden)?;
        Ok(buffers.hidden)
    }
}

/// The tokens of one kind of pixels and the rows that they belong in.
struct Seen<'a, O: Ops> {
    features: &'a VisionFeatures<O::Buffer>,
    rows: Tensor<O::Buffer>,
    count: usize,
}

impl<'a, O: Ops> Seen<'a, O> {
    /// Pairs the placeholders of `kind` with its tokens; none when there are neither.
    fn of(
        ops: &O,
        presentation: &Presentation,
        kind: TokenKind,
        features: Option<&'a VisionFeatures<O::Buffer>>,
    ) -> Result<Option<Self>, OpError> {
        let rows = presentation.rows_of(kind);
        let tokens = features.map_or(0, |features| features.pooled.shape()[0]);
        if rows.len() != tokens {
            let (expected, actual) = (vec![rows.len()], vec![tokens]);
            return Err(OpError::Shape { op: "text_encoder", name: kind.as_str(), expected, actual });
        }
        let Some(features) = features else { return Ok(None) };
        Ok(Some(Self { features, rows: ops.indices(&rows)?, count: rows.len() }))
    }

    /// Adds what the vision tower has for layer `layer` to the rows, if it has anything.
    fn add_deepstack(&self, ops: &O, layer: usize, buffers: &mut TextBuffers<O::Buffer>) -> Result<(), OpError> {
        let Some(feature) = self.features.deepstack.get(layer) else { return Ok(()) };
        let TextBuffers { hidden, branch, .. } = buffers;
        let held = 0..self.count;
        ops.gather_rows(hidden.view(), self.rows.view(), branch.rows_mut(held.clone()))?;
        ops.add(feature.view(), branch.rows_mut(held.clone()))?;
        ops.scatter_rows(branch.rows(held), self.rows.view(), hidden.view_mut())
    }
}
