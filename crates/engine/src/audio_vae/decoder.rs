//! The decoder as a whole.

use super::block::{convolve, residual_block};
use super::error::DecodeError;
use super::weights::{Stage, Weights};
use crate::activations::{ActivationPlan, Planned};
use crate::checkpoint::{AudioVaeConfig, Component};
use crate::load::LoadError;
use crate::ops::{DType, OpError, Ops, Tensor, View};
use crate::run::{Run, RunError};
use crate::tap::Tap;

/// Stereo channels: the network's batch.
const BATCH: usize = 2;

/// Decoded stereo sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Waveform {
    /// Samples in `[-1, 1]`, all of the left channel, then all of the right one.
    pub planes: Vec<f32>,
}

impl Waveform {
    /// Samples of one channel.
    pub fn samples(&self) -> usize {
        self.planes.len() / BATCH
    }

    /// Returns the samples, left and right in turn.
    pub fn interleaved(&self) -> Vec<f32> {
        let (left, right) = self.planes.split_at(self.samples());
        left.iter().zip(right).flat_map(|(left, right)| [*left, *right]).collect()
    }
}

/// A loaded audio decoder.
pub struct AudioDecoder<O: Ops> {
    config: AudioVaeConfig,
    weights: Weights<O::Buffer>,
}

impl<O: Ops> AudioDecoder<O> {
    /// Takes the decoder of an audio VAE.
    ///
    /// Errors: [`LoadError`] naming a missing or ill-shaped tensor.
    pub fn load(ops: &O, component: &Component, config: AudioVaeConfig) -> Result<Self, LoadError> {
        Ok(Self { weights: Weights::load(ops, component, &config)?, config })
    }

    /// Returns the sizes of the network.
    pub fn config(&self) -> &AudioVaeConfig {
        &self.config
    }

    /// Decodes normalised latents `[2, channels, n]`, left and right, to `n` hops of samples each.
    ///
    /// Errors: [`DecodeError`] for a wrong number of values, a failed operation or a stop.
    pub fn decode(&self, ops: &O, latents: &[f32], run: &mut Run<'_>) -> Result<Waveform, DecodeError> {
        let length = self.length(latents)?;
        let (mean, std) = (&self.config.latents_mean, &self.config.latents_std);
        let denormalised: Vec<f32> = latents
            .chunks_exact(length)
            .enumerate()
            .flat_map(|(row, values)| {
                let channel = row % mean.len();
                values.iter().map(move |value| value * std[channel] + mean[channel])
            })
            .collect();
        self.decode_denormalised(ops, &denormalised, run)
    }

    /// Decodes latents `[2, channels, n]` that are already denormalised.
    ///
    /// Errors: As [`AudioDecoder::decode`].
    pub fn decode_denormalised(&self, ops: &O, latents: &[f32], run: &mut Run<'_>) -> Result<Waveform, DecodeError> {
        let length = self.length(latents)?;
        let parts = self.weights.stages.len();
        run.check()?;
        let mut hidden = self.widen(ops, latents, length, run.tap)?;
        for (index, stage) in self.weights.stages.iter().enumerate() {
            run.check()?;
            hidden = run_stage(ops, stage, hidden.view(), run, index == 0)?;
            if index == 0 && parts > 1 {
                run.tap.see("audio_vae.stage0_out", hidden.shape(), &|| ops.read(hidden.view()))?;
            }
            run.part(index + 1, parts);
        }
        let mut planes = self.finish(ops, hidden, run.tap)?;
        planes.iter_mut().for_each(|sample| *sample = sample.clamp(-1.0, 1.0));
        Ok(Waveform { planes })
    }

    /// Latents of one channel.
    fn length(&self, latents: &[f32]) -> Result<usize, DecodeError> {
        let channels = self.config.latent_channels;
        if latents.is_empty() || !latents.len().is_multiple_of(BATCH * channels) {
            return Err(DecodeError::Shape { actual: latents.len(), batch: BATCH, channels });
        }
        Ok(latents.len() / (BATCH * channels))
    }

