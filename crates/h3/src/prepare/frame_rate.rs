//! Bringing a video to 24 frames a second, and how much of it the video VAE takes.

use crate::frames::FPS;

/// Decides how often each frame of a source is repeated to make 24 frames a second; feed it the frames in order.
///
/// For frames that have nothing but a rate. Frames with times of their own are placed by those, which at a constant rate
/// comes to the same.
///
/// Frame `i` belongs into slot `floor(i · 24 / fps + 0.5)` and is held until the slot of the next one: zero times where
/// several share a slot. The last one is held until the slot at which the source ends, so no look-ahead is needed.
#[derive(Debug, Clone)]
pub struct FrameSlots {
    scale: f64,
    taken: u64,
    made: u64,
    most: u64,
}

impl FrameSlots {
    /// Starts at the first frame of a source of `fps` frames a second, which is to become at most `most` frames.
    ///
    /// Errors: [`BadFrameRate`] unless `fps` is a positive number.
    pub fn new(fps: f64, most: usize) -> Result<Self, BadFrameRate> {
        if !(fps.is_finite() && fps > 0.0) {
            return Err(BadFrameRate(fps));
        }
        Ok(Self { scale: f64::from(FPS) / fps, taken: 0, made: 0, most: most as u64 })
    }

    /// Takes the next frame and says how often it is repeated: 0 drops it, 1 keeps it.
    pub fn repeats(&mut self) -> usize {
        self.taken += 1;
        let end = self.slot(self.taken).min(self.most);
        let repeats = end.saturating_sub(self.made);
        self.made += repeats;
        repeats as usize
    }

    /// Tells whether every further frame is dropped.
    pub fn is_full(&self) -> bool {
        self.made >= self.most
    }

    /// Returns the number of frames made so far.
    pub fn made(&self) -> usize {
        self.made as usize
    }

    fn slot(&self, frame: u64) -> u64 {
        (frame as f64 * self.scale + 0.5).floor() as u64
    }
}

/// Says that a frame rate is no positive number.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("frame rate must be positive, got {0}")]
pub struct BadFrameRate(pub f64);

/// Returns how many of a reference video's frames the video VAE takes: the leading `17n + 5`, or all where there are
/// fewer than 22.
///
/// Of fewer than 22 frames the encoder makes whole clips by repeating the last one.
///
/// Source: diffusers 0.42.1, which snaps down and never below the frames of one clip and its tail.
pub fn vae_frames(frames: usize) -> usize {
    let snapped = (frames.saturating_sub(5) / 17).max(1) * 17 + 5;
    snapped.min(frames)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The source frame of each made frame.
    fn sources(fps: f64, frames: usize, most: usize) -> Vec<usize> {
        let mut slots = FrameSlots::new(fps, most).unwrap();
        (0..frames).flat_map(|index| std::iter::repeat_n(index, slots.repeats())).collect()
    }

    #[test]
    fn a_source_of_24_frames_a_second_stays_as_it_is() {
        assert_eq!(sources(24.0, 5, 100), [0, 1, 2, 3, 4]);
        assert_eq!(sources(24.0, 5, 3), [0, 1, 2]);
    }

    #[test]
    fn faster_sources_lose_frames_and_slower_ones_repeat_them() {
        // numpy: np.repeat(np.arange(n), np.diff(floor(arange(n) * 24 / fps + .5), append=floor(n * 24 / fps + .5))).
        assert_eq!(sources(30.0, 10, 100), [0, 1, 3, 4, 5, 6, 8, 9]);
        assert_eq!(sources(60.0, 10, 100), [1, 3, 6, 8]);
        assert_eq!(sources(15.0, 5, 100), [0, 0, 1, 2, 2, 3, 4, 4]);
        assert_eq!(sources(30.0, 45, 100).len(), 36);
    }

    #[test]
    fn exact_times_at_a_constant_rate_make_the_same_frames() {
        // Every rate and duration that a reference may have. Later on, a frame of a broadcast rate falls half-way between
        // two slots, where F64 is not exact.
        let whole = (24..=60).map(|fps| (fps, 1));
        for (numerator, denominator) in whole.chain([24_000, 30_000, 48_000, 60_000].map(|fps| (fps, 1001))) {
            let fps = numerator as f64 / denominator as f64;
            // A frame is shown from the slot nearest to its time to that of the next: floor(i · 24 / fps + 1/2).
            let slot = |i: i64| (2 * i * i64::from(FPS) * denominator + numerator).div_euclid(2 * numerator);
            let mut slots = FrameSlots::new(fps, usize::MAX).unwrap();
            for i in 0..(15.1 * fps) as i64 {
                assert_eq!(slots.repeats() as i64, slot(i + 1) - slot(i), "frame {i} at {numerator}/{denominator}");
            }
        }
    }

    #[test]
    fn rates_that_are_none_are_refused() {
        for fps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(FrameSlots::new(fps, 1).is_err(), "{fps}");
        }
    }

    #[test]
    fn the_vae_takes_whole_clips_and_a_tail() {
        let taken = [1, 5, 21, 22, 23, 38, 39, 40, 124, 345].map(vae_frames);
        assert_eq!(taken, [1, 5, 21, 22, 22, 22, 39, 39, 124, 345]);
    }

    proptest! {
        #[test]
        fn the_duration_is_kept_to_half_a_slot(fps in 1.0f64..240.0, frames in 1usize..400) {
            let made = sources(fps, frames, usize::MAX).len() as f64;
            prop_assert!((made - frames as f64 * 24.0 / fps).abs() <= 0.5 + 1e-9);
        }

        #[test]
        fn a_limit_only_cuts_the_end(fps in 1.0f64..240.0, frames in 1usize..200, most in 0usize..100) {
            let whole = sources(fps, frames, usize::MAX);
            prop_assert_eq!(&sources(fps, frames, most)[..], &whole[..most.min(whole.len())]);
        }
    }
}
