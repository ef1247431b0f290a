//! What reference media may be: sides, shape, rate and duration.

use std::fmt;
use std::ops::RangeInclusive;

use super::order::ReferenceKind;
use crate::frames::FPS;
use crate::geometry::GeometryProfile;

/// The limits of reference media under one geometry.
///
/// The released geometry gives the official limits. A smaller one lowers the floors in proportion, so that a tiny
/// checkpoint takes media as small as its videos; but no video is shorter than what the language model has to see of it.
///
/// Durations may exceed their ceiling by a tenth of a second, and durations together by as much for each medium: containers
/// pad sound to whole packets, and 15 seconds at a broadcast rate last 15.015.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceLimits {
    /// Sides of a picture or video, in pixels.
    pub sides: RangeInclusive<u32>,
    /// Width over height.
    pub aspect_ratio: RangeInclusive<f64>,
    /// Frames per second of a video.
    pub fps: RangeInclusive<f64>,
    /// Duration of one video, in seconds.
    pub video_seconds: RangeInclusive<f64>,
    /// Duration of one standalone sound, in seconds.
    pub sound_seconds: RangeInclusive<f64>,
    /// Duration of all videos together, and of all standalone sounds, in seconds. A soundtrack counts no longer than its
    /// frames, so soundtracks are within it where their videos are.
    pub total_seconds: f64,
    /// Size of a picture file, in bytes.
    pub image_bytes: u64,
    /// Size of a video file, in bytes.
    pub video_bytes: u64,
    /// Size of a sound file, in bytes.
    pub audio_bytes: u64,
}

impl ReferenceLimits {
    /// How much the duration of one medium may exceed its ceiling, in seconds: what containers pad.
    pub const SLACK_SECONDS: f64 = 0.1;

    /// The shortest video, in seconds: the language model looks at every twelfth frame of 24 a second, and at two frames
    /// at least.
    const LEAST_VIDEO_SECONDS: f64 = 13.0 / FPS as f64;

    /// Returns the limits under a geometry: the shortest side is a third of the canvas' short edge, the shortest
    /// duration half of the least that can be generated, and of a video 13 frames at least.
    pub fn of(geometry: &GeometryProfile) -> Self {
        const MIB: u64 = 1 << 20;
        let least = geometry.min_duration_seconds / 2.0;
        Self {
            sides: (geometry.canvas_short_edge / 3).max(1)..=5760,
            aspect_ratio: 0.4..=2.5,
            fps: 23.976..=60.0,
            video_seconds: least.max(Self::LEAST_VIDEO_SECONDS)..=15.0,
            sound_seconds: least..=15.0,
            total_seconds: 15.0,
            image_bytes: 30 * MIB,
            video_bytes: 50 * MIB,
            audio_bytes: 15 * MIB,
        }
    }

    /// Checks the sides of a picture or video.
    ///
    /// Errors: [`LimitRule::Sides`], then [`LimitRule::AspectRatio`], for `field`.
    pub fn check_sides(&self, field: &str, width: u32, height: u32) -> Result<(), OutsideLimits> {
        let (least, most) = (*self.sides.start(), *self.sides.end());
        if width.min(height) < least || width.max(height) > most {
            return Err(OutsideLimits::new(field, LimitRule::Sides { least, most, width, height }));
        }
        let (narrowest, widest) = (*self.aspect_ratio.start(), *self.aspect_ratio.end());
        if !self.aspect_ratio.contains(&(f64::from(width) / f64::from(height))) {
            return Err(OutsideLimits::new(field, LimitRule::AspectRatio { narrowest, widest, width, height }));
        }
        Ok(())
    }

    /// Checks the frame rate of a video, in frames per second.
    ///
    /// Errors: [`LimitRule::Fps`] for `field`.
    pub fn check_fps(&self, field: &str, fps: f64) -> Result<(), OutsideLimits> {
        if self.fps.contains(&fps) {
            return Ok(());
        }
        let (least, most) = (*self.fps.start(), *self.fps.end());
        Err(OutsideLimits::new(field, LimitRule::Fps { least, most, fps }))
    }

    /// Checks the duration of one video.
    ///
    /// Errors: [`LimitRule::Seconds`] for `field`.
    pub fn check_video_seconds(&self, field: &str, seconds: f64) -> Result<(), OutsideLimits> {
        check_seconds(&self.video_seconds, field, seconds)
    }

