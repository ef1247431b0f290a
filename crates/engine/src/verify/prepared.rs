//! A request's raw media on their way to what the networks take.

use clapboard_h3::prepare::{
    Clip, ClipBuilder, FrameSlots, Picture, PreparedReference, Recording, ReferenceKind, Sound, fit_keyframe,
    fit_reference_picture, fit_sound, packed_order,
};
use clapboard_h3::{GenerationSpec, Task};

use super::compare::{Tolerance, equal};
use super::golden::{Error, GoldenFile, Values};
use super::report::{Place, Report};
use super::requests::{MediumKind, Request, RequestMedium};
use super::text_frontend::picture;
use super::tolerance::BLOCK;
use crate::video_vae::pixel_levels;

/// Prepares the raw media of `request` in packed order, compares what the golden file holds of them, and returns them.
///
/// Errors: [`Error`] when the file lacks raw media or they cannot be prepared.
pub(super) fn verify(
    spec: &GenerationSpec,
    golden: &GoldenFile,
    request: &Request,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<Vec<PreparedReference>, Error> {
    let kinds: Vec<ReferenceKind> = request.media.iter().map(|medium| kind(medium.kind)).collect();
    let order = packed_order(&kinds, spec.recipe);
    report.compared(place, "packed_order", Tolerance::Exact, equal(&order, &request.packed_order));

    let references = prepare(golden, request, spec, &order)?;
    for (index, (reference, medium)) in references.iter().zip(&order).enumerate() {
        check_pixels(request.task, reference, index, *medium, golden, place, report)?;
        check_samples(reference, index, golden, place, report)?;
    }
    Ok(references)
}

/// Prepares the raw media of a request in packed order.
fn prepare(
    golden: &GoldenFile,
    request: &Request,
    spec: &GenerationSpec,
    order: &[usize],
) -> Result<Vec<PreparedReference>, Error> {
    order
        .iter()
        .enumerate()
        .map(|(position, index)| {
            let medium = &request.media[*index];
            Ok(match medium.kind {
                MediumKind::Image => {
                    let picture = picture(golden, pixels(golden, medium)?)?;
                    PreparedReference::Image(fit_picture(&picture, position, request.task, spec, golden)?)
                }
                MediumKind::Video => PreparedReference::Video {
                    clip: fit_clip(golden, medium, spec)?,
                    soundtrack: medium.audio_tensor.is_some().then(|| sound(golden, medium, spec)).transpose()?,
                },
                MediumKind::Audio => PreparedReference::Audio(sound(golden, medium, spec)?),
            })
        })
        .collect()
}

fn kind(kind: MediumKind) -> ReferenceKind {
    match kind {
        MediumKind::Image => ReferenceKind::Image,
        MediumKind::Video => ReferenceKind::Video,
        MediumKind::Audio => ReferenceKind::Audio,
    }
}

fn unprepared(golden: &GoldenFile, error: impl std::error::Error) -> Error {
    golden.malformed(format!("its media cannot be prepared: {error}"))
}

fn pixels<'a>(golden: &GoldenFile, medium: &'a RequestMedium) -> Result<&'a str, Error> {
    medium.tensor.as_deref().ok_or_else(|| golden.malformed("its request has a medium without pixels".to_owned()))
}

fn fit_picture(
    picture: &Picture,
    position: usize,
    task: Task,
    spec: &GenerationSpec,
    golden: &GoldenFile,
) -> Result<Picture, Error> {
    if task == Task::Fl2va {
        fit_keyframe(picture, spec.canvas, position, spec.recipe).map_err(|error| unprepared(golden, error))
    } else {
        fit_reference_picture(picture, &spec.geometry).map_err(|error| unprepared(golden, error))
    }
}

fn fit_clip(golden: &GoldenFile, medium: &RequestMedium, spec: &GenerationSpec) -> Result<Clip, Error> {
    let name = pixels(golden, medium)?;
    let (shape, bytes) = golden.bytes(name)?;
    let (&[_, height, width, 3], Some(fps)) = (shape, medium.fps) else {
        return Err(golden.malformed(format!("{name} is no clip with a frame rate")));
    };
    let mut slots = FrameSlots::new(fps, spec.num_frames.get() as usize).map_err(|error| unprepared(golden, error))?;
    let mut builder = ClipBuilder::new(width as u32, height as u32, &spec.geometry, spec.num_frames)
        .map_err(|error| unprepared(golden, error))?;
    for frame in bytes.chunks(width * height * 3) {
        if !builder.push_times(frame, slots.repeats()).map_err(|error| unprepared(golden, error))? {
            break;
        }
    }
    builder.finish().map_err(|error| unprepared(golden, error))
}

