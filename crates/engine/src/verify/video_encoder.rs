//! The video encoder alone.

use super::golden::{Error, GoldenFile, Values};
use super::report::{Place, Report};
use super::tapped::GoldenTap;
use super::tolerance::{BLOCK, MOMENTS};
use crate::checkpoint::{Checkpoint, ComponentId};
use crate::control::Uninterrupted;
use crate::ops::Ops;
use crate::progress::Unwatched;
use crate::run::Run;
use crate::tap::Tap;
use crate::video_vae::{FrameValues, Moments, TileGeometry, VideoEncoder, VideoFrames};

/// `vae.safetensors`: a picture, clips of several lengths, and a picture in tiles of `golden_tiles`.
pub(super) fn verify<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    golden_tiles: TileGeometry,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    let prefixes: Vec<String> =
        golden.names().filter_map(|name| name.strip_suffix(".moments")).map(str::to_owned).collect();
    let config = checkpoint.video_vae();
    for prefix in prefixes {
        let plain_tiles = TileGeometry { size: config.tile_size, min_overlap: config.tile_overlap_min };
        let tiles = if prefix.starts_with("tiled.") { golden_tiles } else { plain_tiles };
        let rename = |name: &str| name.replacen("vae.", &format!("{prefix}."), 1);
        let mut tap = GoldenTap::new(golden, &rename, &|_| BLOCK);
        let moments = encode(ops, checkpoint, tiles, frames(golden, &prefix)?, &place.case, &mut tap)?;
        for (stage, tolerance, comparison) in tap.seen {
            report.compared(place, &stage, tolerance, comparison);
        }
        let stage = format!("{prefix}.moments");
        let (_, expected) = golden.floats(&stage)?;
        let ours = [moments.mean(), moments.logvar()].concat();
        report.compared(place, &stage, MOMENTS, MOMENTS.floats(&ours, expected));
        // Apart from the logarithms, which are far larger and would hide them.
        let means = expected.get(..moments.mean().len()).unwrap_or_default();
        report.compared(place, &format!("{stage}, means"), MOMENTS, MOMENTS.floats(moments.mean(), means));
    }
    Ok(())
}

/// Returns what a stage encodes: bytes, or pixels as the network takes them.
fn frames<'a>(golden: &'a GoldenFile, prefix: &str) -> Result<VideoFrames<'a>, Error> {
    let bytes = format!("{prefix}.frames_u8");
    if let Some((&[frames, height, width, _], Values::Byte(values))) = golden.find_shaped(&bytes) {
        return Ok(VideoFrames { values: FrameValues::Rgb8(values), frames, height, width });
    }
    let pixels = format!("{prefix}.pixels");
    let (shape, values) = golden.floats(&pixels)?;
    let &[_, _, frames, height, width] = shape else {
        return Err(golden.malformed(format!("{pixels} of shape {shape:?} is not [1, 3, frames, height, width]")));
    };
    Ok(VideoFrames { values: FrameValues::Normalised(values), frames, height, width })
}

fn encode<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    tiles: TileGeometry,
    frames: VideoFrames<'_>,
    case: &str,
    tap: &mut dyn Tap,
) -> Result<Moments, Error>
where
    O::Buffer: 'static,
{
    let component = checkpoint.component(ComponentId::VideoVae)?;
    let encoder = VideoEncoder::load(ops, &component, checkpoint.video_vae().clone(), tiles)?;
    let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap };
    encoder
        .moments(ops, frames, &mut run)
        .map_err(|error| Error::Run { case: case.to_owned(), source: Box::new(error) })
}