    /// Checks the duration of one standalone sound.
    ///
    /// Errors: [`LimitRule::Seconds`] for `field`.
    pub fn check_sound_seconds(&self, field: &str, seconds: f64) -> Result<(), OutsideLimits> {
        check_seconds(&self.sound_seconds, field, seconds)
    }

    /// Checks the durations of all videos, or of all standalone sounds, together.
    ///
    /// Errors: [`TotalTooLong`].
    pub fn check_total(
        &self,
        kind: ReferenceKind,
        durations: impl IntoIterator<Item = f64>,
    ) -> Result<(), TotalTooLong> {
        let (mut seconds, mut most) = (0.0, self.total_seconds);
        for duration in durations {
            seconds += duration;
            most += Self::SLACK_SECONDS;
        }
        if seconds <= most {
            return Ok(());
        }
        Err(TotalTooLong { kind, most: self.total_seconds, seconds })
    }

    /// Checks the size of a file against the limit of its kind, in bytes.
    ///
    /// Errors: [`LimitRule::Bytes`] for `field`, also for an empty file.
    pub fn check_bytes(&self, field: &str, most: u64, bytes: u64) -> Result<(), OutsideLimits> {
        if (1..=most).contains(&bytes) {
            Ok(())
        } else {
            Err(OutsideLimits::new(field, LimitRule::Bytes { most, bytes }))
        }
    }
}

/// Says which reference breaks which limit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field} {rule}")]
pub struct OutsideLimits {
    /// The request's field.
    pub field: String,
    /// The limit, with what was found.
    pub rule: LimitRule,
}

/// Says that everything of one kind together is too long.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{kind}s may last {most} seconds in total, got {seconds:.3}")]
pub struct TotalTooLong {
    /// The kind.
    pub kind: ReferenceKind,
    /// The longest duration, in seconds.
    pub most: f64,
    /// The duration found, in seconds.
    pub seconds: f64,
}

/// Checks a duration, which may exceed its ceiling by the slack.
fn check_seconds(limits: &RangeInclusive<f64>, field: &str, seconds: f64) -> Result<(), OutsideLimits> {
    let (least, most) = (*limits.start(), *limits.end());
    if (least..=most + ReferenceLimits::SLACK_SECONDS).contains(&seconds) {
        return Ok(());
    }
    Err(OutsideLimits::new(field, LimitRule::Seconds { least, most, seconds }))
}

impl OutsideLimits {
    fn new(field: &str, rule: LimitRule) -> Self {
        Self { field: field.to_owned(), rule }
    }
}

/// A limit that was broken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitRule {
    /// A side is too short or too long, in pixels.
    Sides {
        /// The shortest side.
        least: u32,
        /// The longest side.
        most: u32,
        /// The width found.
        width: u32,
        /// The height found.
        height: u32,
    },
    /// The picture is too narrow or too wide.
    AspectRatio {
        /// The least width over height.
        narrowest: f64,
        /// The greatest width over height.
        widest: f64,
        /// The width found.
        width: u32,
        /// The height found.
        height: u32,
    },
    /// The video has too few or too many frames a second.
    Fps {
        /// The lowest rate.
        least: f64,
        /// The highest rate.
        most: f64,
        /// The rate found.
        fps: f64,
    },
    /// The video or sound is too short or too long.
    Seconds {
        /// The shortest duration.
        least: f64,
        /// The longest duration.
        most: f64,
        /// The duration found.
        seconds: f64,
    },
    /// The file is empty or too large.
    Bytes {
        /// The largest size.
        most: u64,
        /// The size found.
        bytes: u64,
    },
}