/// Takes the sound of a medium `[channels, samples]`, floats or 16-bit integers.
fn sound(golden: &GoldenFile, medium: &RequestMedium, spec: &GenerationSpec) -> Result<Sound, Error> {
    let (Some(name), Some(rate)) = (medium.audio_tensor.as_deref(), medium.sample_rate) else {
        return Err(golden.malformed("its request has a sound without samples or without a rate".to_owned()));
    };
    let (shape, samples) = match golden.find_shaped(name) {
        Some((shape, Values::Float(samples))) => (shape, samples.clone()),
        Some((shape, Values::Integer(levels))) => (shape, levels.iter().map(|level| *level as f32 / 32768.0).collect()),
        _ => return Err(golden.malformed(format!("it lacks the samples {name}"))),
    };
    let length = shape.last().copied().unwrap_or(0).max(1);
    let recording = Recording::new(rate, samples.chunks(length).map(<[f32]>::to_vec).collect())
        .map_err(|error| unprepared(golden, error))?;
    fit_sound(recording, spec.num_frames, spec.recipe).map_err(|error| unprepared(golden, error))
}

/// Compares pixels, which are to be the same bytes.
fn check_pixels(
    task: Task,
    reference: &PreparedReference,
    index: usize,
    medium: usize,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let (stage, ours) = match reference {
        PreparedReference::Image(picture) if task == Task::Fl2va => (format!("keyframe_{index}_u8"), picture.rgb()),
        PreparedReference::Image(picture) => (format!("ref_{index}_image_u8"), picture.rgb()),
        PreparedReference::Video { clip, .. } => (format!("ref_{index}_video_u8"), clip.rgb()),
        PreparedReference::Audio(_) => return Ok(()),
    };
    if let Some(Values::Byte(expected)) = golden.find(&stage) {
        report.compared(place, &stage, Tolerance::Exact, equal(ours, expected));
    }
    check_normalised(ours, index, golden, place, report)?;
    let count = format!("ref_{index}_video_frames");
    if let PreparedReference::Video { clip, .. } = reference
        && golden.names().any(|name| name == count)
    {
        report.compared(place, &count, Tolerance::Exact, equal(&[clip.frames() as i64], golden.integers(&count)?));
        // These needed no fitting: they are the first of the raw ones.
        let (_, raw) = golden.bytes(&format!("media.{medium}.video_u8"))?;
        let comparison = equal(clip.rgb(), &raw[..raw.len().min(clip.rgb().len())]);
        report.compared(place, &stage, Tolerance::Exact, comparison);
    }
    Ok(())
}

/// Compares samples; goldens of one channel hold what both are.
fn check_samples(
    reference: &PreparedReference,
    index: usize,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Some(sound) = heard(reference) else { return Ok(()) };
    for (stage, ours) in [
        (format!("ref_{index}_audio"), [sound.left(), sound.right()].concat()),
        (format!("ref_{index}_audio_both_channels"), sound.left().to_vec()),
    ] {
        if golden.names().any(|name| name == stage) {
            let (_, expected) = golden.floats(&stage)?;
            report.compared(place, &stage, Tolerance::Exact, Tolerance::Exact.floats(&ours, expected));
        }
    }
    Ok(())
}

fn heard(reference: &PreparedReference) -> Option<&Sound> {
    match reference {
        PreparedReference::Image(_) => None,
        PreparedReference::Video { soundtrack, .. } => soundtrack.as_ref(),
        PreparedReference::Audio(sound) => Some(sound),
    }
}

/// Compares the pixels of a picture as the video VAE takes them, of the requests whose every condition is a picture.
fn check_normalised(
    rgb: &[u8],
    index: usize,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let stage = format!("vae_encode_{index}_pixels");
    if !golden.names().any(|name| name == stage) {
        return Ok(());
    }
    let ours: Vec<f32> = (0..3)
        .flat_map(|colour| {
            let levels = pixel_levels(colour);
            rgb.iter().skip(colour).step_by(3).map(move |byte| levels[usize::from(*byte)])
        })
        .collect();
    report.compared(place, &stage, BLOCK, BLOCK.floats(&ours, golden.floats(&stage)?.1));
    Ok(())
}
