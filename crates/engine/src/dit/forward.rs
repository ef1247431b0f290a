//! The transformer as a whole: begin a request, predict the velocities of a step.

use std::ops::Range;
use std::sync::Arc;

use clapboard_h3::packing::PackedLayout;

use super::adaln::{AdalnCache, ScheduleModulations};
use super::buffers::{DitBuffers, DitShape};
use super::layers::Layers;
use super::refiner::{self, RefinerWeights};
use super::request::{DitRequest, Fixed, StepRows, StepTimesteps};
use super::rotary::{RotaryTables, rotary_tables};
use super::timestep::sinusoid;
use super::weights::{DitBlockWeights, DitStartWeights, DitWeights, RefinerBlockWeights, load_adaln};
use crate::checkpoint::{Component, DitConfig};
use crate::engine::MemoryBounds;
use crate::load::{LoadError, Loading, Passing};
use crate::ops::{Activation, DType, Modulation, OpError, Ops, Tensor, View};
use crate::parallel::Rank;
use crate::projection::Linear;
use crate::run::{Run, RunError};
use crate::tap::Tap;
use crate::weights::{WeightLoader, WeightSource};

/// How a transformer computes.
#[derive(Debug, Clone)]
pub struct DitOptions {
    /// F32 or BF16.
    pub dtype: DType,
    /// Bounds of its buffers.
    pub memory: MemoryBounds,
    /// Keeps modulations between requests; one transformer's alone.
    pub modulations: Arc<AdalnCache>,
}

/// A loaded diffusion transformer.
pub struct Dit<O: Ops> {
    config: DitConfig,
    options: DitOptions,
    weights: DitWeights<O::Buffer>,
    /// One block of its own.
    start: Box<dyn WeightSource<O, DitStartWeights<O::Buffer>>>,
    refiner: Box<dyn WeightSource<O, RefinerBlockWeights<O::Buffer>>>,
    blocks: Box<dyn WeightSource<O, DitBlockWeights<O::Buffer>>>,
    adaln: Box<dyn WeightSource<O, Linear<O::Buffer>>>,
    rank: Box<dyn Rank<O>>,
}

