//! The denoising loop: from noise to clean latents.

use clapboard_h3::GenerationSpec;

use crate::checkpoint::DitConfig;
use crate::dit::{Dit, DitRequest};
use crate::generate::{GenerateError, require_finite};
use crate::ops::{DType, OpError, Ops, Tensor};
use crate::progress::ProgressEvent;
use crate::resume::{Keeper, RowShapes, SavedRows};
use crate::run::{Run, RunError, Stop};
use crate::sampling::{InitialNoise, LatentShape, patchify, unpatchify};

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
        let shape = [grid.channels, grid.frames, grid.height, grid.width];
        run.tap.see("final_video_latent_normalized", &shape, &|| Ok(latents.video.clone()))?;
        let shape = [2, channels, rows.audio.len() / (2 * channels)];
        run.tap.see("final_audio_latent_normalized", &shape, &|| Ok(latents.audio.clone()))?;
        Ok(latents)
    }
}

/// Where a generation stands at a step border: what a resumed one starts from.
struct DenoiseState<B> {
    /// Target rows, F32 `[rows, 4 · channels]`.
    video_rows: Tensor<B>,
    /// Target rows, F32 `[2 · audio_latents, channels]`.
    audio_rows: Tensor<B>,
}

impl<B: Send + Sync> DenoiseState<B> {
    fn upload<O: Ops<Buffer = B>>(ops: &O, shapes: RowShapes, saved: &SavedRows) -> Result<Self, OpError> {
        let upload = |values: &[f32], shape: [usize; 2]| {
            let mut rows = ops.alloc(DType::F32, shape.into())?;
            ops.write(values, rows.view_mut())?;
            Ok::<_, OpError>(rows)
        };
        Ok(Self { video_rows: upload(&saved.video, shapes.video)?, audio_rows: upload(&saved.audio, shapes.audio)? })
    }

    fn download<O: Ops<Buffer = B>>(&self, ops: &O, step: usize) -> Result<SavedRows, OpError> {
        Ok(SavedRows { step, video: ops.read(self.video_rows.view())?, audio: ops.read(self.audio_rows.view())? })
    }

    fn see<O: Ops<Buffer = B>>(&self, ops: &O, step: usize, when: &str, run: &mut Run<'_>) -> Result<(), OpError> {
        for (name, rows) in [("video_rows", &self.video_rows), ("audio_rows", &self.audio_rows)] {
            run.tap.see(&format!("step{step}.{name}_{when}"), rows.shape(), &|| ops.read(rows.view()))?;
        }
        Ok(())
    }
}

/// Draws the noise that a generation begins with.
fn noise(spec: &GenerationSpec, dit: &DitConfig) -> SavedRows {
    let grid = target_grid(spec, dit.in_channels);
    let [audio_rows, audio_channels] = row_shapes(spec, dit).audio;
    let noise = InitialNoise::draw(spec.recipe, spec.seed, grid, audio_rows, audio_channels);
    SavedRows { step: 0, video: patchify(grid, &noise.video), audio: noise.audio }
}

/// Runs the steps of `spec`'s schedule that `saved` leaves, or all of them, over a request that the transformer has begun,
/// and keeps the states that are wanted. Returns the rows after the last step.
pub(crate) fn denoise<O: Ops>(
    ops: &O,
    dit: &Dit<O>,
    spec: &GenerationSpec,
    mut request: DitRequest<O::Buffer>,
    saved: Option<SavedRows>,
    keeper: &mut Keeper<'_>,
    run: &mut Run<'_>,
) -> Result<SavedRows, GenerateError>
where
    O::Buffer: 'static,
{
    let saved = saved.unwrap_or_else(|| noise(spec, dit.config()));
    let (first, total) = (saved.step, spec.forwards());
    let mut state = DenoiseState::upload(ops, row_shapes(spec, dit.config()), &saved).map_err(RunError::from)?;
    drop(saved);
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
fn take_step<O: Ops>(
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
    for (sigmas, velocity, rows) in [
        (&spec.video_sigmas, video_velocity, &mut state.video_rows),
        (&spec.audio_sigmas, audio_velocity, &mut state.audio_rows),
    ] {
        let ratio = sigmas.values()[step + 1] / sigmas.values()[step];
        ops.euler_step(velocity.view(), sigmas.timesteps()[step], ratio, rows.view_mut())?;
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
