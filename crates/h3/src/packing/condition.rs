//! What goes into a sequence besides the text: the conditions and the target.

use crate::canvas::Canvas;
use crate::frames::FrameCount;

/// Latents per patch along height and width.
pub(super) const PATCH: u32 = 2;
/// Audio channels, packed one after the other.
pub(super) const AUDIO_CHANNELS: u32 = 2;

/// The size of a video or picture in latents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LatentGrid {
    /// Latent frames; a picture has one.
    pub frames: u32,
    /// Latents along the height.
    pub height: u32,
    /// Latents along the width.
    pub width: u32,
}

impl LatentGrid {
    /// Returns the number of packed rows of one frame: a patch takes two by two latents.
    pub fn rows_per_frame(self) -> usize {
        (self.height / PATCH) as usize * (self.width / PATCH) as usize
    }

    /// Returns the number of packed rows; more than a sequence could have saturate.
    pub fn rows(self) -> usize {
        (self.frames as usize).saturating_mul(self.rows_per_frame())
    }
}

/// What is generated, in latents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// The video's latents.
    pub video: LatentGrid,
    /// The audio's latents per channel.
    pub audio_latents: u32,
}

impl Target {
    /// Returns the latents of a canvas and a number of frames.
    pub fn new(canvas: Canvas, num_frames: FrameCount) -> Self {
        Self {
            video: LatentGrid {
                frames: num_frames.latent_frames(),
                height: canvas.latent_height(),
                width: canvas.latent_width(),
            },
            audio_latents: num_frames.audio_latents(),
        }
    }

    /// Returns the number of packed rows, audio and video together.
    pub fn rows(self) -> usize {
        audio_rows(self.audio_latents).saturating_add(self.video.rows())
    }
}

/// Where a keyframe stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At the first frame.
    First,
    /// At the last frame.
    Last,
}

/// One reference of Ref2VA, in the order of the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reference {
    /// A picture, in latents.
    Image {
        /// Latents along the height.
        height: u32,
        /// Latents along the width.
        width: u32,
    },
    /// A standalone sound.
    Audio {
        /// Latents per channel.
        latents: u32,
    },
    /// A video, with its soundtrack if it has one.
    Video {
        /// The pictures, in latents.
        video: LatentGrid,
        /// The soundtrack's latents per channel; 0 without one.
        audio_latents: u32,
    },
}

impl Reference {
    pub(super) fn video(self) -> Option<LatentGrid> {
        match self {
            Self::Image { height, width } => Some(LatentGrid { frames: 1, height, width }),
            Self::Video { video, .. } => Some(video),
            Self::Audio { .. } => None,
        }
    }

    pub(super) fn audio_latents(self) -> u32 {
        match self {
            Self::Image { .. } => 0,
            Self::Audio { latents } => latents,
            Self::Video { audio_latents, .. } => audio_latents,
        }
    }
}

/// What a sequence is conditioned on besides its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions<'a> {
    /// Nothing: T2VA.
    None,
    /// Keyframes on the target's own grid: FL2VA.
    Keyframes(&'a [Anchor]),
    /// References, each on its own grid: Ref2VA.
    References(&'a [Reference]),
}

/// Returns the number of packed rows of an audio track.
pub(super) fn audio_rows(latents: u32) -> usize {
    latents as usize * AUDIO_CHANNELS as usize
}
