//! What a container of sound or pictures says it holds, by ffprobe with the one demuxer that the content calls for.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::Ffmpeg;
use crate::answer::{Answer, Stream};
use crate::decode::{Error, Format, Kind};
use crate::ffmpeg::file_url;
use crate::process::{Bounds, capture};

/// The longest that looking at the headers of a file may take.
pub const PROBE_LIMIT: Duration = Duration::from_secs(60);
/// The most memory of a program that reads a sent file, besides what its pictures take.
const PROGRAM_BYTES: u64 = 2 << 30;
/// What is asked for, so that tags of a hostile file do not swell the answer.
const ENTRIES: &str = "format=duration:stream=index,codec_type,codec_name,width,height,sample_aspect_ratio,\
    avg_frame_rate,r_frame_rate,start_time,duration,nb_frames,sample_rate,channels:stream_side_data=rotation\
    :stream_disposition=attached_pic:stream_tags=:format_tags=";
/// The decoders that may run on sent files, by ffmpeg's names.
const DECODERS: &str = "h264,hevc,aac,mp3,mp3float,pcm_u8,pcm_s16le,pcm_s24le,pcm_s32le,pcm_f32le,pcm_f64le";

/// Adds the arguments that name an input to decode: as [`name_probed`], and only the accepted decoders.
pub(crate) fn name_input(command: &mut Command, path: &Path, format: Format, max_pixels: u64) {
    // The bound on memory counts what each thread reserves, so their number must not be that of the cores.
    command.args(["-filter_threads", "2", "-codec_whitelist", DECODERS]);
    name_probed(command, path, format, max_pixels);
}

/// Adds the arguments that name an input to look at: a local file, its one demuxer, no other files, pictures of at most
/// `max_pixels`.
///
/// ffprobe gives up on a file with any stream that it may not decode, such as a cover picture, so the decoders are
/// not narrowed here.
fn name_probed(command: &mut Command, path: &Path, format: Format, max_pixels: u64) {
    command.args(["-protocol_whitelist", "file", "-threads", "2"]);
    command.arg("-max_pixels").arg(max_pixels.clamp(1, i32::MAX as u64).to_string());
    command.args(["-f", format.demuxer()]);
    if format.demuxer() == "mov" {
        command.args(["-enable_drefs", "0"]);
    }
    command.arg("-i").arg(file_url(path));
}

/// The bound on the memory of a program that decodes pictures of `max_pixels`: a codec keeps up to 16 for reference, and
/// each thread has its own in hand.
pub(crate) fn memory_bytes(max_pixels: u64) -> u64 {
    PROGRAM_BYTES.saturating_add(max_pixels.saturating_mul(96))
}

/// The streams of a file.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The first video stream that is no cover picture.
    pub(crate) video: Option<Stream>,
    /// The first audio stream.
    pub(crate) audio: Option<Stream>,
    /// Length of the file.
    pub(crate) duration: Option<Duration>,
}

/// Asks ffprobe about the file at `path`, which is of `format` and wanted as `wanted`.
pub(crate) fn streams(
    ffmpeg: &Ffmpeg,
    path: &Path,
    format: Format,
    wanted: Kind,
    max_pixels: u64,
    aborted: &AtomicBool,
) -> Result<Streams, Error> {
    let mut command = ffmpeg.ffprobe_command();
    command.args(["-hide_banner", "-loglevel", "error", "-print_format", "json", "-show_entries", ENTRIES]);
    name_probed(&mut command, path, format, max_pixels);
    let bounds = Bounds { time: PROBE_LIMIT, max_bytes: 1 << 20, memory_bytes: Some(memory_bytes(max_pixels)) };
    let captured =
        capture("ffprobe", command, &bounds, aborted).map_err(|error| Error::of_program(wanted, path, error))?;
    let answer: Answer = serde_json::from_slice(&captured.stdout).map_err(|error| Error::undecodable(wanted, error))?;
    let mut streams = Streams { video: None, audio: None, duration: answer.format.duration() };
    for stream in answer.streams {
        match stream.codec_type.as_deref() {
            Some("video") if streams.video.is_none() && !stream.is_cover() => streams.video = Some(stream),
            Some("audio") if streams.audio.is_none() => streams.audio = Some(stream),
            _ => {}
        }
    }
    Ok(streams)
}
