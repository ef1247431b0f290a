//! The vision tower: patches in, tokens of the language model out.

use std::ops::Range;
use std::sync::Arc;

use super::block::VisionBlock;
use super::buffers::{VisionBuffers, rows_per_batch};
use super::embeds::{VisionEmbeds, VisionFeatures};
use super::merger::{Merger, Normed};
use super::patches::{Patches, VisionInput};
use super::position::{PatchRotary, PositionTaps};
use super::weights::{Loader, MergerWeights, VisionBlockWeights};
use crate::checkpoint::{Component, VisionConfig};
use crate::load::{LoadError, Loading, Passing};
use crate::ops::{DType, OpError, Ops, Tensor};
use crate::projection::Linear;
use crate::run::{Run, RunError};
use crate::weights::{WeightLoader, WeightSource};

/// Qwen3-VL's vision transformer.
///
/// Frames never see each other, so they run in batches: as many as fit the bound on activations, at least one.
///
/// Source: transformers 5.24.0 `Qwen3VLVisionModel`.
pub struct VisionTower<O: Ops> {
    config: VisionConfig,
    dtype: DType,
    activation_bytes: usize,
    patch_embed: Linear<O::Buffer>,
    pos_embed: Tensor<O::Buffer>,
    blocks: Box<dyn WeightSource<O, VisionBlockWeights<O::Buffer>>>,
    merger: MergerWeights<O::Buffer>,
    deepstack_mergers: Vec<MergerWeights<O::Buffer>>,
}

/// One frame of patches: which picture or video, and which of its frames.
type Frame = (usize, usize);

impl<O: Ops + 'static> VisionTower<O>
where
    O::Buffer: 'static,
{
    /// Takes the vision tower of `component`, the text encoder's, to compute in `dtype` (F32 or BF16).
    ///
    /// `activation_bytes` bounds the activations of a batch of frames, and once more the inner ones of a layer; a
    /// single frame is never split. It is part of the numerics, since a matrix product may sum differently for another
    /// number of rows. On the CPU the weights are mapped and not read, so loading costs next to nothing.
    ///
    /// Errors: [`LoadError`] naming a tensor that is missing or contradicts `config`.
    pub fn load(
        ops: &O,
        component: &Arc<Component>,
        config: VisionConfig,
        dtype: DType,
        activation_bytes: usize,
        loading: Loading<'_>,
    ) -> Result<Self, LoadError> {
        let (stored, sizes) = (Arc::clone(component), config.clone());
        let block = move |to: &dyn WeightLoader<_>, index| {
            Loader { to, component: &stored, config: &sizes, dtype }.block(index)
        };
        let blocks = loading.stack(ops, config.depth, Passing::Once, block)?;
        let loader = Loader { to: ops, component, config: &config, dtype };
        let mergers = 0..config.deepstack_visual_indexes.len();
        let deepstack_mergers = mergers.map(|index| loader.deepstack_merger(index)).collect::<Result<_, _>>()?;
        Ok(Self {
            patch_embed: loader.patch_embed()?,
            pos_embed: loader.pos_embed()?,
            blocks,
            merger: loader.merger()?,
            deepstack_mergers,
            dtype,
            activation_bytes,
            config,
        })
    }
}