impl fmt::Display for LimitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sides { least, most, width, height } => {
                write!(f, "must have sides between {least} and {most} pixels, got {width}x{height}")
            }
            Self::AspectRatio { narrowest, widest, width, height } => {
                write!(f, "must have an aspect ratio between {narrowest} and {widest}, got {width}x{height}")
            }
            Self::Fps { least, most, fps } => {
                write!(f, "must have between {least} and {most} frames per second, got {fps:.3}")
            }
            Self::Seconds { least, most, seconds } => {
                // Rounded up: what is shown has to pass.
                let least = (least * 1000.0).ceil() / 1000.0;
                write!(f, "must last between {least} and {most} seconds, got {seconds:.3}")
            }
            Self::Bytes { bytes: 0, .. } => f.write_str("must not be empty"),
            Self::Bytes { most, bytes } => write!(f, "may have at most {most} bytes, got {bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released() -> ReferenceLimits {
        ReferenceLimits::of(&GeometryProfile::released())
    }

    #[test]
    fn the_released_geometry_has_the_official_limits() {
        let limits = released();
        assert_eq!(limits.sides, 256..=5760);
        assert_eq!((limits.video_seconds.clone(), limits.sound_seconds.clone()), (2.0..=15.0, 2.0..=15.0));
        assert_eq!(limits.check_sides("image_reference", 640, 256), Ok(()));
        assert_eq!(limits.check_sides("image_reference", 2304, 5760), Ok(()));
        assert_eq!(limits.check_fps("video_reference", 24_000.0 / 1001.0), Ok(()));
        assert_eq!(limits.check_video_seconds("video_reference", 2.0), Ok(()));
        assert_eq!(limits.check_sound_seconds("audio_reference", 2.0), Ok(()));
        assert_eq!(limits.check_bytes("audio_reference", limits.audio_bytes, 15 << 20), Ok(()));
    }

    #[test]
    fn what_is_outside_names_the_field_and_the_rule() {
        let limits = released();
        for (refused, message) in [
            (
                limits.check_sides("image_reference", 255, 300),
                "image_reference must have sides between 256 and 5760 pixels, got 255x300",
            ),
            (
                limits.check_sides("video_reference", 641, 256),
                "video_reference must have an aspect ratio between 0.4 and 2.5, got 641x256",
            ),
            (
                limits.check_fps("video_reference", 15.0),
                "video_reference must have between 23.976 and 60 frames per second, got 15.000",
            ),
            (
                limits.check_sound_seconds("audio_reference", 15.5),
                "audio_reference must last between 2 and 15 seconds, got 15.500",
            ),
            (
                limits.check_sound_seconds("audio_reference", f64::NAN),
                "audio_reference must last between 2 and 15 seconds, got NaN",
            ),
            (limits.check_bytes("image_reference", limits.image_bytes, 0), "image_reference must not be empty"),
            (
                limits.check_bytes("image_reference", limits.image_bytes, (30 << 20) + 1),
                "image_reference may have at most 31457280 bytes, got 31457281",
            ),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), message);
        }
        let refused = limits.check_total(ReferenceKind::Audio, [8.0, 8.0]).unwrap_err();
        assert_eq!(refused.to_string(), "sounds may last 15 seconds in total, got 16.000");
        assert!(limits.check_total(ReferenceKind::Audio, [f64::NAN]).is_err());
    }

    #[test]
    fn a_tiny_geometry_lowers_the_floors() {
        let tiny = GeometryProfile { canvas_short_edge: 32, min_duration_seconds: 0.5, ..GeometryProfile::released() };
        let limits = ReferenceLimits::of(&tiny);
        assert_eq!(limits.check_sides("image_reference", 30, 50), Ok(()));
        assert_eq!(limits.check_sound_seconds("audio_reference", 0.25), Ok(()));
        assert!(limits.check_sides("image_reference", 9, 10).is_err());
    }

    #[test]
    fn no_geometry_admits_a_video_that_the_language_model_cannot_see() {
        let tiny = GeometryProfile { min_duration_seconds: 0.5, ..GeometryProfile::released() };
        let limits = ReferenceLimits::of(&tiny);
        assert_eq!(limits.check_video_seconds("video_reference", 13.0 / 24.0), Ok(()));
        let refused = limits.check_video_seconds("video_reference", 12.0 / 24.0).unwrap_err();
        let message = "video_reference must last between 0.542 and 15 seconds, got 0.500";
        assert_eq!(refused.to_string(), message);
    }

    #[test]
    fn a_ceiling_leaves_room_for_what_containers_pad() {
        let limits = released();
        // 450 frames at 30000/1001 a second.
        let broadcast = 450.0 * 1001.0 / 30_000.0;
        assert_eq!(limits.check_video_seconds("video_reference", broadcast), Ok(()));
        assert_eq!(limits.check_sound_seconds("audio_reference", 15.09), Ok(()));
        assert_eq!(limits.check_total(ReferenceKind::Video, [broadcast]), Ok(()));
        // Each medium is padded by itself.
        assert_eq!(limits.check_total(ReferenceKind::Video, [10.09, 5.09]), Ok(()));
        assert_eq!(limits.check_total(ReferenceKind::Audio, [5.09; 3]), Ok(()));
        assert!(limits.check_video_seconds("video_reference", 15.11).is_err());
        assert!(limits.check_sound_seconds("audio_reference", 15.11).is_err());
        assert!(limits.check_total(ReferenceKind::Video, [10.11, 5.1]).is_err());
        assert!(limits.check_total(ReferenceKind::Video, [15.11]).is_err());
    }
}
