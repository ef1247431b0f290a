//! Bringing sound to the audio VAE's rate.
//!
//! The interpolation is torchaudio's default: a sinc of six zero crossings under a Hann window, with its cutoff at 0.99
//! of the lower of both Nyquist rates. Every output sample whose position between input samples is the same takes the
//! same taps, so there are as many sets of taps as the reduced target rate.

use std::f64::consts::PI;

use super::media::SOUND_RATE;

/// Zero crossings on each side of the sinc.
const LOWPASS_WIDTH: f64 = 6.0;
/// Where the cutoff lies, in parts of the lower Nyquist rate.
const ROLLOFF: f64 = 0.99;

/// Resamples one channel after another from one rate to [`SOUND_RATE`].
#[derive(Debug, Clone)]
pub struct Resampler {
    /// Rates over their greatest common divisor.
    from: usize,
    to: usize,
    phases: Vec<Phase>,
    taps: Vec<f32>,
}

/// The taps of one position between input samples.
#[derive(Debug, Clone, Copy)]
struct Phase {
    /// The first input sample, counted from the start of the phase's block; before it for the early phases.
    start: isize,
    /// Where its taps lie.
    first: usize,
    len: usize,
}

impl Resampler {
    /// Plans resampling from a rate of [`Recording::RATES`](super::Recording::RATES), in samples per second.
    ///
    /// Panics: For a rate of zero, which no [`Recording`](super::Recording) has.
    pub fn new(rate: u32) -> Self {
        assert!(rate > 0, "a recording has a positive rate");
        let divisor = greatest_common_divisor(rate, SOUND_RATE);
        let (from, to) = ((rate / divisor) as usize, (SOUND_RATE / divisor) as usize);
        let mut resampler = Self { from, to, phases: Vec::new(), taps: Vec::new() };
        if from != to {
            (0..to).for_each(|phase| resampler.plan_phase(phase));
        }
        resampler
    }

    fn plan_phase(&mut self, phase: usize) {
        let (from, to) = (self.from as f64, self.to as f64);
        let cutoff = from.min(to) * ROLLOFF;
        let scale = cutoff / from;
        // The original divides in F32 here and goes on in F64, which moves the taps by about 1e-7.
        let shift = f64::from(-(phase as f32) / self.to as f32);
        let reach = (LOWPASS_WIDTH * from / cutoff).ceil() as isize;
        let nearest = (phase * self.from / self.to) as isize;
        let at = |sample: isize| (shift + sample as f64 / from) * cutoff;
        // Beyond the outermost zero crossing the window is zero.
        let inside = |sample: &isize| at(*sample).abs() < LOWPASS_WIDTH;
        let samples: Vec<isize> = (nearest - reach..=nearest + reach + 1).filter(inside).collect();
        let start = samples.first().copied().unwrap_or(nearest);
        self.phases.push(Phase { start, first: self.taps.len(), len: samples.len() });
        self.taps.extend(samples.into_iter().map(|sample| {
            let t = at(sample);
            let window = (t * PI / LOWPASS_WIDTH / 2.0).cos().powi(2);
            let angle = t * PI;
            let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
            (sinc * window * scale) as f32
        }));
    }

    /// Returns how many samples `samples` input samples become.
    pub fn output_samples(&self, samples: usize) -> usize {
        // The original rounds the quotient to F32 before it takes the ceiling.
        let ratio = (self.to as f64 * samples as f64 / self.from as f64) as f32;
        let blocks = samples / self.from + 1;
        (ratio.ceil() as usize).min(blocks * self.to)
    }

    /// Resamples one channel; before and after it there is silence.
    pub fn resample(&self, channel: &[f32]) -> Vec<f32> {
        if self.from == self.to {
            return channel.to_vec();
        }
        (0..self.output_samples(channel.len()))
            .map(|index| {
                let (block, phase) = (index / self.to, &self.phases[index % self.to]);
                let start = (block * self.from) as isize + phase.start;
                let skipped = start.min(0).unsigned_abs().min(phase.len);
                let taps = &self.taps[phase.first + skipped..phase.first + phase.len];
                let inputs = channel.get(start.max(0) as usize..).unwrap_or_default();
                let sum: f64 = taps.iter().zip(inputs).map(|(tap, x)| f64::from(*tap) * f64::from(*x)).sum();
                sum as f32
            })
            .collect()
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use safetensors::SafeTensors;

    use super::*;

    fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
        let bytes = file.tensor(name).unwrap().data().chunks_exact(4);
        bytes.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    #[test]
    fn golden_recordings_come_out_as_torchaudio_makes_them() {
        let bytes =
            std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/resample.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let mut rates = 0;
        for name in file.names() {
            let Some(rate) = name.strip_prefix("from").and_then(|rest| rest.strip_suffix(".in")) else { continue };
            let (input, expected) = (floats(&file, name), floats(&file, &format!("from{rate}.out")));
            let resampler = Resampler::new(rate.parse().unwrap());
            let ours: Vec<f32> =
                input.chunks(input.len() / 2).flat_map(|channel| resampler.resample(channel)).collect();
            assert_eq!(ours.len(), expected.len(), "{rate}");
            let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v * v)).sum::<f64>();
            let error = square(&mut ours.iter().zip(&expected).map(|(a, b)| a - b));
            let size = square(&mut expected.iter().copied());
            assert!((error / size).sqrt() < 2e-6, "{rate}: {}", (error / size).sqrt());
            rates += 1;
        }
        assert!(rates >= 2);
    }

    #[test]
    fn a_tone_keeps_its_pitch_and_height() {
        for rate in [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 44_101] {
            let tone = |rate: u32, index: usize| (2.0 * PI * 440.0 * index as f64 / f64::from(rate)).sin() as f32;
            let input: Vec<f32> = (0..rate as usize / 10).map(|index| tone(rate, index)).collect();
            let ours = Resampler::new(rate).resample(&input);
            let expected = (f64::from(rate / 10) * f64::from(SOUND_RATE) / f64::from(rate)).ceil() as usize;
            assert_eq!(ours.len(), expected, "{rate}");
            // Away from the ends, where silence begins.
            for (index, sample) in ours.iter().enumerate().take(2_800).skip(400) {
                assert!((sample - tone(SOUND_RATE, index)).abs() < 3e-3, "{rate} {index}");
            }
        }
    }

    #[test]
    fn a_sound_of_the_right_rate_is_not_touched() {
        assert_eq!(Resampler::new(SOUND_RATE).resample(&[0.1, -0.7]), [0.1, -0.7]);
    }

    #[test]
    fn the_highest_rate_needs_little_memory() {
        let resampler = Resampler::new(383_987);
        assert!(resampler.taps.len() < 8_000_000, "{}", resampler.taps.len());
        assert_eq!(resampler.resample(&[]), Vec::<f32>::new());
        assert_eq!(resampler.resample(&[1.0]).len(), 1);
    }
}