    /// Latents to the width of the first stage.
    fn widen(&self, ops: &O, latents: &[f32], length: usize, tap: &mut dyn Tap) -> Result<Tensor<O::Buffer>, OpError> {
        let config = &self.config;
        let mut z = ops.alloc(DType::F32, [BATCH, config.latent_channels, length].into())?;
        ops.write(latents, z.view_mut())?;
        let mut projected = ops.alloc(DType::F32, [BATCH, config.latent_dim, length].into())?;
        convolve(ops, &self.weights.in_proj, z.view(), projected.view_mut())?;
        tap.see("audio_vae.in_proj", projected.shape(), &|| ops.read(projected.view()))?;
        let mut hidden = ops.alloc(DType::F32, [BATCH, config.decoder_dim, length].into())?;
        convolve(ops, &self.weights.conv_pre, projected.view(), hidden.view_mut())?;
        tap.see("audio_vae.conv_pre", hidden.shape(), &|| ops.read(hidden.view()))?;
        Ok(hidden)
    }

    /// Turns the last stage's result into samples, before clamping.
    fn finish(&self, ops: &O, hidden: Tensor<O::Buffer>, tap: &mut dyn Tap) -> Result<Vec<f32>, OpError> {
        let shape = [hidden.shape()[0], hidden.shape()[1], hidden.shape()[2]];
        let mut bent = ops.alloc(DType::F32, shape.into())?;
        ops.alias_free_snake(self.weights.activation_post.parameters(), hidden.view(), bent.view_mut())?;
        tap.see("audio_vae.activation_post", bent.shape(), &|| ops.read(bent.view()))?;
        let mut samples = ops.alloc(DType::F32, [BATCH, 1, shape[2]].into())?;
        convolve(ops, &self.weights.conv_post, bent.view(), samples.view_mut())?;
        tap.see("audio_vae.conv_post", samples.shape(), &|| ops.read(samples.view()))?;
        ops.read(samples.view())
    }
}

/// Plans the buffers of the stage that takes the most, for `latents` latents of each channel.
pub(crate) fn decode_plan(config: &AudioVaeConfig, latents: usize) -> ActivationPlan {
    let mut length = latents;
    let stages = config.decoder_rates.iter().enumerate().map(|(index, rate)| {
        let taken = Planned::new("taken", DType::F32, [BATCH, config.decoder_dim >> index, length]);
        length *= rate;
        let shape = [BATCH, config.decoder_dim >> (index + 1), length];
        let made = ["upsampled", "mean", "hidden", "bent", "branch"].map(|name| Planned::new(name, DType::F32, shape));
        ActivationPlan::new([vec![taken], made.to_vec()].concat())
    });
    stages.max_by_key(ActivationPlan::bytes).unwrap_or_else(|| ActivationPlan::new(Vec::new()))
}

/// Lengthens `x` by the stage's rate and takes the mean of its residual blocks.
fn run_stage<O: Ops>(
    ops: &O,
    stage: &Stage<O::Buffer>,
    x: View<'_, O::Buffer>,
    run: &mut Run<'_>,
    tapped: bool,
) -> Result<Tensor<O::Buffer>, RunError> {
    let shape = [BATCH, stage.channels, x.width() * stage.rate];
    let make = || ops.alloc(DType::F32, shape.into());
    let (mut upsampled, mut mean) = (make()?, make()?);
    let (mut hidden, mut bent, mut branch) = (make()?, make()?, make()?);
    let Stage { upsample, blocks, .. } = stage;
    let bias = upsample.bias.as_ref().map(Tensor::view);
    ops.conv_transpose1d(upsample.weight.view(), bias, upsample.shape, x, upsampled.view_mut())?;
    if tapped {
        run.tap.see("audio_vae.up0", upsampled.shape(), &|| ops.read(upsampled.view()))?;
    }
    for (index, layers) in blocks.iter().enumerate() {
        run.check()?;
        ops.cast(upsampled.view(), hidden.view_mut())?;
        let tap: Option<&mut dyn Tap> = if tapped && index == 0 { Some(&mut *run.tap) } else { None };
        residual_block(ops, layers, &mut hidden, &mut bent, &mut branch, tap)?;
        if index == 0 {
            ops.cast(hidden.view(), mean.view_mut())?;
        } else {
            ops.add(hidden.view(), mean.view_mut())?;
        }
    }
    ops.scale(1.0 / blocks.len() as f32, mean.view_mut())?;
    Ok(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_takes_left_and_right_in_turn() {
        let waveform = Waveform { planes: vec![1.0, 2.0, -1.0, -2.0] };
        assert_eq!(waveform.samples(), 2);
        assert_eq!(waveform.interleaved(), [1.0, -1.0, 2.0, -2.0]);
    }
}
