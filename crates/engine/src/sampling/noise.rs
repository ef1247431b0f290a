//! `torch.randn` on the CPU, ported: a Mersenne Twister and Box-Muller in blocks of sixteen.

use std::f64::consts::TAU;
use std::iter::once;
use std::ops::Range;

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
        self.normal_of(n, once(0..n))
    }

    /// Draws `n` standard normal values and returns some of them: those of `kept`, ranges in ascending order that do not
    /// overlap. No more memory is taken than for what is kept.
    pub fn normal_of(&mut self, n: usize, kept: impl IntoIterator<Item = Range<usize>>) -> Vec<f32> {
        let mut kept = Kept::of(kept);
        if n < BLOCK {
            let drawn: Vec<f32> = (0..n).map(|_| self.single() as f32).collect();
            kept.take(0, &drawn);
            return kept.values;
        }
        // A ragged end is filled by drawing the last sixteen values anew.
        let anew = if n.is_multiple_of(BLOCK) { n } else { n - BLOCK };
        let mut block = [0.0; BLOCK];
        for start in (0..n - n % BLOCK).step_by(BLOCK) {
            block.iter_mut().for_each(|value| *value = self.uniform());
            let lasting = BLOCK.min(anew.saturating_sub(start));
            if kept.wants(start + lasting) {
                box_muller(&mut block);
                kept.take(start, &block[..lasting]);
            }
        }
        if anew < n {
            for _ in 0..n % BLOCK {
                self.uniform();
            }
            block.iter_mut().for_each(|value| *value = self.uniform());
            box_muller(&mut block);
            kept.take(anew, &block);
        }
        kept.values
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

/// Values that are drawn together.
const BLOCK: usize = 16;

/// Turns sixteen uniform values into sixteen normal ones.
fn box_muller(block: &mut [f32]) {
    let (first, second) = block.split_at_mut(8);
    for (a, b) in first.iter_mut().zip(second) {
        let radius = (-2.0 * (1.0 - *a).ln()).sqrt();
        let theta = std::f32::consts::TAU * *b;
        (*a, *b) = (radius * theta.cos(), radius * theta.sin());
    }
}

/// Picks some of many values that come in order.
struct Kept<I: Iterator<Item = Range<usize>>> {
    current: Option<Range<usize>>,
    further: I,
    values: Vec<f32>,
}

impl<I: Iterator<Item = Range<usize>>> Kept<I> {
    fn of(ranges: impl IntoIterator<IntoIter = I>) -> Self {
        let mut further = ranges.into_iter();
        Self { current: further.next(), further, values: Vec::new() }
    }

    /// Tells whether any value before `end` is wanted that did not come yet.
    fn wants(&self, end: usize) -> bool {
        self.current.as_ref().is_some_and(|range| range.start < end)
    }

    /// Takes what is wanted of the values from `start` on.
    fn take(&mut self, start: usize, values: &[f32]) {
        let end = start + values.len();
        while let Some(range) = self.current.clone().filter(|range| range.start < end) {
            let upto = range.end.min(end);
            self.values.extend_from_slice(&values[range.start.max(start) - start..upto - start]);
            self.current = if upto < range.end { Some(upto..range.end) } else { self.further.next() };
        }
    }
}

/// The noise of a request's conditions, and where that of its target begins.
#[derive(Debug, Clone)]
pub struct RequestNoise {
    /// Noise of each visual condition in packed order, `[channels, frames, height, width]`.
    pub conditions: Vec<Vec<f32>>,
    recipe: Recipe,
    video: LatentShape,
    /// Stands where the video's draw begins.
    generator: TorchGenerator,
}

/// The noise of a request's target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetNoise {
    /// Video latents `[channels, frames, height, width]`.
    pub video: Vec<f32>,
    /// Audio rows `[2 · audio_latents, channels]`, all left rows before all right rows.
    pub audio: Vec<f32>,
}

impl RequestNoise {
    /// Draws the noise of visual conditions of these shapes, for a target whose video has the shape `video`.
    ///
    /// `diffusers` draws all noise of a request from one generator: of its conditions, of its video, of its audio.
    /// `release` starts a fresh generator for each draw, and draws a condition's noise longer than the condition, of which
    /// the first frames are kept. Source: diffusers 0.42.1 `MiniMaxH3PrepareConditionLatentsStep`; vllm-omni 0.30.0
    /// `condition_noise.py`.
    pub fn draw(recipe: Recipe, seed: u64, conditions: &[LatentShape], video: LatentShape) -> Self {
        let mut generator = TorchGenerator::new(seed);
        let drawn = match recipe {
            Recipe::Diffusers => conditions.iter().map(|shape| generator.normal(shape.elements())).collect(),
            Recipe::Release => {
                let mut drawn: Vec<Vec<f32>> = Vec::with_capacity(conditions.len());
                for (index, shape) in conditions.iter().enumerate() {
                    let equal = conditions[..index].iter().position(|earlier| earlier == shape);
                    drawn.push(match equal {
                        // The same draw of the same seed.
                        Some(earlier) => drawn[earlier].clone(),
                        None => {
                            let frames = shape.frames.max(video.frames + conditions.len());
                            first_frames(generator.clone(), LatentShape { frames, ..*shape }, shape.frames)
                        }
                    });
                }
                drawn
            }
        };
        Self { conditions: drawn, recipe, video, generator }
    }

