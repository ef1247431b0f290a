//! The denoising loop: from noise to clean latents.

use clapboard_h3::GenerationSpec;
use clapboard_h3::packing::PackedLayout;

use crate::dit::{Dit, DitRequest};
use crate::ops::{DType, OpError, Ops, Tensor};
use crate::progress::ProgressEvent;
use crate::run::{Run, RunError};
use crate::sampling::{InitialNoise, LatentShape, patchify, unpatchify};

/// Normalised latents, the target's only.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Latents {
    /// `[channels, frames, height, width]`.
    pub(crate) video: Vec<f32>,
    /// `[2, channels, audio_latents]`.
    pub(crate) audio: Vec<f32>,
}

/// Where a generation stands at a step border: what a resumed one starts from.
struct DenoiseState<B> {
    /// Target rows, F32 `[rows, 4 · channels]`.
    video_rows: Tensor<B>,
    /// Target rows, F32 `[2 · audio_latents, channels]`.
    audio_rows: Tensor<B>,
}

impl<B: Send + Sync> DenoiseState<B> {
    fn start<O: Ops<Buffer = B>>(
        ops: &O,
        spec: &GenerationSpec,
        grid: LatentShape,
        audio_rows: usize,
        audio_channels: usize,
    ) -> Result<Self, OpError> {
        let noise = InitialNoise::draw(spec.recipe, spec.seed, grid, audio_rows, audio_channels);
        let upload = |values: &[f32], shape: [usize; 2]| {
            let mut rows = ops.alloc(DType::F32, shape.into())?;
            ops.write(values, rows.view_mut())?;
            Ok::<_, OpError>(rows)
        };
        Ok(Self {
            video_rows: upload(&patchify(grid, &noise.video), [grid.rows(), grid.row_width()])?,
            audio_rows: upload(&noise.audio, [audio_rows, audio_channels])?,
        })
    }

    fn see<O: Ops<Buffer = B>>(&self, ops: &O, step: usize, when: &str, run: &mut Run<'_>) -> Result<(), OpError> {
        for (name, rows) in [("video_rows", &self.video_rows), ("audio_rows", &self.audio_rows)] {
            run.tap.see(&format!("step{step}.{name}_{when}"), rows.shape(), &|| ops.read(rows.view()))?;
        }
        Ok(())
    }
}

/// Runs every step of `spec`'s schedule over a request that the transformer has begun.
pub(crate) fn denoise<O: Ops>(
    ops: &O,
    dit: &Dit<O>,
    spec: &GenerationSpec,
    layout: &PackedLayout,
    mut request: DitRequest<O::Buffer>,
    run: &mut Run<'_>,
) -> Result<Latents, RunError>
where
    O::Buffer: 'static,
{
    let grid = target_grid(spec, dit.config().in_channels);
    let (audio_rows, audio_channels) = (layout.target_audio_rows(), dit.config().audio_in_channels);
    let mut state = DenoiseState::start(ops, spec, grid, audio_rows, audio_channels)?;
    state.see(ops, 0, "in", run)?;

    let (video, audio) = (spec.video_sigmas.values(), spec.audio_sigmas.values());
    let (video_timesteps, audio_timesteps) = (spec.video_sigmas.timesteps(), spec.audio_sigmas.timesteps());
    let total = spec.forwards();
    for step in 0..total {
        dit.forward(ops, &mut request, step, state.video_rows.view(), state.audio_rows.view(), run)?;
        let (video_velocity, audio_velocity) = (&request.buffers.video_velocity, &request.buffers.audio_velocity);
        for (name, velocity) in [("video", video_velocity), ("audio", audio_velocity)] {
            let name = format!("step{step}.{name}_velocity");
            run.tap.see(&name, velocity.shape(), &|| ops.read(velocity.view()))?;
        }
        let ratio = video[step + 1] / video[step];
        ops.euler_step(video_velocity.view(), video_timesteps[step], ratio, state.video_rows.view_mut())?;
        let ratio = audio[step + 1] / audio[step];
        ops.euler_step(audio_velocity.view(), audio_timesteps[step], ratio, state.audio_rows.view_mut())?;
        state.see(ops, step, "out", run)?;
        run.progress.report(ProgressEvent::Step { done: step + 1, total });
    }
    let latents = Latents {
        video: unpatchify(grid, &ops.read(state.video_rows.view())?),
        audio: channels_first(&ops.read(state.audio_rows.view())?, audio_channels),
    };
    let shape = [grid.channels, grid.frames, grid.height, grid.width];
    run.tap.see("final_video_latent_normalized", &shape, &|| Ok(latents.video.clone()))?;
    let shape = [2, audio_channels, audio_rows / 2];
    run.tap.see("final_audio_latent_normalized", &shape, &|| Ok(latents.audio.clone()))?;
    Ok(latents)
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
