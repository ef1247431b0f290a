//! Cutting a recording to the target's length and bringing it to the audio VAE's rate.

use super::media::{MediaError, Recording, Sound};
use super::resample::Resampler;
use crate::frames::FrameCount;
use crate::recipe::Recipe;

/// Returns how many samples of a recording are kept, at its own rate, so that it lasts no longer than the target.
///
/// [`Recipe::Release`] rounds to the nearest, halves to even; [`Recipe::Diffusers`] rounds down.
pub fn kept_samples(rate: u32, target: FrameCount, recipe: Recipe) -> usize {
    let samples = target.seconds() * f64::from(rate);
    match recipe {
        Recipe::Release => samples.round_ties_even() as usize,
        Recipe::Diffusers => samples as usize,
    }
}

/// Cuts a standalone sound or a soundtrack to the target's length and resamples it once, from its own rate; one channel
/// becomes both.
///
/// Errors: [`MediaError::Samples`] when nothing is left.
pub fn fit_sound(mut recording: Recording, target: FrameCount, recipe: Recipe) -> Result<Sound, MediaError> {
    recording.truncate(kept_samples(recording.rate(), target, recipe));
    let resampler = Resampler::new(recording.rate());
    let mut channels = recording.channels().iter().map(|channel| resampler.resample(channel));
    let left = channels.next().unwrap_or_default();
    let right = channels.next().unwrap_or_else(|| left.clone());
    Sound::new(left, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipes_cut_differently() {
        // 39 frames last 1.625 s, which are 35831.25 samples at 22050 a second; 22 frames would be 20212.5.
        let (long, short) = (FrameCount::new(39).unwrap(), FrameCount::new(22).unwrap());
        assert_eq!(kept_samples(22_050, long, Recipe::Release), 35_831);
        assert_eq!(kept_samples(22_050, short, Recipe::Release), 20_212);
        assert_eq!(kept_samples(32_000, short, Recipe::Release), 29_333);
        assert_eq!(kept_samples(16_001, short, Recipe::Release), 14_668);
        assert_eq!(kept_samples(16_001, short, Recipe::Diffusers), 14_667);
    }

    #[test]
    fn one_channel_becomes_both() {
        let mono = Recording::new(32_000, vec![vec![0.25; 40_000]]).unwrap();
        let sound = fit_sound(mono, FrameCount::new(22).unwrap(), Recipe::Diffusers).unwrap();
        assert_eq!(sound.samples(), 29_333);
        assert_eq!(sound.left(), sound.right());
        let stereo = Recording::new(16_000, vec![vec![0.25; 100], vec![-0.25; 100]]).unwrap();
        let sound = fit_sound(stereo, FrameCount::new(22).unwrap(), Recipe::Release).unwrap();
        assert_eq!(sound.samples(), 200);
        assert!(sound.left()[100] > 0.2 && sound.right()[100] < -0.2);
    }
}
