//! The reference media of a request: from a sent file to what the model takes.
//!
//! [`kind`] and [`inspect()`] are for whoever accepts a request: they read headers and decode what is quick to decode, so
//! that a broken file is refused while its sender still listens. [`prepare()`] is for whoever runs it. Whether what was
//! found is within the limits of references is for [`clapboard_h3::VideoRequest::resolve`] to say; only what would take
//! too much to decode is refused here.

mod error;
mod inspect;
mod prepare;

use std::time::Duration;

use clapboard_h3::prepare::ReferenceLimits;

use crate::decode::audio::AudioLimits;
use crate::decode::image::ImageLimits;
use crate::decode::video::VideoLimits;

pub use error::ReferenceError;
pub use inspect::{inspect, kind};
pub use prepare::prepare;

fn image_limits(limits: &ReferenceLimits) -> ImageLimits {
    let (max_side, max_pixels) = largest(limits);
    ImageLimits { max_file_bytes: limits.image_bytes, max_side, max_pixels }
}

fn video_limits(limits: &ReferenceLimits) -> VideoLimits {
    let (max_side, max_pixels) = largest(limits);
    let longest = padded(*limits.video_seconds.end());
    VideoLimits { max_file_bytes: limits.video_bytes, max_side, max_pixels, longest }
}

fn audio_limits(limits: &ReferenceLimits) -> AudioLimits {
    AudioLimits { max_file_bytes: limits.audio_bytes, longest: padded(*limits.sound_seconds.end()) }
}

/// The longest side, and the pixels of a square of it.
fn largest(limits: &ReferenceLimits) -> (u32, u64) {
    let max_side = *limits.sides.end();
    (max_side, u64::from(max_side).pow(2))
}

/// A duration with what containers may pad it by.
fn padded(seconds: f64) -> Duration {
    // What is no duration refuses everything, which is the safe way to be wrong.
    Duration::try_from_secs_f64(seconds + ReferenceLimits::SLACK_SECONDS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clapboard_h3::GeometryProfile;

    use super::*;

    #[test]
    fn decoders_take_all_that_the_limits_let_pass() {
        let limits = ReferenceLimits::of(&GeometryProfile::released());
        let (image, video, audio) = (image_limits(&limits), video_limits(&limits), audio_limits(&limits));
        assert_eq!((image.max_file_bytes, image.max_side, image.max_pixels), (30 << 20, 5760, 5760 * 5760));
        assert_eq!((video.max_file_bytes, video.longest), (50 << 20, Duration::from_millis(15_100)));
        assert_eq!((audio.max_file_bytes, audio.longest), (15 << 20, Duration::from_millis(15_100)));
        assert_eq!(padded(f64::NAN), Duration::ZERO);
    }
}
