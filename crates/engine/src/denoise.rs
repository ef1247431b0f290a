//! The denoising loop: from noise to clean latents.

use clapboard_h3::GenerationSpec;

use crate::activations::{ActivationPlan, Planned};
use crate::checkpoint::DitConfig;
use crate::conditions::EncodedConditions;
use crate::dit::{Dit, DitRequest, DitShape};
use crate::generate::{GenerateError, require_finite};
use crate::ops::{DType, OpError, Ops, Tensor};
use crate::progress::ProgressEvent;
use crate::resume::{Keeper, RowShapes, SavedRows};
use crate::run::{Run, RunError, Stop};
use crate::sampling::{ConditionRows, LatentShape, RequestNoise, patchify, unpatchify};

/// Normalised latents, the target's only.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Latents {
    /// `[channels, frames, height, width]`.
    pub(crate) video: Vec<f32>,
    /// `[2, channels, audio_latents]`.
    pub(crate) audio: Vec<f32>,
}

impl Latents {
    /// Arranges the rows that the last step has left.
    pub(crate) fn of(
        spec: &GenerationSpec,
        dit: &DitConfig,
        rows: &SavedRows,
        run: &mut Run<'_>,
    ) -> Result<Self, OpError> {
        let (grid, channels) = (target_grid(spec, dit.in_channels), dit.audio_in_channels);
        let latents = Self { video: unpatchify(grid, &rows.video), audio: channels_first(&rows.audio, channels) };
        run.tap.see("final_video_latent_normalized", &grid.dims(), &|| Ok(latents.video.clone()))?;
        let shape = [2, channels, rows.audio.len() / (2 * channels)];
        run.tap.see("final_audio_latent_normalized", &shape, &|| Ok(latents.audio.clone()))?;
        Ok(latents)
    }
}

/// Where a generation stands at a step border: what a resumed one starts from, behind the rows of its conditions.
struct DenoiseState<B> {
    /// Conditions and target, F32 `[rows, 4 · channels]`.
    video_rows: Tensor<B>,
    /// Conditions and target, F32 `[rows, channels]`.
    audio_rows: Tensor<B>,
    /// How many rows of each are conditions.
    conditions: [usize; 2],
}

impl<B: Send + Sync> DenoiseState<B> {
    fn upload<O: Ops<Buffer = B>>(ops: &O, shapes: RowShapes, rows: &FirstRows) -> Result<Self, OpError> {
        let FirstRows { conditions, target } = rows;
        let upload = |condition: &[f32], target: &[f32], [rows, width]: [usize; 2]| {
            let before = condition.len() / width;
            let mut tensor = ops.alloc(DType::F32, [before + rows, width].into())?;
            if before > 0 {
                ops.write(condition, tensor.rows_mut(0..before))?;
            }
            ops.write(target, tensor.rows_mut(before..before + rows))?;
            Ok::<_, OpError>((tensor, before))
        };
        let (video_rows, video) = upload(&conditions.video, &target.video, shapes.video)?;
        let (audio_rows, audio) = upload(&conditions.audio, &target.audio, shapes.audio)?;
        Ok(Self { video_rows, audio_rows, conditions: [video, audio] })
    }

    fn download<O: Ops<Buffer = B>>(&self, ops: &O, step: usize) -> Result<SavedRows, OpError> {
        let [video, audio] = self.conditions;
        Ok(SavedRows {
            step,
            video: ops.read(self.video_rows.rows(video..self.video_rows.shape()[0]))?,
            audio: ops.read(self.audio_rows.rows(audio..self.audio_rows.shape()[0]))?,
        })
    }

    /// Shows the target's rows.
    fn see<O: Ops<Buffer = B>>(&self, ops: &O, step: usize, when: &str, run: &mut Run<'_>) -> Result<(), OpError> {
        let [video, audio] = self.conditions;
        for (name, rows, first) in [("video_rows", &self.video_rows, video), ("audio_rows", &self.audio_rows, audio)] {
            let [all, width] = [rows.shape()[0], rows.shape()[1]];
            let read = || ops.read(rows.rows(first..all));
            run.tap.see(&format!("step{step}.{name}_{when}"), &[all - first, width], &read)?;
        }
        Ok(())
    }
}

/// The rows that a generation's steps start from.
pub(crate) struct FirstRows {
    /// Conditions, which no step changes.
    pub(crate) conditions: ConditionRows,
    /// The target, at its noise or where it was left.
    pub(crate) target: SavedRows,
}

impl FirstRows {
    /// Draws all noise of a generation: for its conditions, and for its target unless that goes on from `saved`.
    pub(crate) fn draw(
        spec: &GenerationSpec,
        dit: &DitConfig,
        encoded: EncodedConditions,
        saved: Option<SavedRows>,
        run: &mut Run<'_>,
    ) -> Result<Self, RunError> {
        let grid = target_grid(spec, dit.in_channels);
        let [audio_rows, audio_channels] = row_shapes(spec, dit).audio;
        let shapes: Vec<LatentShape> = encoded.visual.iter().map(|condition| condition.shape).collect();
        let noise = RequestNoise::draw(spec.recipe, spec.seed, &shapes, grid);
        for (index, (noise, shape)) in noise.conditions.iter().zip(&shapes).enumerate() {
            run.see(&format!("condition_{index}_noise"), &shape.dims(), noise)?;
        }
        let conditions = ConditionRows::new(&encoded.visual, &noise.conditions, encoded.sounds);
        if !conditions.video.is_empty() {
            let width = grid.row_width();
            run.see("condition_rows", &[conditions.video.len() / width, width], &conditions.video)?;
        }
        if !conditions.audio.is_empty() {
            let shape = [conditions.audio.len() / audio_channels, audio_channels];
            run.see("audio_condition_rows", &shape, &conditions.audio)?;
        }
        let from_noise = || {
            let target = noise.target(audio_rows * audio_channels);
            SavedRows { step: 0, video: patchify(grid, &target.video), audio: target.audio }
        };
        Ok(Self { conditions, target: saved.unwrap_or_else(from_noise) })
    }
}

