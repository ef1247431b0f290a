//! The encoder as a whole.

use clapboard_h3::prepare::Sound;

use super::block::convolve;
use super::encoder_weights::{EncoderBlock, EncoderWeights};
use super::error::EncodeError;
use super::pre_block::{Rows, linear, narrow};
use crate::activations::{ActivationPlan, Planned};
use crate::checkpoint::{AudioVaeConfig, Component};
use crate::load::LoadError;
use crate::ops::{DType, OpError, Ops, Tensor, View};
use crate::run::{Run, RunError};

/// Stereo channels: the network's batch.
const BATCH: usize = 2;

/// The latents of a sound, as rows of the packed sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioRows {
    /// Normalised latents `[2 · latents, channels]`: every row of the left channel, then every row of the right one.
    pub values: Vec<f32>,
    /// Latents of one channel.
    pub latents: usize,
}

/// A loaded audio encoder.
pub struct AudioEncoder<O: Ops> {
    config: AudioVaeConfig,
    weights: EncoderWeights<O::Buffer>,
}

impl<O: Ops> AudioEncoder<O> {
    /// Takes the encoder of an audio VAE.
    ///
    /// Errors: [`LoadError`] naming a missing or ill-shaped tensor.
    pub fn load(ops: &O, component: &Component, config: AudioVaeConfig) -> Result<Self, LoadError> {
        Ok(Self { weights: EncoderWeights::load(ops, component, &config)?, config })
    }

    /// Returns how many latents of one channel a sound of `samples` becomes: its last hop is filled up with silence.
    pub fn latents(&self, samples: usize) -> usize {
        samples.div_ceil(self.config.hop_length())
    }

    /// Encodes a sound to the mean of its posterior, normalised; nothing is sampled.
    ///
    /// Errors: [`EncodeError`] for a failed operation, a stop, or latents that are not finite.
    pub fn encode(&self, ops: &O, sound: &Sound, run: &mut Run<'_>) -> Result<AudioRows, EncodeError> {
        let latents = self.latents(sound.samples());
        let parts = self.weights.blocks.len() + 1;
        run.check()?;
        let mut hidden = self.widen(ops, sound, latents)?;
        run.tap.see("audio_vae.enc.conv_first", hidden.shape(), &|| ops.read(hidden.view()))?;
        for (index, block) in self.weights.blocks.iter().enumerate() {
            run.check()?;
            hidden = run_block(ops, block, hidden, run)?;
            if index == 0 {
                run.tap.see("audio_vae.enc.block1", hidden.shape(), &|| ops.read(hidden.view()))?;
            }
            run.part(index + 1, parts);
        }
        run.check()?;
        let trunk = self.trunk(ops, hidden)?;
        run.tap.see("audio_vae.enc.trunk", trunk.shape(), &|| ops.read(trunk.view()))?;
        let mean = self.mean(ops, trunk.view(), latents, run)?;
        run.part(parts, parts);
        let values = normalised(&mean, &self.config.latents_mean, &self.config.latents_std);
        if values.iter().all(|value| value.is_finite()) {
            Ok(AudioRows { values, latents })
        } else {
            Err(EncodeError::NotFinite)
        }
    }

    /// Samples, filled up to whole hops, to the width of the first block.
    fn widen(&self, ops: &O, sound: &Sound, latents: usize) -> Result<Tensor<O::Buffer>, OpError> {
        let samples = latents * self.config.hop_length();
        let mut planes = vec![0.0; BATCH * samples];
        for (plane, channel) in planes.chunks_exact_mut(samples).zip([sound.left(), sound.right()]) {
            plane[..channel.len()].copy_from_slice(channel);
        }
        let mut waveform = ops.alloc(DType::F32, [BATCH, 1, samples].into())?;
        ops.write(&planes, waveform.view_mut())?;
        let mut hidden = ops.alloc(DType::F32, [BATCH, self.config.encoder_dim, samples].into())?;
        convolve(ops, &self.weights.conv_first, waveform.view(), hidden.view_mut())?;
        Ok(hidden)
    }

