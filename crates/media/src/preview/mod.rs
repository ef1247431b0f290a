//! Pictures of a finished video of our own: one frame to show beside its name, and frames from the whole of it side by side.
//!
//! ffmpeg decodes and scales, twice, on two threads; what it writes goes through a pipe, so nothing is left on the disk
//! however a run ends. The thumbnail is the frame in the middle: the first one is often a picture that the client has sent,
//! and the last one its second.

mod error;
mod layout;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use image::ExtendedColorType;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::webp::WebPEncoder;

use crate::decode::Format;
use crate::decode::streams::{memory_bytes, name_input};
use crate::preview::layout::{Grid, Size, spread};
use crate::probe::probe_unless;
use crate::process::{Bounds, capture};
use crate::{Ffmpeg, VideoStream};

pub use error::Error;

/// The longest side of the thumbnail, in pixels.
pub const THUMBNAIL_EDGE: u32 = 512;
/// The longest side of each frame of the spritesheet, in pixels.
pub const CELL_EDGE: u32 = 256;
/// The most frames of the spritesheet in a row, and the most rows.
pub const CELLS_A_SIDE: u32 = 5;

/// The longest that one pass over the video may take: some hundred times as long as one of 15 seconds takes on one core.
const PASS_LIMIT: Duration = Duration::from_secs(60);
/// More than a thumbnail ever has: as much as its bare pixels.
const MAX_THUMBNAIL_BYTES: usize = 3 * (THUMBNAIL_EDGE * THUMBNAIL_EDGE) as usize;
/// Of 100: nothing of a picture this small is seen to be missing.
const JPEG_QUALITY: u8 = 85;
/// By how much the sizes within a stream may exceed those that it shows: whole macroblocks, and the edges that a decoder adds.
const CODED_MARGIN: u64 = 64;

/// The pictures of a video, as files that are still in memory: each for itself, so that what is wrong with one is no loss of
/// the other.
///
/// Errors of each: [`Error::Tool`] with what ffmpeg says, also soon after the making was given up, when it is killed;
/// [`Error::FramesMissing`], [`Error::Encode`].
#[derive(Debug)]
pub struct Previews {
    /// One frame, as WebP; its longest side has at most [`THUMBNAIL_EDGE`] pixels.
    pub thumbnail: Result<Vec<u8>, Error>,
    /// Up to [`CELLS_A_SIDE`] rows of as many frames, evenly spread from the first to the last, as JPEG; the longest side of
    /// each has at most [`CELL_EDGE`] pixels.
    pub spritesheet: Result<Vec<u8>, Error>,
}

/// Makes the pictures of the MP4 at `path`, which a [`Muxer`](crate::Muxer) has written. Blocks for about a second.
///
/// Where ffmpeg was built without an encoder for WebP, the thumbnail is a lossless one, some ten times as large.
///
/// Errors: [`Error::Tool`] with what ffprobe says, also soon after `aborted` was set, when it is killed;
/// [`Error::NoVideo`], [`Error::NoFrames`]. Those of a single picture stand in its place.
pub fn make(ffmpeg: &Ffmpeg, path: &Path, aborted: &AtomicBool) -> Result<Previews, Error> {
    let video = probe_unless(ffmpeg, path, aborted)?.video.ok_or(Error::NoVideo)?;
    let frames = video.frames.filter(|frames| *frames > 0).ok_or(Error::NoFrames)?;
    let pass = Pass { ffmpeg, path, stored: &video, aborted };
    Ok(Previews { thumbnail: pass.thumbnail(frames), spritesheet: pass.spritesheet(frames) })
}

/// One run of ffmpeg over the video, which gives the frames that were picked.
struct Pass<'a> {
    ffmpeg: &'a Ffmpeg,
    path: &'a Path,
    stored: &'a VideoStream,
    aborted: &'a AtomicBool,
}