    /// Draws the noise of the target, whose sound has so many values.
    pub fn target(&self, audio: usize) -> TargetNoise {
        let mut generator = self.generator.clone();
        let video = generator.normal(self.video.elements());
        let audio = match self.recipe {
            Recipe::Diffusers => generator.normal(audio),
            Recipe::Release => self.generator.clone().normal(audio),
        };
        TargetNoise { video, audio }
    }
}

/// Draws `shape` and keeps the first `frames` frames of every channel.
fn first_frames(mut generator: TorchGenerator, shape: LatentShape, frames: usize) -> Vec<f32> {
    let plane = shape.height * shape.width;
    let channel = shape.frames * plane;
    let kept = (0..shape.channels).map(|index| index * channel..index * channel + frames * plane);
    generator.normal_of(shape.elements(), kept)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

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

    const VIDEO: LatentShape = LatentShape { channels: 2, frames: 3, height: 2, width: 4 };

    /// The conditions' noise and the target's, of which the sound has four rows of eight.
    fn drawn(recipe: Recipe, conditions: &[LatentShape]) -> (Vec<Vec<f32>>, TargetNoise) {
        let noise = RequestNoise::draw(recipe, 3, conditions, VIDEO);
        let target = noise.target(32);
        (noise.conditions, target)
    }

    #[test]
    fn without_conditions_recipes_differ_in_the_audio_draw_only() {
        let (_, release) = drawn(Recipe::Release, &[]);
        let (_, diffusers) = drawn(Recipe::Diffusers, &[]);
        assert_eq!(release.video, diffusers.video);
        assert_eq!(release.audio, release.video[..32]);
        assert_ne!(release.audio, diffusers.audio);
    }

    #[test]
    fn the_release_draws_a_condition_longer_than_it_is() {
        let image = LatentShape { channels: 2, frames: 1, height: 2, width: 2 };
        let wide = LatentShape { width: 4, ..image };
        let (conditions, target) = drawn(Recipe::Release, &[image, wide, image]);
        // Three frames of the video and one for each condition: the second channel begins after six frames.
        let all = TorchGenerator::new(3).normal(2 * 6 * 4);
        assert_eq!(conditions[0], [&all[..4], &all[24..28]].concat());
        assert_eq!(conditions[2], conditions[0], "each condition has a generator of its own");
        let all = TorchGenerator::new(3).normal(2 * 6 * 8);
        assert_eq!(conditions[1], [&all[..8], &all[48..56]].concat());
        assert_eq!(target, drawn(Recipe::Release, &[]).1, "so has the target");
        let long = LatentShape { frames: 9, ..image };
        assert_eq!(drawn(Recipe::Release, &[long]).0[0], TorchGenerator::new(3).normal(long.elements()));
    }

    #[test]
    fn diffusers_draws_conditions_then_video_then_audio() {
        let image = LatentShape { channels: 2, frames: 1, height: 2, width: 4 };
        let (conditions, target) = drawn(Recipe::Diffusers, &[image]);
        let mut generator = TorchGenerator::new(3);
        assert_eq!(conditions, [generator.normal(16)]);
        assert_eq!(target.video, generator.normal(48));
        assert_eq!(target.audio, generator.normal(32));
    }

    /// PyTorch's own way: all values at once, then the ragged end anew.
    fn at_once(generator: &mut TorchGenerator, n: usize) -> Vec<f32> {
        if n < 16 {
            return (0..n).map(|_| generator.single() as f32).collect();
        }
        let mut values: Vec<f32> = (0..n).map(|_| generator.uniform()).collect();
        values.chunks_exact_mut(16).for_each(box_muller);
        if !n.is_multiple_of(16) {
            let tail = &mut values[n - 16..];
            tail.iter_mut().for_each(|value| *value = generator.uniform());
            box_muller(tail);
        }
        values
    }

    proptest! {
        #[test]
        fn what_is_kept_are_the_values_of_the_whole_draw(n in 0usize..200, cuts in vec(0usize..200, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(n)).collect();
            cuts.sort_unstable();
            let kept: Vec<Range<usize>> = cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            let (mut streamed, mut whole) = (TorchGenerator::new(9), TorchGenerator::new(9));
            let all = at_once(&mut whole, n);
            let expected: Vec<f32> = kept.iter().flat_map(|range| &all[range.clone()]).copied().collect();
            prop_assert_eq!(streamed.normal_of(n, kept), expected);
            prop_assert_eq!(streamed.normal(40), whole.normal(40), "the next draw begins at the same word");
        }
    }
}
