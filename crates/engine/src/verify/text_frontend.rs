//! Pixels on their way to the vision tower, and the resizing in front of the video VAE.

use clapboard_h3::prepare::{Clip, Filter, Picture, resize};

use super::compare::{Tolerance, equal};
use super::golden::{Error, GoldenFile};
use super::report::{Place, Report};
use super::tolerance::{PATCHES, RESIZED};
use crate::checkpoint::Checkpoint;
use crate::vision::{Patches, PixelFront};

/// `text_frontend.safetensors`: a picture and a clip in patches, and pictures that Pillow resized.
pub(super) fn verify(
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let failed = |error| Error::Run { case: place.case.clone(), source: Box::new(error) };
    let front = PixelFront::new(checkpoint.processor()?);
    let picture = picture(golden, "image_u8")?;
    let patches = front.image(&picture).map_err(failed)?;
    check_patches("image.", &[patches], golden, "image.pixel_values", place, report)?;
    let clip = clip(golden, "video_u8", None)?;
    let every: Vec<usize> = (0..clip.frames()).collect();
    let patches = front.frames(&clip, &every).map_err(failed)?;
    check_patches("video.", &[patches], golden, "video.pixel_values", place, report)?;

    let resized: Vec<String> =
        golden.names().filter(|name| name.starts_with("pil_lanczos_")).map(str::to_owned).collect();
    for name in resized {
        let (shape, expected) = golden.bytes(&name)?;
        let &[height, width, 3] = shape else { return Err(golden.malformed(format!("{name} is no picture"))) };
        let ours = resize(&picture, width as u32, height as u32, Filter::Lanczos)
            .map_err(|error| golden.malformed(error.to_string()))?;
        report.compared(place, &name, RESIZED, RESIZED.bytes(ours.rgb(), expected));
    }
    for stage in golden.unreached() {
        report.never_reached(place, stage);
    }
    Ok(())
}

/// Compares the grids `{scope}grid_thw` of all media and their rows together with `values`, where the file holds them.
pub(super) fn check_patches(
    scope: &str,
    media: &[Patches],
    golden: &GoldenFile,
    values: &str,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let name = format!("{scope}grid_thw");
    let grids: Vec<i64> = media
        .iter()
        .map(Patches::grid)
        .flat_map(|grid| [grid.frames as i64, grid.height as i64, grid.width as i64])
        .collect();
    report.compared(place, &name, Tolerance::Exact, equal(&grids, golden.integers(&name)?));
    if golden.names().any(|name| name == values) {
        let ours: Vec<f32> = media.iter().flat_map(|patches| patches.rows(0..patches.grid().rows())).collect();
        report.compared(place, values, PATCHES, PATCHES.floats(&ours, golden.floats(values)?.1));
    }
    Ok(())
}

/// Takes a picture `[height, width, 3]`.
pub(super) fn picture(golden: &GoldenFile, name: &str) -> Result<Picture, Error> {
    let malformed = || golden.malformed(format!("{name} is no picture"));
    let (shape, bytes) = golden.bytes(name)?;
    let &[height, width, 3] = shape else { return Err(malformed()) };
    Picture::new(width as u32, height as u32, bytes.to_vec()).map_err(|_| malformed())
}

/// Takes a clip `[frames, height, width, 3]`, or its leading frames.
pub(super) fn clip(golden: &GoldenFile, name: &str, leading: Option<usize>) -> Result<Clip, Error> {
    let malformed = || golden.malformed(format!("{name} is no clip"));
    let (shape, bytes) = golden.bytes(name)?;
    let &[frames, height, width, 3] = shape else { return Err(malformed()) };
    let kept = leading.unwrap_or(frames);
    if kept > frames || frames == 0 {
        return Err(golden.malformed(format!("{name} has fewer than {kept} frames")));
    }
    let bytes = &bytes[..bytes.len() / frames * kept];
    Clip::new(width as u32, height as u32, bytes.to_vec()).map_err(|_| malformed())
}
