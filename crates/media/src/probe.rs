//! What a media file says it holds, by ffprobe.

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::answer::{Answer, Stream};
use crate::ffmpeg::file_url;
use crate::process::{Bounds, capture};
use crate::{Error, Ffmpeg};

/// A probe reads headers; its answer for an ordinary file is about 2 kB.
const PROBE_BOUNDS: Bounds = Bounds { time: Duration::from_secs(60), max_bytes: 1 << 20, memory_bytes: None };
/// What is asked for, so that tags and side data of a hostile file do not swell the answer.
const ENTRIES: &str = "format=format_name,duration:stream=index,codec_type,codec_name,width,height,r_frame_rate,nb_frames,\
    pix_fmt,color_range,color_space,color_primaries,color_transfer,chroma_location,sample_rate,channels,duration:\
    stream_tags=:format_tags=:stream_side_data=:stream_disposition=";

/// What a file holds: its container, and its first video and audio streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaInfo {
    /// ffprobe's name of the container, such as `mov,mp4,m4a,3gp,3g2,mj2`.
    pub format: String,
    /// Length of the file, when the container says it.
    pub duration: Option<Duration>,
    /// The first video stream.
    pub video: Option<VideoStream>,
    /// The first audio stream.
    pub audio: Option<AudioStream>,
}

/// A video stream as its container and codec headers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoStream {
    /// ffprobe's name of the codec, such as `h264`.
    pub codec: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Frames per second.
    pub fps: Option<FrameRate>,
    /// Number of frames, when the container says it.
    pub frames: Option<u64>,
    /// Length, when the container says it.
    pub duration: Option<Duration>,
    /// Pixel format, such as `yuv420p`.
    pub pix_fmt: Option<String>,
    /// `tv` (limited) or `pc` (full).
    pub color_range: Option<String>,
    /// Matrix between RGB and YUV, such as `bt709`.
    pub color_space: Option<String>,
    /// Primaries, such as `bt709`.
    pub color_primaries: Option<String>,
    /// Transfer function, such as `bt709`.
    pub color_transfer: Option<String>,
    /// Where chroma samples sit, such as `left` or `center`.
    pub chroma_location: Option<String>,
}

/// An audio stream as its container and codec headers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioStream {
    /// ffprobe's name of the codec, such as `aac`.
    pub codec: String,
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Number of channels.
    pub channels: u32,
    /// Length, when the container says it.
    pub duration: Option<Duration>,
}

/// A rate as a fraction, such as `24/1` or `30000/1001`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRate {
    /// Frames…
    pub numerator: u32,
    /// …in so many seconds; not zero.
    pub denominator: u32,
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// Asks ffprobe about the file at `path`: headers only, from local files only, within a minute.
///
/// Errors: [`Error::ProgramFailed`] when ffprobe does not take it for a media file, [`Error::TimedOut`],
/// [`Error::OutputTooLarge`], [`Error::ProbeAnswer`].
pub fn probe(ffmpeg: &Ffmpeg, path: &Path) -> Result<MediaInfo, Error> {
    probe_unless(ffmpeg, path, &AtomicBool::new(false))
}

/// As [`probe`], and with [`Error::Aborted`] soon after `aborted` was set.
pub(crate) fn probe_unless(ffmpeg: &Ffmpeg, path: &Path, aborted: &AtomicBool) -> Result<MediaInfo, Error> {
    let mut command = ffmpeg.ffprobe_command();
    command.args(["-hide_banner", "-loglevel", "error", "-protocol_whitelist", "file"]);
    command.args(["-print_format", "json", "-show_entries", ENTRIES, "-i"]).arg(file_url(path));
    let captured = capture("ffprobe", command, &PROBE_BOUNDS, aborted)?;
    if !captured.stderr.is_empty() {
        tracing::debug!(path = %path.display(), stderr = captured.stderr, "ffprobe has remarks");
    }
    let answer: Answer = serde_json::from_slice(&captured.stdout)
        .map_err(|source| Error::ProbeAnswer { path: path.to_owned(), source })?;
    Ok(answer.into())
}

impl From<Answer> for MediaInfo {
    fn from(answer: Answer) -> Self {
        let (mut video, mut audio) = (None, None);
        for stream in answer.streams {
            match stream.codec_type.as_deref() {
                Some("video") if video.is_none() => video = Some(stream.into()),
                Some("audio") if audio.is_none() => audio = Some(stream.into()),
                _ => {}
            }
        }
        let duration = answer.format.duration();
        Self { format: answer.format.format_name, duration, video, audio }
    }
}

impl From<Stream> for VideoStream {
    fn from(stream: Stream) -> Self {
        Self {
            width: stream.width,
            height: stream.height,
            fps: stream.nominal_rate(),
            frames: stream.frames(),
            duration: stream.duration(),
            codec: stream.codec_name,
            pix_fmt: stream.pix_fmt,
            color_range: stream.color_range,
            color_space: stream.color_space,
            color_primaries: stream.color_primaries,
            color_transfer: stream.color_transfer,
            chroma_location: stream.chroma_location,
        }
    }
}

impl From<Stream> for AudioStream {
    fn from(stream: Stream) -> Self {
        Self {
            sample_rate: stream.sample_rate(),
            channels: stream.channels,
            duration: stream.duration(),
            codec: stream.codec_name,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_no_media_is_a_typed_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.mp4");
        fs::write(&path, "not a video at all").unwrap();
        let error = probe(&Ffmpeg::find().unwrap(), &path).unwrap_err();
        let Error::ProgramFailed { program: "ffprobe", stderr, .. } = &error else { panic!("{error}") };
        assert!(stderr.contains("Invalid data"), "{stderr}");
    }

    #[test]
    fn a_playlist_that_points_elsewhere_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.m3u8");
        let list = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/secret.ts\n#EXT-X-ENDLIST\n";
        fs::write(&path, list).unwrap();
        let error = probe(&Ffmpeg::find().unwrap(), &path).unwrap_err();
        let Error::ProgramFailed { stderr, .. } = &error else { panic!("{error}") };
        assert!(stderr.contains("not on whitelist") || stderr.contains("Invalid data"), "{stderr}");
    }
}
