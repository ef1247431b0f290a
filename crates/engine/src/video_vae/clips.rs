//! How frames are cut in time into clips that are encoded apart.
//!
//! A picture is one clip of one frame. Anything longer counts as filled up to whole clips by repeating its last frame,
//! and loses its last `token_drop` latents. The encoder sees no later frame, and norms each frame alone; so what only
//! those latents would see is not encoded at all: on the lattice of `17n + 5` frames, no frame is ever repeated.

use crate::checkpoint::VideoVaeConfig;

/// The constants of the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClipGeometry {
    clip_length: usize,
    token_drop: usize,
    frames_per_latent: usize,
}

impl ClipGeometry {
    /// Takes the constants of a config.
    pub fn of(config: &VideoVaeConfig) -> Self {
        Self {
            clip_length: config.clip_length,
            token_drop: config.token_drop,
            frames_per_latent: config.temporal_compression(),
        }
    }

    /// Latents of a whole clip. The first stands for its first frame alone.
    fn clip_latents(&self) -> usize {
        self.clip_length.div_ceil(self.frames_per_latent)
    }

    /// How many latent frames `frames` frames are encoded to; none for no frames.
    ///
    /// Source: diffusers 0.42.1 `AutoencoderKLMiniMaxH3._encode`.
    pub fn latent_frames(&self, frames: usize) -> usize {
        match frames {
            0 | 1 => frames,
            _ => (frames.div_ceil(self.clip_length) * self.clip_latents()).saturating_sub(self.token_drop),
        }
    }

    /// Plans the encode of `frames` frames, in order.
    pub fn clips(&self, frames: usize) -> Vec<ClipSpan> {
        let latents = self.latent_frames(frames);
        (0..latents.div_ceil(self.clip_latents()))
            .map(|index| {
                let first_latent = index * self.clip_latents();
                let latents = self.clip_latents().min(latents - first_latent);
                let seen = ((latents - 1) * self.frames_per_latent + 1).min(self.clip_length);
                ClipSpan {
                    first_frame: index * self.clip_length,
                    frames: seen,
                    last_frame: frames - 1,
                    first_latent,
                    latents,
                }
            })
            .collect()
    }
}

/// Frames that are encoded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClipSpan {
    first_frame: usize,
    /// How many frames are encoded.
    pub frames: usize,
    last_frame: usize,
    /// Where its latents begin.
    pub first_latent: usize,
    /// Latents that it makes.
    pub latents: usize,
}

impl ClipSpan {
    /// Returns the frames, in order; beyond the end the last one repeats.
    pub fn frames(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let last = self.last_frame;
        (self.first_frame..self.first_frame + self.frames).map(move |frame| frame.min(last))
    }
}

#[cfg(test)]
mod tests {
    use clapboard_h3::FrameCount;
    use proptest::prelude::*;

    use super::*;

    const RELEASED: ClipGeometry = ClipGeometry { clip_length: 17, token_drop: 3, frames_per_latent: 4 };

    /// Frames of each clip, first to last.
    fn cut(frames: usize) -> Vec<Vec<usize>> {
        RELEASED.clips(frames).iter().map(|clip| clip.frames().collect()).collect()
    }

    #[test]
    fn a_picture_is_one_frame_and_one_latent() {
        assert_eq!(cut(1), [[0]]);
        assert_eq!(RELEASED.latent_frames(1), 1);
        assert_eq!((RELEASED.latent_frames(0), RELEASED.clips(0)), (0, Vec::new()));
    }

    #[test]
    fn short_clips_repeat_their_last_frame() {
        assert_eq!(cut(3), [[0, 1, 2, 2, 2]]);
        assert_eq!(cut(17), [[0, 1, 2, 3, 4]]);
        assert_eq!(cut(18)[1], [17; 5]);
        assert_eq!(cut(20)[1], [17, 18, 19, 19, 19]);
        assert_eq!([2, 5, 13, 17, 18, 21, 22, 39].map(|n| RELEASED.latent_frames(n)), [2, 2, 2, 2, 7, 7, 7, 12]);
    }

    #[test]
    fn clips_on_the_lattice_hold_every_frame_once() {
        for frames in [22, 39, 124, 345] {
            assert_eq!(cut(frames).concat(), (0..frames).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn latents_are_those_of_the_lattice(asked in 0u32..20_000) {
            let frames = FrameCount::snap_up(asked);
            prop_assert_eq!(RELEASED.latent_frames(frames.get() as usize), frames.latent_frames() as usize);
        }

        #[test]
        fn clips_make_every_latent_in_order(frames in 1usize..2000) {
            let mut next = 0;
            for clip in RELEASED.clips(frames) {
                prop_assert_eq!(clip.first_latent, next);
                prop_assert!(clip.latents > 0 && clip.frames.div_ceil(4) == clip.latents);
                prop_assert!(clip.frames().all(|frame| frame < frames));
                next += clip.latents;
            }
            prop_assert_eq!(next, RELEASED.latent_frames(frames));
        }
    }
}