    fn trunk(&self, ops: &O, hidden: Tensor<O::Buffer>) -> Result<Tensor<O::Buffer>, OpError> {
        let mut bent = ops.alloc(DType::F32, hidden.shape().into())?;
        ops.snake(self.weights.snake_last.alpha(), hidden.view(), bent.view_mut())?;
        let mut trunk = ops.alloc(DType::F32, [BATCH, self.config.latent_dim, hidden.shape()[2]].into())?;
        convolve(ops, &self.weights.conv_last, bent.view(), trunk.view_mut())?;
        Ok(trunk)
    }

    /// Mean rows `[2 · latents, channels]` of the trunk `[2, width, latents]`.
    fn mean(
        &self,
        ops: &O,
        trunk: View<'_, O::Buffer>,
        latents: usize,
        run: &mut Run<'_>,
    ) -> Result<Vec<f32>, OpError> {
        let mut rows = ops.alloc(DType::F32, [BATCH * latents, self.config.latent_dim].into())?;
        for channel in 0..BATCH {
            let range = channel * latents..(channel + 1) * latents;
            ops.transpose(trunk.select(0, channel), rows.rows_mut(range))?;
        }
        let shape = Rows { batch: BATCH, latents, heads: self.config.num_attention_heads };
        let narrowed = narrow(ops, &self.weights.pre_block, shape, rows.view(), run.tap)?;
        let mean = ops.read(linear(ops, &self.weights.mean, narrowed.view())?.view())?;
        let channels = self.config.latent_channels;
        run.tap.see("audio_vae.enc.mean", &[BATCH, channels, latents], &|| {
            let plane =
                |side: &[f32]| (0..channels * latents).map(|i| side[i % latents * channels + i / latents]).collect();
            Ok(mean.chunks_exact(channels * latents).flat_map(|side| -> Vec<f32> { plane(side) }).collect())
        })?;
        Ok(mean)
    }
}

/// Plans the buffers of the block that takes the most, for `latents` latents of each channel.
pub(crate) fn encode_plan(config: &AudioVaeConfig, latents: usize) -> ActivationPlan {
    let (mut width, mut samples) = (config.encoder_dim, latents * config.hop_length());
    let blocks = config.encoder_rates.iter().map(|rate| {
        let taken = [BATCH, width, samples];
        (width, samples) = (2 * width, samples / rate);
        let mut buffers = ["hidden", "bent", "branch"].map(|name| Planned::new(name, DType::F32, taken)).to_vec();
        buffers.push(Planned::new("shortened", DType::F32, [BATCH, width, samples]));
        ActivationPlan::new(buffers)
    });
    blocks.max_by_key(ActivationPlan::bytes).unwrap_or_else(|| ActivationPlan::new(Vec::new()))
}

/// Runs the residual units and shortens by the stride.
fn run_block<O: Ops>(
    ops: &O,
    block: &EncoderBlock<O::Buffer>,
    mut hidden: Tensor<O::Buffer>,
    run: &Run<'_>,
) -> Result<Tensor<O::Buffer>, RunError> {
    let make = || ops.alloc(DType::F32, hidden.shape().into());
    let (mut bent, mut branch) = (make()?, make()?);
    for unit in &block.units {
        run.check()?;
        ops.snake(unit.snake1.alpha(), hidden.view(), bent.view_mut())?;
        convolve(ops, &unit.conv1, bent.view(), branch.view_mut())?;
        ops.snake(unit.snake2.alpha(), branch.view(), bent.view_mut())?;
        convolve(ops, &unit.conv2, bent.view(), branch.view_mut())?;
        ops.add(branch.view(), hidden.view_mut())?;
    }
    ops.snake(block.snake.alpha(), hidden.view(), bent.view_mut())?;
    let samples = hidden.shape()[2] / block.downsample.shape.stride;
    let mut shortened = ops.alloc(DType::F32, [BATCH, block.channels, samples].into())?;
    convolve(ops, &block.downsample, bent.view(), shortened.view_mut())?;
    Ok(shortened)
}

/// `(x − mean) / std`, channel by channel of each row.
fn normalised(rows: &[f32], mean: &[f32], std: &[f32]) -> Vec<f32> {
    rows.chunks_exact(mean.len())
        .flat_map(|row| row.iter().zip(mean.iter().zip(std)).map(|(value, (mean, std))| (value - mean) / std))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_normalised_channel_by_channel() {
        assert_eq!(normalised(&[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0], &[2.0, 4.0]), [0.0, 0.5, 1.0, 1.0]);
    }
}
