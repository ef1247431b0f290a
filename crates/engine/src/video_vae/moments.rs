//! What the encoder says of frames, and the latents that are drawn from it.

use half::f16;

use super::error::EncodeError;
use crate::checkpoint::VideoVaeConfig;
use crate::sampling::{LatentShape, TorchGenerator};

/// The seed of every draw, whatever the request's seed.
const POSTERIOR_SEED: u64 = 42;

/// Bounds of the logarithm of a variance.
const LEAST_LOGVAR: f32 = -30.0;
const GREATEST_LOGVAR: f32 = 20.0;

/// The normal distribution of each latent of a picture or a clip, `[channels, frames, height, width]` row major.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    shape: LatentShape,
    mean: Vec<f32>,
    logvar: Vec<f32>,
}

impl Moments {
    /// Makes room for moments.
    pub(super) fn zeroed(shape: LatentShape) -> Self {
        let values = vec![0.0; shape.elements()];
        Self { shape, mean: values.clone(), logvar: values }
    }

    /// Takes latent frames from `first_frame` on: `[2 · channels, frames, height, width]`, means before logarithms of
    /// variances.
    ///
    /// Errors: [`EncodeError::NotFinite`].
    pub(super) fn insert(&mut self, first_frame: usize, moments: &[f32]) -> Result<(), EncodeError> {
        if moments.iter().any(|value| !value.is_finite()) {
            return Err(EncodeError::NotFinite);
        }
        let plane = self.shape.height * self.shape.width;
        let part = moments.len() / (2 * self.shape.channels);
        for (index, values) in moments.chunks_exact(part).enumerate() {
            let (channel, is_mean) = (index % self.shape.channels, index < self.shape.channels);
            let start = (channel * self.shape.frames + first_frame) * plane;
            if is_mean {
                self.mean[start..start + part].copy_from_slice(values);
            } else {
                for (logvar, value) in self.logvar[start..start + part].iter_mut().zip(values) {
                    *logvar = value.clamp(LEAST_LOGVAR, GREATEST_LOGVAR);
                }
            }
        }
        Ok(())
    }

    /// Returns the size in latents.
    pub fn shape(&self) -> LatentShape {
        self.shape
    }

    /// Returns the means.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Returns the logarithms of the variances, between -30 and 20.
    pub fn logvar(&self) -> &[f32] {
        &self.logvar
    }

    /// Draws the latents that condition a generation: `mean + std · noise`, rounded to F16, then normalised by the
    /// model's statistics.
    ///
    /// Equal moments give equal latents: every draw begins with the same noise.
    /// Source: diffusers 0.42.1 `encode_vae_condition`.
    ///
    /// Errors: [`EncodeError::NotFinite`] when a latent is too large for F16;
    /// [`EncodeError::Channels`] when `config` has statistics for another number of channels.
    pub fn condition(&self, config: &VideoVaeConfig) -> Result<ConditionLatents, EncodeError> {
        let LatentShape { channels, frames, height, width } = self.shape;
        let (mean, std) = (&config.latents_mean, &config.latents_std);
        if mean.len() != channels || std.len() != channels {
            return Err(EncodeError::Channels { channels, statistics: mean.len().min(std.len()) });
        }
        let per_channel = frames * height * width;
        let drawn = self.mean.iter().zip(&self.logvar).zip(posterior_noise(self.shape)).enumerate();
        let values: Vec<f32> = drawn
            .map(|(index, ((latent_mean, logvar), noise))| {
                let drawn = latent_mean + (0.5 * logvar).exp() * noise;
                let channel = index / per_channel;
                (f16::from_f32(drawn).to_f32() - mean[channel]) / std[channel]
            })
            .collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(EncodeError::NotFinite);
        }
        Ok(ConditionLatents { shape: self.shape, values })
    }
}

/// Returns the noise that every latent of `shape` is drawn with.
pub fn posterior_noise(shape: LatentShape) -> Vec<f32> {
    TorchGenerator::new(POSTERIOR_SEED).normal(shape.elements())
}

/// Latents of a picture or a clip, normalised as those that the model denoises.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionLatents {
    /// The size in latents.
    pub shape: LatentShape,
    /// The values, `[channels, frames, height, width]` row major.
    pub values: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: LatentShape = LatentShape { channels: 2, frames: 3, height: 2, width: 2 };

    fn config() -> VideoVaeConfig {
        VideoVaeConfig { latents_mean: vec![0.5, -1.0], latents_std: vec![2.0, 0.25], ..VideoVaeConfig::released() }
    }

    /// Moments whose mean counts up and whose variances are those of `logvar`.
    fn moments(logvar: f32) -> Moments {
        let mut moments = Moments::zeroed(SHAPE);
        // Clips of two latents and of one: channel by channel, means first.
        let value = |channel: usize, frame: usize, pixel: usize| (12 * channel + 4 * frame + pixel) as f32 / 8.0;
        for (first, count) in [(0, 2), (2, 1)] {
            let part = |channel: usize| {
                (first..first + count).flat_map(move |frame| (0..4).map(move |pixel| value(channel, frame, pixel)))
            };
            let mut clip: Vec<f32> = (0..2).flat_map(part).collect();
            clip.resize(2 * clip.len(), logvar);
            moments.insert(first, &clip).unwrap();
        }
        moments
    }

    #[test]
    fn clips_join_along_time_in_every_channel() {
        let moments = moments(99.0);
        assert_eq!(moments.mean(), (0..24).map(|i| i as f32 / 8.0).collect::<Vec<_>>());
        assert_eq!(moments.logvar(), [20.0; 24]);
    }

    #[test]
    fn a_draw_is_mean_plus_noise_rounded_to_f16_and_normalised() {
        let latents = moments(0.0).condition(&config()).unwrap();
        assert_eq!(latents.shape, SHAPE);
        let noise = TorchGenerator::new(42).normal(24);
        for (i, value) in latents.values.iter().enumerate() {
            let drawn = f16::from_f32(i as f32 / 8.0 + noise[i]).to_f32();
            let expected = if i < 12 { (drawn - 0.5) / 2.0 } else { (drawn + 1.0) / 0.25 };
            assert_eq!(*value, expected);
        }
        // Next to no variance: the draw is the mean.
        let still = moments(-1000.0).condition(&config()).unwrap();
        assert!(still.values.iter().enumerate().all(|(i, value)| {
            let mean = i as f32 / 8.0;
            (value - if i < 12 { (mean - 0.5) / 2.0 } else { (mean + 1.0) / 0.25 }).abs() < 1e-5
        }));
    }

    #[test]
    fn what_is_no_number_or_no_f16_is_refused() {
        let moments = |index: usize, value: f32| {
            let mut clip = vec![0.0; 48];
            clip[index] = value;
            let mut moments = Moments::zeroed(SHAPE);
            moments.insert(0, &clip).map(|()| moments)
        };
        for (index, value) in [(0, f32::NAN), (30, f32::NAN), (30, f32::INFINITY), (3, f32::NEG_INFINITY)] {
            let error = moments(index, value).unwrap_err();
            assert!(matches!(error, EncodeError::NotFinite), "{error}");
        }
        let error = moments(3, 1e6).unwrap().condition(&config()).unwrap_err();
        assert!(matches!(error, EncodeError::NotFinite), "{error}");
        let error = moments(0, 0.0).unwrap().condition(&VideoVaeConfig::released()).unwrap_err();
        assert_eq!(error.to_string(), "latents of 2 channels cannot be normalised by statistics of 24");
    }
}