impl<O: Ops> VisionTower<O> {
    /// Returns the config.
    pub fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// Turns every picture and video of a request into tokens.
    ///
    /// Shows the tap `te.visual.*`, of the pictures or else of the videos, and `te.visual_2.*` of the videos beside
    /// pictures; what belongs to one batch is shown only when there is one. Reports one part per block and batch.
    ///
    /// Errors: [`RunError::Stopped`] at the next block once the control says so; [`RunError::Op`],
    /// [`RunError::Weights`].
    pub fn encode(&self, ops: &O, input: &VisionInput, run: &mut Run<'_>) -> Result<VisionEmbeds<O::Buffer>, RunError> {
        let kinds = [&input.images, &input.videos].map(|media| self.batches(media));
        let mut parts = Parts { done: 0, total: kinds.iter().map(Vec::len).sum::<usize>() * self.blocks.len() };
        let [image_batches, video_batches] = &kinds;
        let mut embeds = VisionEmbeds::none();
        if !input.images.is_empty() {
            embeds.images = Some(self.features(ops, &input.images, image_batches, "te.visual", &mut parts, run)?);
        }
        if !input.videos.is_empty() {
            let scope = if input.images.is_empty() { "te.visual" } else { "te.visual_2" };
            embeds.videos = Some(self.features(ops, &input.videos, video_batches, scope, &mut parts, run)?);
        }
        Ok(embeds)
    }

    /// Groups the frames of all media in order, so that a batch keeps to its bound unless one frame exceeds it.
    fn batches(&self, media: &[Patches]) -> Vec<Vec<Frame>> {
        let most = rows_per_batch(&self.config, self.dtype, self.activation_bytes);
        let (mut batches, mut rows) = (Vec::<Vec<Frame>>::new(), 0);
        for (medium, patches) in media.iter().enumerate() {
            let more = patches.grid().rows_per_frame();
            for frame in 0..patches.grid().frames {
                match batches.last_mut() {
                    Some(batch) if rows + more <= most => {
                        batch.push((medium, frame));
                        rows += more;
                    }
                    _ => {
                        batches.push(vec![(medium, frame)]);
                        rows = more;
                    }
                }
            }
        }
        batches
    }

    /// Runs the batches of one kind of media.
    fn features(
        &self,
        ops: &O,
        media: &[Patches],
        batches: &[Vec<Frame>],
        scope: &str,
        parts: &mut Parts,
        run: &mut Run<'_>,
    ) -> Result<VisionFeatures<O::Buffer>, RunError> {
        let merge = self.config.spatial_merge_size;
        let tokens: usize = media.iter().map(|patches| patches.grid().rows() / (merge * merge)).sum();
        let shape = [tokens, self.config.out_hidden_size];
        let mut features = VisionFeatures {
            pooled: ops.alloc(self.dtype, shape.into())?,
            deepstack: (0..self.deepstack_mergers.len())
                .map(|_| ops.alloc(self.dtype, shape.into()))
                .collect::<Result<_, _>>()?,
        };
        let mut first_token = 0;
        for batch in batches {
            run.check()?;
            let batch = Batch { media, frames: batch, first_token, scope: (batches.len() == 1).then_some(scope) };
            first_token += self.batch(ops, &batch, &mut features, parts, run)?;
        }
        run.show(ops, &format!("{scope}.pooled"), &features.pooled)?;
        for (index, feature) in features.deepstack.iter().enumerate() {
            run.show(ops, &format!("{scope}.deepstack_{index}"), feature)?;
        }
        Ok(features)
    }

