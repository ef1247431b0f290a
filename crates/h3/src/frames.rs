//! The lattice of frame counts that the video VAE can decode, and the durations that lead to it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::geometry::GeometryProfile;

/// The frame rate of everything the model generates.
pub const FPS: u32 = 24;

/// Frames in one clip of the video VAE, and latents that stand for it.
const CLIP_FRAMES: u32 = 17;
const CLIP_LATENTS: u32 = 5;
/// Frames and latents of the shortened last clip.
const TAIL_FRAMES: u32 = 5;
const TAIL_LATENTS: u32 = 2;
/// Audio latents per second and samples per audio latent.
pub(crate) const AUDIO_LATENTS_PER_SECOND: f64 = 40.0;
const SAMPLES_PER_AUDIO_LATENT: u32 = 800;

/// A number of frames that the video VAE can decode: `17n + 5` with `n >= 1`.
///
/// The greatest is an hour, so that everything counted from it fits 32 bits.
///
/// Five frames (`n = 0`) are two latents, from which the decoder's overlapping chunks give nothing: 22 is the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct FrameCount(u32);

impl FrameCount {
    /// The least number of frames.
    pub const MIN: Self = Self(CLIP_FRAMES + TAIL_FRAMES);

    /// The greatest number of frames: the last on the lattice within an hour.
    pub const MAX: Self = Self((3600 * FPS - TAIL_FRAMES) / CLIP_FRAMES * CLIP_FRAMES + TAIL_FRAMES);

    /// Takes a number that is on the lattice already.
    ///
    /// Errors: [`NotOnFrameLattice`] otherwise.
    pub fn new(frames: u32) -> Result<Self, NotOnFrameLattice> {
        if (Self::MIN.0..=Self::MAX.0).contains(&frames) && frames % CLIP_FRAMES == TAIL_FRAMES {
            Ok(Self(frames))
        } else {
            Err(NotOnFrameLattice(frames))
        }
    }

    /// Finds the least number on the lattice that is not below `frames`.
    ///
    /// Saturates at [`FrameCount::MAX`].
    pub fn snap_up(frames: u32) -> Self {
        let clips = frames.min(Self::MAX.0).saturating_sub(TAIL_FRAMES).div_ceil(CLIP_FRAMES).max(1);
        Self(clips * CLIP_FRAMES + TAIL_FRAMES)
    }

    /// Finds the frames for a duration in seconds.
    ///
    /// The duration must lie in the geometry's range as it was asked for; then it is converted to frames, rounded to
    /// the nearest (halves to even), and snapped up, so that the video is never shorter than asked.
    ///
    /// Errors: [`DurationError`] outside the range.
    pub fn from_seconds(seconds: f64, geometry: &GeometryProfile) -> Result<Self, DurationError> {
        check_duration(seconds, geometry)?;
        let frames = (seconds * f64::from(FPS)).round_ties_even();
        Ok(Self::snap_up(frames as u32))
    }

    /// Finds the frames for an asked number of frames, under the same rule as [`FrameCount::from_seconds`].
    ///
    /// Errors: [`DurationError`] when `frames` at 24 fps last shorter or longer than the geometry allows.
    pub fn from_frames(frames: i64, geometry: &GeometryProfile) -> Result<Self, DurationError> {
        let seconds = frames as f64 / f64::from(FPS);
        let error = DurationError { seconds, min: geometry.min_duration_seconds, max: geometry.max_duration_seconds };
        check_duration(seconds, geometry)?;
        u32::try_from(frames).map(Self::snap_up).map_err(|_| error)
    }

    /// Returns the number of frames.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Returns the number of latent frames of the video VAE.
    pub fn latent_frames(self) -> u32 {
        (self.0 - TAIL_FRAMES) / CLIP_FRAMES * CLIP_LATENTS + TAIL_LATENTS
    }

    /// Returns the number of audio latents per channel.
    pub fn audio_latents(self) -> u32 {
        (self.seconds() * AUDIO_LATENTS_PER_SECOND).round_ties_even() as u32
    }

    /// Returns the number of audio samples per channel that the audio VAE decodes, at 32 kHz.
    ///
    /// That is up to one latent more or less than the video lasts; it is cut to the video when both are muxed.
    pub fn audio_samples(self) -> u32 {
        self.audio_latents() * SAMPLES_PER_AUDIO_LATENT
    }

    /// Returns the duration in seconds.
    pub fn seconds(self) -> f64 {
        f64::from(self.0) / f64::from(FPS)
    }
}

impl fmt::Display for FrameCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for FrameCount {
    type Error = NotOnFrameLattice;

    fn try_from(frames: u32) -> Result<Self, Self::Error> {
        Self::new(frames)
    }
}

impl From<FrameCount> for u32 {
    fn from(frames: FrameCount) -> Self {
        frames.0
    }
}

fn check_duration(seconds: f64, geometry: &GeometryProfile) -> Result<(), DurationError> {
    let (min, max) = (geometry.min_duration_seconds, geometry.max_duration_seconds);
    if (min..=max).contains(&seconds) { Ok(()) } else { Err(DurationError { seconds, min, max }) }
}

/// Says that a number of frames is not one that the video VAE can decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "number of frames must be 17n + 5 and between {min} and {max}, got {0}",
    min = FrameCount::MIN, max = FrameCount::MAX
)]
pub struct NotOnFrameLattice(pub u32);

/// Says that a duration is outside what the checkpoint generates.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("duration must be between {min} and {max} seconds, got {seconds}")]
pub struct DurationError {
    /// The duration as asked for, in seconds.
    pub seconds: f64,
    /// The least duration of the geometry, in seconds.
    pub min: f64,
    /// The greatest duration of the geometry, in seconds.
    pub max: f64,
}

#[cfg(test)]
mod tests;