/// Runs the steps of `spec`'s schedule that `rows` leave, over a request that the transformer has begun, and keeps the states
/// that are wanted. Returns the target's rows after the last step.
pub(crate) fn denoise<O: Ops + 'static>(
    ops: &O,
    dit: &Dit<O>,
    spec: &GenerationSpec,
    mut request: DitRequest<O::Buffer>,
    rows: FirstRows,
    keeper: &mut Keeper<'_>,
    run: &mut Run<'_>,
) -> Result<SavedRows, GenerateError>
where
    O::Buffer: 'static,
{
    let (first, total) = (rows.target.step, spec.forwards());
    let shapes = row_shapes(spec, dit.config());
    let mut state = DenoiseState::upload(ops, shapes, &rows).map_err(RunError::from)?;
    drop(rows);
    state.see(ops, first, "in", run).map_err(RunError::from)?;
    for step in first..total {
        if let Err(error) = take_step(ops, dit, spec, &mut request, &mut state, step, run) {
            // The rows change only at a step's end, where nothing is asked any more.
            if matches!(error, RunError::Stopped(Stop::Checkpointed)) && keeper.lacks(step) {
                keeper.keep(&sound(state.download(ops, step))?);
            }
            return Err(error.into());
        }
        run.progress.report(ProgressEvent::Step { done: step + 1, total });
        if keeper.wants(step + 1, total) {
            keeper.keep(&sound(state.download(ops, step + 1))?);
        }
    }
    Ok(state.download(ops, total).map_err(RunError::from)?)
}

/// Moves the rows of both modalities from one sigma to the next.
fn take_step<O: Ops + 'static>(
    ops: &O,
    dit: &Dit<O>,
    spec: &GenerationSpec,
    request: &mut DitRequest<O::Buffer>,
    state: &mut DenoiseState<O::Buffer>,
    step: usize,
    run: &mut Run<'_>,
) -> Result<(), RunError>
where
    O::Buffer: 'static,
{
    dit.forward(ops, request, step, state.video_rows.view(), state.audio_rows.view(), run)?;
    let (video_velocity, audio_velocity) = (&request.buffers.video_velocity, &request.buffers.audio_velocity);
    for (name, velocity) in [("video", video_velocity), ("audio", audio_velocity)] {
        let name = format!("step{step}.{name}_velocity");
        run.tap.see(&name, velocity.shape(), &|| ops.read(velocity.view()))?;
    }
    let [video, audio] = state.conditions;
    for (sigmas, velocity, rows, first) in [
        (&spec.video_sigmas, video_velocity, &mut state.video_rows, video),
        (&spec.audio_sigmas, audio_velocity, &mut state.audio_rows, audio),
    ] {
        let ratio = sigmas.values()[step + 1] / sigmas.values()[step];
        let target = first..velocity.shape()[0];
        let (velocity, rows) = (velocity.rows(target.clone()), rows.rows_mut(target));
        ops.euler_step(velocity, sigmas.timesteps()[step], ratio, rows)?;
    }
    state.see(ops, step, "out", run)?;
    Ok(())
}

/// Refuses a state that nothing can go on from.
fn sound(rows: Result<SavedRows, OpError>) -> Result<SavedRows, GenerateError> {
    let rows = rows.map_err(RunError::from)?;
    require_finite("video latents", &rows.video)?;
    require_finite("audio latents", &rows.audio)?;
    Ok(rows)
}

/// Plans the rows that the steps move.
pub(crate) fn state_plan(config: &DitConfig, shape: &DitShape) -> ActivationPlan {
    ActivationPlan::new(vec![
        Planned::new("video_rows", DType::F32, [shape.video_rows, config.video_row_dim()]),
        Planned::new("audio_rows", DType::F32, [shape.audio_rows, config.audio_in_channels]),
    ])
}

/// Returns the shapes of the target's rows.
pub(crate) fn row_shapes(spec: &GenerationSpec, dit: &DitConfig) -> RowShapes {
    let grid = target_grid(spec, dit.in_channels);
    RowShapes {
        video: [grid.rows(), grid.row_width()],
        audio: [2 * spec.target().audio_latents as usize, dit.audio_in_channels],
    }
}

/// Returns the target's latent block.
pub(crate) fn target_grid(spec: &GenerationSpec, channels: usize) -> LatentShape {
    let video = spec.target().video;
    LatentShape { channels, frames: video.frames as usize, height: video.height as usize, width: video.width as usize }
}

/// `[2, channels, n]` of audio rows `[2 · n, channels]`: left rows before right rows.
fn channels_first(rows: &[f32], channels: usize) -> Vec<f32> {
    let side = rows.len() / 2;
    rows.chunks_exact(side)
        .flat_map(|side| (0..channels).flat_map(move |channel| side.iter().skip(channel).step_by(channels)))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_rows_turn_into_channels_side_by_side() {
        // Two latents of three channels per side.
        let rows: Vec<f32> = (0..12).map(|i| i as f32).collect();
        assert_eq!(channels_first(&rows, 3), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 6.0, 9.0, 7.0, 10.0, 8.0, 11.0]);
    }
}