    /// Runs one batch into its place among `features` and returns how many tokens it made.
    fn batch(
        &self,
        ops: &O,
        batch: &Batch<'_>,
        features: &mut VisionFeatures<O::Buffer>,
        parts: &mut Parts,
        run: &mut Run<'_>,
    ) -> Result<usize, RunError> {
        let merge = self.config.spatial_merge_size;
        let frames = batch.rows();
        let rows = frames.last().map_or(0, |frame| frame.end);
        let place = batch.first_token..batch.first_token + rows / (merge * merge);
        let plan = VisionBuffers::<O::Buffer>::plan(&self.config, self.dtype, self.activation_bytes, rows);
        let mut buffers = VisionBuffers::make(ops, &plan)?;
        self.embed_patches(ops, batch, &frames, &mut buffers)?;
        let tapped = |name: &str| batch.scope.map(|scope| format!("{scope}.{name}"));
        if let Some(name) = tapped("patch_embed") {
            run.show(ops, &name, &buffers.hidden)?;
        }
        self.add_positions(ops, batch, &mut buffers)?;

        let (block, merger) = (VisionBlock { ops, config: &self.config }, Merger { ops, config: &self.config });
        for index in 0..self.blocks.len() {
            run.check()?;
            if let Some(name) = tapped(&format!("block{index}_in")) {
                run.show(ops, &name, &buffers.hidden)?;
            }
            block.forward(&*self.blocks.block(ops, index)?, &frames, &mut buffers)?;
            if let Some(name) = tapped(&format!("block{index}_out")) {
                run.show(ops, &name, &buffers.hidden)?;
            }
            let taken = self.config.deepstack_visual_indexes.iter().position(|taken| *taken == index);
            if let Some(taken) = taken {
                let tokens = &mut features.deepstack[taken];
                merger.forward(&self.deepstack_mergers[taken], Normed::Merged, &mut buffers, tokens, place.clone())?;
            }
            parts.done += 1;
            run.part(parts.done, parts.total);
        }
        merger.forward(&self.merger, Normed::Patches, &mut buffers, &mut features.pooled, place.clone())?;
        Ok(place.len())
    }

    /// `hidden = patch_embed(pixels)`, as many rows at a time as the buffers hold.
    fn embed_patches(
        &self,
        ops: &O,
        batch: &Batch<'_>,
        frames: &[Range<usize>],
        buffers: &mut VisionBuffers<O::Buffer>,
    ) -> Result<(), OpError> {
        let VisionBuffers { pixels, hidden, .. } = buffers;
        let chunk = pixels.shape()[0];
        for (&(medium, frame), rows) in batch.frames.iter().zip(frames) {
            let patches = &batch.media[medium];
            let first = frame * rows.len();
            for start in (0..rows.len()).step_by(chunk) {
                let part = start..(start + chunk).min(rows.len());
                let held = 0..part.len();
                ops.write(&patches.rows(first + part.start..first + part.end), pixels.rows_mut(held.clone()))?;
                let to = rows.start + part.start..rows.start + part.end;
                self.patch_embed.apply(ops, pixels.rows(held), hidden.rows_mut(to))?;
            }
        }
        Ok(())
    }

    /// Adds the learned positions to `hidden` and fills the rotary tables.
    fn add_positions(&self, ops: &O, batch: &Batch<'_>, buffers: &mut VisionBuffers<O::Buffer>) -> Result<(), OpError> {
        let (mut taps, mut rotary) = (PositionTaps::default(), PatchRotary::default());
        for &(medium, _) in batch.frames {
            let grid = batch.media[medium].grid();
            taps.push_frame(grid, &self.config);
            rotary.push_frame(grid, &self.config);
        }
        let VisionBuffers { hidden, branch, position_weights, cos, sin, .. } = buffers;
        ops.write(&rotary.cos, cos.view_mut())?;
        ops.write(&rotary.sin, sin.view_mut())?;
        ops.write(&taps.weights, position_weights.view_mut())?;
        let rows = ops.indices(&taps.rows)?;
        ops.mix_rows(self.pos_embed.view(), rows.view(), position_weights.view(), branch.view_mut())?;
        ops.add(branch.view(), hidden.view_mut())
    }
}

/// Frames that run together.
struct Batch<'a> {
    media: &'a [Patches],
    frames: &'a [Frame],
    /// Where its tokens begin among those of their kind.
    first_token: usize,
    /// What its tensors are called before a tap; none when it is one of several.
    scope: Option<&'a str>,
}

impl Batch<'_> {
    /// The rows of each frame.
    fn rows(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let rows = self.frames.iter().map(|&(medium, _)| {
            let start = end;
            end += self.media[medium].grid().rows_per_frame();
            start..end
        });
        rows.collect()
    }
}

/// How much of the whole tower's work is done.
struct Parts {
    done: usize,
    total: usize,
}
