//! Which frames of a video the language model sees, and when.

use clapboard_h3::FPS;

/// Frames that the language model sees of each second.
const SAMPLES_PER_SECOND: u32 = 2;

/// Frames from one sampled frame to the next.
const STRIDE: usize = (FPS / SAMPLES_PER_SECOND) as usize;

/// Returns the frames that are sampled of `frames` frames at 24 a second: every twelfth, the first included.
///
/// Source: diffusers 0.42.1 `MiniMaxH3Ref2VATextEncoderStep._sample_video_condition_frames`.
pub fn sampled_frames(frames: usize) -> Vec<usize> {
    (0..frames).step_by(STRIDE).collect()
}

/// The fewest frames of a video of which `samples` frames are sampled.
pub(super) fn frames_for(samples: usize) -> usize {
    samples.saturating_sub(1) * STRIDE + 1
}

/// Returns the time of each block of `temporal_patch` sampled frames in seconds: the mean of its first and last
/// frame's.
///
/// Times count sampled frames, not those of the source. A last block that is not full repeats the last frame.
pub fn block_timestamps(samples: usize, temporal_patch: usize) -> Vec<f64> {
    let time = |index: usize| index.min(samples.saturating_sub(1)) as f64 / f64::from(SAMPLES_PER_SECOND);
    (0..samples).step_by(temporal_patch).map(|first| (time(first) + time(first + temporal_patch - 1)) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_twelfth_frame_is_sampled() {
        assert_eq!(sampled_frames(36), [0, 12, 24]);
        assert_eq!(sampled_frames(37), [0, 12, 24, 36]);
        assert_eq!(sampled_frames(12), [0]);
        assert_eq!((frames_for(2), sampled_frames(13).len()), (13, 2));
    }

    #[test]
    fn a_block_stands_at_the_mean_of_its_frames() {
        assert_eq!(block_timestamps(4, 2), [0.25, 1.25]);
        // The third frame is repeated.
        assert_eq!(block_timestamps(3, 2), [0.25, 1.0]);
        assert_eq!(block_timestamps(3, 1), [0.0, 0.5, 1.0]);
    }
}
