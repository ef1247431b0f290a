//! How latents are cut in time into clips, and how the clips' frames join.
//!
//! The encoder saw clips of `clip_length` frames, padded in front to whole latents, and dropped `token_drop` latents at
//! the very end. So chunk `i` decodes latents from `i · chunk_latents` on, `overlap_latents` further than a chunk: its
//! first part, without the front padding, is the chunk's frames (*head*); what follows, without padding, is a second
//! opinion on the first frames of the next chunk (*tail*), and the two are cross-faded.

use crate::checkpoint::VideoVaeConfig;

/// The constants of the temporal cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkGeometry {
    clip_length: usize,
    token_drop: usize,
    frames_per_latent: usize,
}

impl ChunkGeometry {
    /// Takes the constants of a config.
    pub fn of(config: &VideoVaeConfig) -> Self {
        Self {
            clip_length: config.clip_length,
            token_drop: config.token_drop,
            frames_per_latent: config.temporal_compression(),
        }
    }

    /// Latents from one chunk to the next.
    pub fn chunk_latents(&self) -> usize {
        self.clip_length.div_ceil(self.frames_per_latent)
    }

    /// Latents that a clip shares with the next one.
    pub fn overlap_latents(&self) -> usize {
        (self.chunk_latents() - self.token_drop % self.chunk_latents()) % self.chunk_latents()
    }

    /// Latents that are decoded together.
    pub fn clip_latents(&self) -> usize {
        self.chunk_latents() + self.overlap_latents()
    }

    /// Frames at the front of a chunk that only stand for padding.
    fn padding_frames(&self) -> usize {
        self.chunk_latents() * self.frames_per_latent - self.clip_length
    }

    /// Where the head begins among a clip's decoded frames.
    pub fn head_start(&self) -> usize {
        self.padding_frames()
    }

    /// Frames of a head.
    pub fn head_frames(&self) -> usize {
        self.clip_length
    }

    /// Where the tail begins among a clip's decoded frames.
    pub fn tail_start(&self) -> usize {
        self.chunk_latents() * self.frames_per_latent + self.padding_frames()
    }

    /// Frames of a tail.
    pub fn tail_frames(&self) -> usize {
        (self.overlap_latents() * self.frames_per_latent).saturating_sub(self.padding_frames())
    }

    /// Frames that are kept of a clip: head and tail.
    pub fn kept_frames(&self) -> usize {
        self.head_frames() + self.tail_frames()
    }

    /// Returns the fewest latent frames that make a clip.
    pub fn least_latents(&self) -> usize {
        if self.token_drop > 0 { self.chunk_latents() - self.token_drop + 1 } else { 1 }
    }

    /// Plans the decode of `latent_frames`; `None` when they are too few for one clip.
    ///
    /// A length that is no whole number of chunks is padded with its last latent; the frames of the padding are cut off
    /// again.  Source: diffusers 0.42.1 `AutoencoderKLMiniMaxH3._decode`.
    pub fn plan(&self, latent_frames: usize) -> Option<ChunkPlan> {
        if latent_frames < self.least_latents() {
            return None;
        }
        let chunk = self.chunk_latents();
        let chunks = (latent_frames + self.token_drop).div_ceil(chunk) - usize::from(self.token_drop > 0);
        let padding = (chunks + usize::from(self.token_drop > 0)) * chunk - latent_frames - self.token_drop;
        // The last latent of a chunk stands for the frames beyond whole latents, every other one for a whole latent.
        let rest = self.clip_length % self.frames_per_latent;
        let padding_frames: usize = (latent_frames..latent_frames + padding)
            .map(|latent| if rest > 0 && latent % chunk == 0 { rest } else { self.frames_per_latent })
            .sum();
        let frames = chunks * self.head_frames() + self.tail_frames() - padding_frames;
        Some(ChunkPlan { geometry: *self, latent_frames, chunks, frames })
    }
}

/// The temporal cut of one film.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPlan {
    geometry: ChunkGeometry,
    latent_frames: usize,
    /// Clips to decode.
    pub chunks: usize,
    /// Frames of the film.
    pub frames: usize,
}

impl ChunkPlan {
    /// Returns the latent frames of clip `chunk`, in order; beyond the end the last one repeats.
    pub fn latents(&self, chunk: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, last) = (chunk * self.geometry.chunk_latents(), self.latent_frames - 1);
        (first..first + self.geometry.clip_latents()).map(move |latent| latent.min(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASED: ChunkGeometry = ChunkGeometry { clip_length: 17, token_drop: 3, frames_per_latent: 4 };

    #[test]
    fn released_clips_are_seven_latents_with_heads_of_17_and_tails_of_5() {
        assert_eq!((RELEASED.chunk_latents(), RELEASED.clip_latents()), (5, 7));
        assert_eq!((RELEASED.head_start(), RELEASED.head_frames()), (3, 17));
        assert_eq!((RELEASED.tail_start(), RELEASED.tail_frames()), (23, 5));
    }

    #[test]
    fn lattice_lengths_give_their_frames_without_padding() {
        for n in 1..21 {
            let plan = RELEASED.plan(5 * n + 2).unwrap();
            assert_eq!((plan.chunks, plan.frames), (n, 17 * n + 5));
            assert_eq!(plan.latents(n - 1).last(), Some(5 * n + 1));
        }
    }

    #[test]
    fn other_lengths_repeat_the_last_latent_and_lose_its_frames() {
        let plan = RELEASED.plan(9).unwrap();
        assert_eq!((plan.chunks, plan.frames), (2, 30));
        assert_eq!(plan.latents(1).collect::<Vec<_>>(), [5, 6, 7, 8, 8, 8, 8]);
        // Every latent adds frames, so the lengths in between are strictly ordered.
        let frames: Vec<_> = (3..40).map(|latents| RELEASED.plan(latents).unwrap().frames).collect();
        assert!(frames.windows(2).all(|pair| pair[0] < pair[1]), "{frames:?}");
    }

    #[test]
    fn two_latents_make_no_clip() {
        assert_eq!(RELEASED.plan(2), None);
        assert_eq!(RELEASED.least_latents(), 3);
        assert_eq!(RELEASED.plan(3).unwrap().frames, 9);
    }

    #[test]
    fn without_dropped_latents_chunks_stand_side_by_side() {
        let geometry = ChunkGeometry { token_drop: 0, ..RELEASED };
        let plan = geometry.plan(10).unwrap();
        assert_eq!((geometry.tail_frames(), plan.chunks, plan.frames), (0, 2, 34));
    }
}
