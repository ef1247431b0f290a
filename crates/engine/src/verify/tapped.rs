//! A tap that compares, and a sink that keeps.

use std::time::Duration;

use super::compare::{Comparison, Tolerance};
use super::golden::{GoldenFile, Values};
use crate::ops::OpError;
use crate::sink::{FrameSink, MediaChunk, MediaFormat, SinkError};
use crate::tap::Tap;

/// What a tap found: stage, tolerance, comparison.
pub(super) type Seen = (String, Tolerance, Comparison);

/// Compares each intermediate tensor that the golden file holds.
pub(super) struct GoldenTap<'a> {
    golden: &'a GoldenFile,
    /// Golden name of a tap name; none when the golden file does not hold it.
    rename: &'a dyn Fn(&str) -> String,
    tolerance: &'a dyn Fn(&str) -> Tolerance,
    pub(super) seen: Vec<Seen>,
}

impl<'a> GoldenTap<'a> {
    pub(super) fn new(
        golden: &'a GoldenFile,
        rename: &'a dyn Fn(&str) -> String,
        tolerance: &'a dyn Fn(&str) -> Tolerance,
    ) -> Self {
        Self { golden, rename, tolerance, seen: Vec::new() }
    }
}

impl Tap for GoldenTap<'_> {
    fn see(
        &mut self,
        name: &str,
        shape: &[usize],
        read: &dyn Fn() -> Result<Vec<f32>, OpError>,
    ) -> Result<(), OpError> {
        let name = (self.rename)(name);
        if let Some((golden_shape, Values::Float(golden))) = self.golden.find_shaped(&name) {
            let tolerance = (self.tolerance)(&name);
            let comparison = match leading(golden, golden_shape, shape) {
                Some(golden) => tolerance.floats(&read()?, &golden),
                None => tolerance.floats(&read()?, trailing(golden, golden_shape, shape)),
            };
            self.seen.push((name, tolerance, comparison));
        }
        Ok(())
    }
}

/// Returns the first clip of a golden tensor that covers the whole film: `[1, channels, frames, …]` of which `shape`
/// `[channels, fewer frames, …]` was seen. None when the shapes differ otherwise.
fn leading(golden: &[f32], golden_shape: &[usize], shape: &[usize]) -> Option<Vec<f32>> {
    let (&[1, channels, frames, ..], &[seen_channels, seen_frames, ..]) = (golden_shape, shape) else { return None };
    let same_plane = golden_shape[3..] == shape[2..];
    if channels != seen_channels || seen_frames >= frames || !same_plane {
        return None;
    }
    let plane: usize = shape[2..].iter().product();
    let first = golden.chunks_exact(frames * plane).flat_map(|channel| &channel[..seen_frames * plane]);
    Some(first.copied().collect())
}

/// Returns the last of the golden rows where fewer were seen: those of the target, behind conditions that are compared by
/// themselves.
fn trailing<'a>(golden: &'a [f32], golden_shape: &[usize], shape: &[usize]) -> &'a [f32] {
    match (golden_shape, shape) {
        (&[rows, width], &[seen_rows, seen_width]) if width == seen_width && seen_rows < rows => {
            &golden[(rows - seen_rows) * width..]
        }
        _ => golden,
    }
}

/// Keeps everything.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) samples: Vec<f32>,
    pub(super) frames: Vec<u8>,
}

impl FrameSink for Kept {
    fn begin(&mut self, _format: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _patience: Duration) -> Result<Option<MediaChunk>, SinkError> {
        match chunk {
            MediaChunk::Samples(samples) => self.samples.extend(samples),
            MediaChunk::Frames(frames) => self.frames.extend(frames),
        }
        Ok(None)
    }
}