impl<O: Ops + 'static> Dit<O>
where
    O::Buffer: 'static,
{
    /// Takes the transformer of `component`.
    ///
    /// The parts that the checkpoint keeps in F32 stay so: patch projections, timestep MLP, heads.
    ///
    /// Errors: [`LoadError`] naming a missing or ill-shaped tensor; [`LoadError::Stopped`].
    pub fn load(
        ops: &O,
        component: &Arc<Component>,
        config: DitConfig,
        options: DitOptions,
        loading: Loading<'_>,
        rank: Box<dyn Rank<O>>,
    ) -> Result<Self, LoadError> {
        let (dtype, layers) = (options.dtype, config.num_layers);
        let stored = Arc::clone(component);
        let block = move |to: &dyn WeightLoader<_>, index| DitBlockWeights::load(to, &stored, index, dtype);
        let stored = Arc::clone(component);
        let adaln = move |to: &dyn WeightLoader<_>, index| load_adaln(to, &stored, index, dtype);
        let stored = Arc::clone(component);
        let start = move |to: &dyn WeightLoader<_>, _| DitStartWeights::load(to, &stored, dtype);
        let stored = Arc::clone(component);
        let refiner = move |to: &dyn WeightLoader<_>, index| RefinerBlockWeights::load(to, &stored, index, dtype);
        Ok(Self {
            weights: DitWeights::load(ops, component, dtype)?,
            start: loading.stack(ops, 1, Passing::Once, start)?,
            refiner: loading.stack(ops, config.num_refiner_layers, Passing::Once, refiner)?,
            blocks: loading.stack(ops, layers, Passing::EveryStep, block)?,
            adaln: loading.stack(ops, layers, Passing::Once, adaln)?,
            config,
            options,
            rank,
        })
    }

    /// Returns the sizes of the network.
    pub fn config(&self) -> &DitConfig {
        &self.config
    }

    fn layers<'a>(&'a self, ops: &'a O) -> Layers<'a, O> {
        Layers { ops, rank: &*self.rank, config: &self.config }
    }

    /// Does what every step shares: refines the text and makes tables, timestep embeddings and buffers.
    ///
    /// `prompt_embeds` `[text_rows, text_dim]`; `video_timesteps` and `audio_timesteps` hold one value a step.
    ///
    /// Errors: [`RunError`] when an operation fails or the run is stopped.
    pub fn begin(
        &self,
        ops: &O,
        layout: &PackedLayout,
        prompt_embeds: View<'_, O::Buffer>,
        video_timesteps: &[f32],
        audio_timesteps: &[f32],
        run: &mut Run<'_>,
    ) -> Result<DitRequest<O::Buffer>, RunError> {
        let config = &self.config;
        let steps = StepTimesteps::schedule(layout, video_timesteps, audio_timesteps);
        let shape = DitShape::of(layout, &steps, self.options.memory);
        // First of all: a sequence that memory has no room for is refused before its tables are computed.
        let buffers = DitBuffers::make(ops, &DitBuffers::<O::Buffer>::plan(config, self.options.dtype, &shape))?;
        let plan = refiner::plan(config, self.options.dtype, layout.text_rows, self.options.memory);
        let start = self.start.block(ops, 0)?;
        let text = self.layers(ops).refine(
            RefinerWeights { start: &start, blocks: &*self.refiner },
            &plan,
            prompt_embeds,
            run,
        )?;
        self.refiner.rest();
        let rotary = self.rotary(ops, layout, run)?;
        let activated = self.embed_timesteps(ops, &start, &steps, run)?;
        drop(start);
        self.start.rest();
        let (adaln, width) = (&*self.adaln, config.adaln_features());
        let cache = &self.options.modulations;
        let modulations = ScheduleModulations::project(ops, adaln, width, (&steps, &activated), cache, run)?;
        self.adaln.rest();
        ops.trim()?;
        let text_indices: Vec<u32> = (0..layout.text_rows as u32).collect();
        let fixed = Fixed {
            text,
            rotary,
            activated,
            modulations,
            text_indices: ops.indices(&text_indices)?,
            video_indices: ops.indices(&layout.video_indices)?,
            audio_indices: ops.indices(&layout.audio_indices)?,
            step_rows: steps.iter().map(|step| StepRows::upload(ops, step)).collect::<Result<_, _>>()?,
        };
        Ok(DitRequest { buffers, fixed, modulated: None })
    }

    fn rotary(&self, ops: &O, layout: &PackedLayout, run: &mut Run<'_>) -> Result<RotaryTables<O::Buffer>, OpError> {
        let (cos, sin) = rotary_tables(&layout.positions, self.config.rope_freq_dim, self.config.rope_theta);
        let shape = [layout.rows(), 6 * self.config.rope_freq_dim];
        run.tap.see("dit.rope_cos", &shape, &|| Ok(cos.clone()))?;
        run.tap.see("dit.rope_sin", &shape, &|| Ok(sin.clone()))?;
        RotaryTables::upload(ops, layout.rows(), &cos, &sin)
    }

    /// Runs the timestep MLP over every step of the schedule, activated for the AdaLN projections: F32 inside, rounded to
    /// the compute dtype after the activation.
    fn embed_timesteps(
        &self,
        ops: &O,
        start: &DitStartWeights<O::Buffer>,
        steps: &[StepTimesteps],
        run: &mut Run<'_>,
    ) -> Result<Tensor<O::Buffer>, OpError> {
        let config = &self.config;
        let count = steps.first().map_or(1, |step| step.unique.len());
        let mut sinusoids = ops.alloc(DType::F32, [count, config.freq_dim].into())?;
        let mut inner = ops.alloc(DType::F32, [count, config.time_embed_hidden_dim].into())?;
        let mut inner_activated = ops.alloc(DType::F32, [count, config.time_embed_hidden_dim].into())?;
        let mut embedded = ops.alloc(DType::F32, [count, config.time_embed_dim].into())?;
        let mut activated = ops.alloc(self.options.dtype, [steps.len().max(1), count, config.time_embed_dim].into())?;
        for (index, step) in steps.iter().enumerate() {
            let values = sinusoid(&step.unique, config.freq_dim);
            ops.write(&values, sinusoids.view_mut())?;
            start.time_in.apply(ops, sinusoids.view(), inner.view_mut())?;
            ops.activate(Activation::Silu, inner.view(), inner_activated.view_mut())?;
            start.time_out.apply(ops, inner_activated.view(), embedded.view_mut())?;
            ops.activate(Activation::Silu, embedded.view(), activated.view_mut().select(0, index))?;
            if index == 0 {
                let distinct = step.distinct;
                let shape = [distinct, config.freq_dim];
                run.tap.see("dit.time_sinusoid", &shape, &|| ops.read(sinusoids.rows(0..distinct)))?;
                let shape = [distinct, config.time_embed_dim];
                run.tap.see("dit.temb", &shape, &|| ops.read(embedded.rows(0..distinct)))?;
            }
        }
        Ok(activated)
    }

    /// Predicts the velocities of `step` from F32 rows, conditions first: `video_rows` `[video_rows, 4 · channels]`,
    /// `audio_rows` `[audio_rows, channels]`. They are left in the request's buffers.
    ///
    /// Errors: [`RunError`] when an operation fails or the run is stopped.
    pub fn forward(
        &self,
        ops: &O,
        request: &mut DitRequest<O::Buffer>,
        step: usize,
        video_rows: View<'_, O::Buffer>,
        audio_rows: View<'_, O::Buffer>,
        run: &mut Run<'_>,
    ) -> Result<(), RunError> {
        request.modulate(ops, step)?;
        let DitRequest { buffers, fixed, .. } = request;
        let tap = (step == 0).then_some(&mut *run.tap);
        self.embed_rows(ops, buffers, fixed, video_rows, audio_rows, tap)?;
        self.run_blocks(ops, buffers, fixed, step, run)?;
        self.predict(ops, buffers, fixed, step, run)?;
        Ok(())
    }

    fn embed_rows(
        &self,
        ops: &O,
        buffers: &mut DitBuffers<O::Buffer>,
        fixed: &Fixed<O::Buffer>,
        video_rows: View<'_, O::Buffer>,
        audio_rows: View<'_, O::Buffer>,
        tap: Option<&mut (dyn Tap + '_)>,
    ) -> Result<(), OpError> {
        let DitBuffers { hidden, embeds, .. } = buffers;
        ops.scatter_rows(fixed.text.view(), fixed.text_indices.view(), hidden.view_mut())?;
        for (projection, rows, indices) in [
            (&self.weights.video_patch_proj, video_rows, &fixed.video_indices),
            (&self.weights.audio_patch_proj, audio_rows, &fixed.audio_indices),
        ] {
            for chunk in chunks(rows.len_rows(), embeds.shape()[0]) {
                let here = 0..chunk.len();
                projection.apply(ops, rows.rows(chunk.clone()), embeds.rows_mut(here.clone()))?;
                ops.scatter_rows(embeds.rows(here), indices.rows(chunk), hidden.view_mut())?;
            }
        }
        if let Some(tap) = tap {
            // Whole, as they are compared; nobody else makes them so.
            let whole = |projection: &Linear<O::Buffer>, rows: View<'_, O::Buffer>| {
                let mut embeds = ops.alloc(DType::F32, [rows.len_rows(), self.config.hidden_size].into())?;
                projection.apply(ops, rows, embeds.view_mut())?;
                ops.read(embeds.view())
            };
            let shape = |rows: View<'_, O::Buffer>| [rows.len_rows(), self.config.hidden_size];
            let (video, audio) = (&self.weights.video_patch_proj, &self.weights.audio_patch_proj);
            tap.see("dit.video_embeds", &shape(video_rows), &|| whole(video, video_rows))?;
            tap.see("dit.audio_embeds", &shape(audio_rows), &|| whole(audio, audio_rows))?;
            tap.see("dit.block0_in", hidden.shape(), &|| ops.read(hidden.view()))?;
        }
        Ok(())
    }

    /// Runs block `index` of step 0 alone over the residual stream that the request's buffers hold, for who measures or
    /// compares it. The tap sees it as the first block.
    ///
    /// Errors: [`RunError`] when an operation fails.
    pub(crate) fn run_block(
        &self,
        ops: &O,
        request: &mut DitRequest<O::Buffer>,
        index: usize,
        run: &mut Run<'_>,
    ) -> Result<(), RunError> {
        request.modulate(ops, 0)?;
        let DitRequest { buffers, fixed, .. } = request;
        let weights = self.blocks.block(ops, index)?;
        Ok(self.layers(ops).block(&weights, &fixed.block_inputs(0, index), buffers, Some(&mut *run.tap))?)
    }

    fn run_blocks(
        &self,
        ops: &O,
        buffers: &mut DitBuffers<O::Buffer>,
        fixed: &Fixed<O::Buffer>,
        step: usize,
        run: &mut Run<'_>,
    ) -> Result<(), RunError> {
        let (layers, total) = (self.layers(ops), self.blocks.len());
        for index in 0..total {
            run.check()?;
            let weights = self.blocks.block(ops, index)?;
            let tap = (step == 0 && index == 0).then_some(&mut *run.tap);
            layers.block(&weights, &fixed.block_inputs(step, index), buffers, tap)?;
            run.part(step * total + index + 1, fixed.step_rows.len() * total);
        }
        if step == 0 {
            let hidden = &buffers.hidden;
            run.tap.see("dit.last_block_out", hidden.shape(), &|| ops.read(hidden.view()))?;
        }
        Ok(())
    }

    /// Final norm with its own shift and scale per timestep, then the two F32 heads over their rows.
    fn predict(
        &self,
        ops: &O,
        buffers: &mut DitBuffers<O::Buffer>,
        fixed: &Fixed<O::Buffer>,
        step: usize,
        run: &mut Run<'_>,
    ) -> Result<(), OpError> {
        let hidden_size = self.config.hidden_size;
        let DitBuffers { hidden, normed, final_modulation, embeds, video_velocity, audio_velocity, .. } = buffers;
        self.weights.final_adaln.apply(ops, fixed.activated.view().select(0, step), final_modulation.view_mut())?;
        let chunk = |start: usize| final_modulation.view().narrow(1, start..start + hidden_size);
        let modulation =
            Modulation { shift: chunk(0), scale: chunk(hidden_size), rows: fixed.step_rows[step].timestep_rows.view() };
        let eps = self.config.final_norm_eps as f32;
        ops.rms_norm_modulate(hidden.view(), self.weights.final_norm.view(), eps, modulation, normed.view_mut())?;
        if step == 0 {
            run.tap.see("dit.norm_out", normed.shape(), &|| ops.read(normed.view()))?;
        }
        for (head, indices, velocity) in [
            (&self.weights.video_out, &fixed.video_indices, video_velocity),
            (&self.weights.audio_out, &fixed.audio_indices, audio_velocity),
        ] {
            for chunk in chunks(velocity.shape()[0], embeds.shape()[0]) {
                let here = 0..chunk.len();
                ops.gather_rows(normed.view(), indices.rows(chunk.clone()), embeds.rows_mut(here.clone()))?;
                head.apply(ops, embeds.rows(here), velocity.rows_mut(chunk))?;
            }
        }
        Ok(())
    }
}

/// Cuts `rows` into ranges of at most `most`.
fn chunks(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(most).map(move |start| start..(start + most).min(rows))
}
