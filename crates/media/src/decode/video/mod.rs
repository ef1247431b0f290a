//! Videos: MP4 or MOV with H.264 or HEVC, to upright RGB frames with their times.
//!
//! [`inspect`] reads headers and applies limits; [`FrameReader`] decodes one frame after the other, no faster than they
//! are taken; [`ConstantRate`] drops and repeats them to a constant rate. A soundtrack is decoded by
//! [`crate::decode::audio::decode_soundtrack`].
//!
//! Rotation in the file is applied. Pixels that are not square are made so by stretching the width of the stored picture. Colours
//! go to RGB by the matrix and range that the stream names, BT.601 limited when it names none; high dynamic range is
//! not tone-mapped and interlaced fields are left as they are. Edit lists are followed. What a codec conceals of damage
//! within the stream is not an error.

mod constant_rate;
mod reader;
mod time;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::answer::Stream;
use crate::decode::audio::{self, SoundFacts};
use crate::decode::size::SizeLimits;
use crate::decode::source::Source;
use crate::decode::streams::streams;
use crate::decode::{Claim, Error, Format, Kind};
use crate::{Ffmpeg, FrameRate};

pub use constant_rate::ConstantRate;
pub use reader::{FRAME_LIMIT, Frame, FrameReader};
pub use time::{TimeBase, Timestamp};

/// How large and long a video may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoLimits {
    /// The longest file.
    pub max_file_bytes: u64,
    /// The longest side, in pixels.
    pub max_side: u32,
    /// The most pixels of a frame.
    pub max_pixels: u64,
    /// The longest video; also that of its soundtrack.
    pub longest: Duration,
}

impl VideoLimits {
    fn size(&self) -> SizeLimits {
        SizeLimits { max_side: self.max_side, max_pixels: self.max_pixels }
    }
}

/// A codec of pictures that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VideoCodec {
    /// H.264.
    H264,
    /// H.265.
    Hevc,
}

impl fmt::Display for VideoCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::H264 => "h264",
            Self::Hevc => "hevc",
        })
    }
}

/// What a video's headers say.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoFacts {
    /// [`Format::Mp4`] or [`Format::Mov`].
    pub format: Format,
    /// Size of the file.
    pub size_bytes: u64,
    /// Codec of the pictures.
    pub codec: VideoCodec,
    /// Width as shown: upright, with square pixels.
    pub width: u32,
    /// Height as shown: upright, with square pixels.
    pub height: u32,
    /// By how many degrees the stored picture is turned clockwise to be upright: 0, 90, 180 or 270.
    pub rotation_degrees: u16,
    /// Frames over the time that they last.
    pub average_rate: Option<FrameRate>,
    /// The lowest rate that has a tick for every frame; far from the average when the rate varies.
    pub nominal_rate: Option<FrameRate>,
    /// Length of the pictures, when the file says it.
    pub duration: Option<Duration>,
    /// Number of frames, when the file says it.
    pub frames: Option<u64>,
    /// The first soundtrack.
    pub sound: Option<SoundFacts>,
    /// ffmpeg's number of the stream.
    pub(crate) stream: u32,
}

/// Says what the video at `path` is, from its headers.
///
/// Errors: what is wrong with the file or over a limit; [`Error::Hung`], [`Error::Aborted`] soon after `aborted` was
/// set, [`Error::Machine`].
pub fn inspect(
    ffmpeg: &Ffmpeg,
    path: &Path,
    claim: &Claim<'_>,
    limits: &VideoLimits,
    aborted: &AtomicBool,
) -> Result<VideoFacts, Error> {
    let source = Source::open(path, claim, Kind::Video, limits.max_file_bytes)?;
    source.index_box(path, Kind::Video, b"moov")?;
    let (format, size_bytes) = (source.format, source.size_bytes);
    let found = streams(ffmpeg, path, format, Kind::Video, limits.max_pixels, aborted)?;
    let Some(stream) = &found.video else { return Err(Error::NoStream { wanted: Kind::Video }) };
    let codec = match stream.codec_name.as_str() {
        "h264" => VideoCodec::H264,
        "hevc" => VideoCodec::Hevc,
        other => {
            return Err(Error::Codec { what: Kind::Video, codec: other.to_owned(), accepted: "h264 and hevc" });
        }
    };
    limits.size().check(Kind::Video, stream.width, stream.height)?;
    let rotation_degrees = rotation(stream)?;
    let (width, height) = shown_size(stream, rotation_degrees);
    limits.size().check(Kind::Video, width, height)?;
    let duration = stream.duration().or(found.duration);
    if duration.is_some_and(|duration| duration > limits.longest) {
        return Err(Error::LongerThan { what: Kind::Video, limit: limits.longest });
    }
    let frames = stream.frames();
    if frames == Some(0) {
        return Err(Error::Nothing { what: Kind::Video, unit: "frame" });
    }
    let sound = match &found.audio {
        Some(sound) => {
            let mut facts = audio::facts(sound, format, size_bytes, found.duration)?;
            facts.delay_seconds = delay_seconds(sound, stream);
            Some(facts)
        }
        None => None,
    };
    Ok(VideoFacts {
        format,
        size_bytes,
        codec,
        width,
        height,
        rotation_degrees,
        average_rate: stream.average_rate(),
        nominal_rate: stream.nominal_rate(),
        duration,
        frames,
        sound,
        stream: stream.index,
    })
}

/// The clockwise turn that ffmpeg makes, in degrees.
fn rotation(stream: &Stream) -> Result<u16, Error> {
    let quarters = (-stream.rotation() / 90.0).round();
    // ffmpeg takes an angle within a degree of a quarter turn for one, and would turn others within a frame too small.
    if (quarters * 90.0 + stream.rotation()).abs() >= 1.0 || !quarters.is_finite() {
        let value = format!("{} degrees", stream.rotation());
        return Err(Error::Header { what: Kind::Video, field: "rotation", value, rule: "a multiple of 90 degrees" });
    }
    Ok((quarters.rem_euclid(4.0) as u16) * 90)
}

/// The size with square pixels, upright. Sizes beyond 32 bits saturate, and are refused by any limit.
fn shown_size(stream: &Stream, rotation_degrees: u16) -> (u32, u32) {
    let (over, under) = stream.pixel_aspect();
    let (over, under) = (u64::from(over), u64::from(under));
    let width = (2 * u64::from(stream.width) * over + under) / (2 * under);
    let width = u32::try_from(width.max(1)).unwrap_or(u32::MAX);
    if rotation_degrees.is_multiple_of(180) { (width, stream.height) } else { (stream.height, width) }
}

/// By how much the sound starts after the pictures, in seconds; negative when before.
fn delay_seconds(sound: &Stream, pictures: &Stream) -> f64 {
    match (sound.start_seconds(), pictures.start_seconds()) {
        (Some(sound), Some(pictures)) => sound - pictures,
        _ => 0.0,
    }
}
