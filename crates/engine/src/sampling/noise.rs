//! `torch.randn` on the CPU, ported: a Mersenne Twister and Box-Muller in blocks of sixteen.

use std::f64::consts::TAU;

use clapboard_h3::Recipe;

use super::LatentShape;

const STATE: usize = 624;
const SHIFT: usize = 397;

/// PyTorch's CPU generator, for standard normal draws.
///
/// Values agree with PyTorch's within 5e-7 (its vector code approximates logarithm and cosine); the words consumed are
/// the same, so later draws line up. Seeds act modulo 2³². Source: PyTorch 2.15 `MT19937RNGEngine.h`, `normal_fill`.
#[derive(Debug, Clone)]
pub struct TorchGenerator {
    state: [u32; STATE],
    next: usize,
    /// The second value of a Box-Muller pair of a short draw: PyTorch hands it to the next short draw.
    spare: Option<f64>,
}

impl TorchGenerator {
    /// Seeds the generator.
    pub fn new(seed: u64) -> Self {
        let mut state = [0u32; STATE];
        // The generator keeps the low 32 bits of a seed, as PyTorch does.
        state[0] = (seed & 0xFFFF_FFFF) as u32;
        for i in 1..STATE {
            let previous = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        Self { state, next: STATE, spare: None }
    }

    /// Draws `n` standard normal values.
    pub fn normal(&mut self, n: usize) -> Vec<f32> {
        if n < 16 {
            return (0..n).map(|_| self.single() as f32).collect();
        }
        let mut values: Vec<f32> = (0..n).map(|_| self.uniform()).collect();
        for block in values.chunks_exact_mut(16) {
            box_muller(block);
        }
        if !n.is_multiple_of(16) {
            // A ragged end is filled by drawing the last sixteen values anew.
            let tail = &mut values[n - 16..];
            tail.iter_mut().for_each(|value| *value = self.uniform());
            box_muller(tail);
        }
        values
    }

    /// One value by the scalar path that PyTorch takes for fewer than sixteen values, in double precision.
    fn single(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let (u1, u2) = (self.uniform_double(), self.uniform_double());
        let radius = (-2.0 * (-u2).ln_1p()).sqrt();
        let theta = TAU * u1;
        self.spare = Some(radius * theta.sin());
        radius * theta.cos()
    }

    fn uniform(&mut self) -> f32 {
        (self.word() & 0x00FF_FFFF) as f32 * (1.0 / 16_777_216.0)
    }

    fn uniform_double(&mut self) -> f64 {
        let high = u64::from(self.word());
        let low = u64::from(self.word());
        ((high << 32 | low) & ((1 << 53) - 1)) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    fn word(&mut self) -> u32 {
        if self.next == STATE {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9D2C_5680;
        word ^= (word << 15) & 0xEFC6_0000;
        word ^ (word >> 18)
    }

    fn twist(&mut self) {
        for i in 0..STATE {
            let mixed = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % STATE] & 0x7FFF_FFFF);
            let odd = if mixed & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[i] = self.state[(i + SHIFT) % STATE] ^ (mixed >> 1) ^ odd;
        }
        self.next = 0;
    }
}

/// Turns sixteen uniform values into sixteen normal ones.
fn box_muller(block: &mut [f32]) {
    let (first, second) = block.split_at_mut(8);
    for (a, b) in first.iter_mut().zip(second) {
        let radius = (-2.0 * (1.0 - *a).ln()).sqrt();
        let theta = std::f32::consts::TAU * *b;
        (*a, *b) = (radius * theta.cos(), radius * theta.sin());
    }
}

/// The noise that denoising starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct InitialNoise {
    /// Video latents `[channels, frames, height, width]`.
    pub video: Vec<f32>,
    /// Audio rows `[2 · audio_latents, channels]`, all left rows before all right rows.
    pub audio: Vec<f32>,
}

impl InitialNoise {
    /// Draws the noise of a request without conditions.
    ///
    /// `release` starts a fresh generator for each draw, `diffusers` draws video and then audio from one.
    pub fn draw(recipe: Recipe, seed: u64, video: LatentShape, audio_rows: usize, audio_channels: usize) -> Self {
        let mut generator = TorchGenerator::new(seed);
        let video = generator.normal(video.elements());
        if recipe == Recipe::Release {
            generator = TorchGenerator::new(seed);
        }
        Self { video, audio: generator.normal(audio_rows * audio_channels) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_act_modulo_two_to_the_32() {
        let low = TorchGenerator::new(7).normal(40);
        assert_eq!(low, TorchGenerator::new(7 + (5 << 32)).normal(40));
        assert_ne!(low, TorchGenerator::new(8).normal(40));
    }

    #[test]
    fn the_twister_is_the_published_one() {
        // The 10,000th output of mt19937 seeded with 5489, from the C++ standard.
        let mut generator = TorchGenerator::new(5489);
        let last = (0..10_000).map(|_| generator.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn recipes_differ_in_the_audio_draw_only() {
        let grid = LatentShape { channels: 2, frames: 3, height: 2, width: 4 };
        let release = InitialNoise::draw(Recipe::Release, 3, grid, 4, 8);
        let diffusers = InitialNoise::draw(Recipe::Diffusers, 3, grid, 4, 8);
        assert_eq!(release.video, diffusers.video);
        assert_eq!(release.audio, release.video[..32]);
        assert_ne!(release.audio, diffusers.audio);
    }
}