impl Pass<'_> {
    fn thumbnail(&self, frames: u64) -> Result<Vec<u8>, Error> {
        let size = self.shown().within(THUMBNAIL_EDGE);
        let middle = [frames / 2];
        if !self.ffmpeg.writes_webp() {
            let rgb = self.rgb(&middle, size)?;
            let mut file = Vec::new();
            let encoder = WebPEncoder::new_lossless(&mut file);
            encoder.encode(&rgb, size.width, size.height, ExtendedColorType::Rgb8)?;
            return Ok(file);
        }
        // Lossy WebP is BT.601 in limited range, always.
        let filter = format!("{}:out_color_matrix=bt601:out_range=tv,format=yuv420p", scaled(&middle, size));
        let file = self.run(
            &filter,
            &["-frames:v", "1", "-c:v", "libwebp", "-quality", "80", "-f", "image2pipe"],
            MAX_THUMBNAIL_BYTES,
        )?;
        if file.is_empty() { Err(Error::FramesMissing { expected: 1, got: 0 }) } else { Ok(file) }
    }

    fn spritesheet(&self, frames: u64) -> Result<Vec<u8>, Error> {
        let cell = self.shown().within(CELL_EDGE);
        let grid = Grid::of(frames, CELLS_A_SIDE);
        let cells = self.rgb(&spread(frames, grid.cells()), cell)?;
        let (sheet, rgb) = grid.assemble(cell, &cells);
        let mut file = Vec::new();
        let mut encoder = JpegEncoder::new_with_quality(&mut file, JPEG_QUALITY);
        encoder.encode(&rgb, sheet.width, sheet.height, ExtendedColorType::Rgb8)?;
        Ok(file)
    }

    fn shown(&self) -> Size {
        Size { width: self.stored.width, height: self.stored.height }
    }

    /// The pixels of the picked frames, one after the other, packed RGB.
    fn rgb(&self, picked: &[u64], size: Size) -> Result<Vec<u8>, Error> {
        let filter = format!("{},format=rgb24", scaled(picked, size));
        let frame_bytes = size.rgb_bytes();
        let rgb =
            self.run(&filter, &["-frames:v", &picked.len().to_string(), "-f", "rawvideo"], picked.len() * frame_bytes)?;
        if rgb.len() == picked.len() * frame_bytes {
            return Ok(rgb);
        }
        Err(Error::FramesMissing { expected: picked.len(), got: rgb.len() / frame_bytes })
    }

    fn run(&self, filter: &str, output: &[&str], max_bytes: usize) -> Result<Vec<u8>, Error> {
        let max_pixels = (u64::from(self.stored.width) + CODED_MARGIN) * (u64::from(self.stored.height) + CODED_MARGIN);
        let mut command = self.ffmpeg.ffmpeg_command();
        command.args(["-hide_banner", "-nostdin", "-nostats", "-loglevel", "error"]);
        name_input(&mut command, self.path, Format::Mp4, max_pixels);
        command.args(["-map", "0:v:0", "-vf", filter, "-fps_mode", "passthrough", "-threads", "1"]);
        command.args(output).arg("pipe:1");
        let bounds = Bounds { time: PASS_LIMIT, max_bytes, memory_bytes: Some(memory_bytes(max_pixels)) };
        let captured = capture("ffmpeg", command, &bounds, self.aborted)?;
        if !captured.stderr.is_empty() {
            tracing::debug!(stderr = captured.stderr, "ffmpeg has remarks about a video of which pictures are made");
        }
        Ok(captured.stdout)
    }
}

/// The filters that let only the picked frames through, and scale them; more options of the last may follow.
fn scaled(picked: &[u64], size: Size) -> String {
    let terms: Vec<_> = picked.iter().map(|index| format!("eq(n\\,{index})")).collect();
    let flags = "area+accurate_rnd+full_chroma_int+full_chroma_inp";
    format!("select={},scale={}:{}:flags={flags}", terms.join("+"), size.width, size.height)
}
