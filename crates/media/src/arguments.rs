//! The command line that makes an MP4 from raw frames and samples.

use std::ffi::OsString;
use std::path::Path;

use crate::ffmpeg::file_url;
use crate::format::{AUDIO_CHANNELS, AUDIO_SAMPLE_RATE, FPS, MuxFormat};

/// RGB to yuv420p by BT.709 from full to limited range, and the frames tagged so.
///
/// Chroma sits in the centre of its four pixels, and the stream says so: readers that know the tag are right, and so are
/// those that scale chroma planes without looking, swscale among them.
pub(crate) const FILTER: &str = "scale=in_range=full:out_range=tv:out_color_matrix=bt709\
    :out_h_chr_pos=128:out_v_chr_pos=128:sws_dither=none\
    :flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact,\
    format=yuv420p,setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709";

/// A fixed thread count and code that is the same on every CPU make equal frames equal bytes on any machine.
const X264_PARAMETERS: &str = "threads=4:cpu-independent=1";

/// A time scale in which both 1/24 s and 1/32000 s are whole: edit lists then cut both tracks exactly.
const MOVIE_TIMESCALE: &str = "96000";

/// The arguments of ffmpeg: frames from standard input, samples from `audio`, progress to standard output.
pub(crate) fn encode_arguments(format: &MuxFormat, audio: &Path, output: &Path) -> Vec<OsString> {
    let size = format!("{}x{}", format.width, format.height);
    let rate = format!("{FPS}/1");
    let sample_rate = AUDIO_SAMPLE_RATE.to_string();
    let channels = AUDIO_CHANNELS.to_string();
    let mut arguments: Vec<OsString> = Vec::new();
    let mut push = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));

    push(&["-hide_banner", "-nostdin", "-nostats", "-loglevel", "error", "-progress", "pipe:1", "-y"]);
    push(&["-protocol_whitelist", "file,pipe", "-f", "rawvideo", "-pixel_format", "rgb24"]);
    push(&["-video_size", &size, "-framerate", &rate, "-i", "pipe:0"]);
    push(&["-protocol_whitelist", "file,pipe", "-f", "f32le", "-ar", &sample_rate, "-ac", &channels, "-i"]);
    arguments.push(file_url(audio));

    let mut push = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
    push(&["-map", "0:v:0", "-map", "1:a:0", "-map_metadata", "-1", "-map_chapters", "-1"]);
    push(&["-vf", FILTER, "-c:v", "libx264"]);
    push(&format.quality.codec_settings());
    push(&["-x264-params", X264_PARAMETERS, "-pix_fmt", "yuv420p", "-color_range", "tv", "-colorspace", "bt709"]);
    push(&["-color_primaries", "bt709", "-color_trc", "bt709", "-chroma_sample_location", "center"]);
    push(&["-c:a", "aac", "-b:a", "192k"]);
    // Bit-exact output carries no dates and no library versions.
    push(&["-flags:v", "+bitexact", "-flags:a", "+bitexact", "-fflags", "+bitexact"]);
    push(&["-movflags", "+faststart", "-movie_timescale", MOVIE_TIMESCALE, "-f", "mp4"]);
    arguments.push(file_url(output));
    arguments
}
