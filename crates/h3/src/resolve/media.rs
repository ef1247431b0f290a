//! The media of a request: where they stand, whether they are within limits, and what they will be to the run.

use crate::canvas::{Canvas, CanvasError};
use crate::error::{Invalid, InvalidCode};
use crate::frames::{AUDIO_LATENTS_PER_SECOND, FPS, FrameCount};
use crate::geometry::GeometryProfile;
use crate::input::{Input, InputRole, InputShape};
use crate::medium::{Medium, MediumFacts};
use crate::prepare::{OutsideLimits, ReferenceKind, ReferenceLimits, packed_order};
use crate::recipe::Recipe;
use crate::references::ReferenceCounts;
use crate::request::VideoRequest;
use crate::task::Task;

const FRAME_INDICES: &str = "frame_indices";

/// By how much the frames of a video may turn out to last longer than its headers say, in seconds: lengths are rounded and
/// padded there. What is longer still was described wrongly. Sound was decoded, and its length is exact.
const HEADER_SLACK_SECONDS: f64 = 1.0;

impl VideoRequest {
    /// Says what each medium of [`Task::Fl2va`] stands for, in the request's order; nothing for the other tasks, whose
    /// media stand nowhere.
    ///
    /// `counts` has passed [`ReferenceCounts::check`].
    ///
    /// Errors: `invalid_value` for `frame_indices` with another task, of another number, or at other places.
    pub(super) fn resolve_keyframes(&self, task: Task, counts: ReferenceCounts) -> Result<Vec<InputRole>, Invalid> {
        let refused = |message: String| Err(Invalid::value(FRAME_INDICES, message));
        let given = self.frame_indices.as_deref();
        if task != Task::Fl2va {
            return match given {
                None => Ok(Vec::new()),
                Some(given) => refused(format!("{FRAME_INDICES} goes with fl2va only, got {given:?} for {task}")),
            };
        }
        match (counts.images, given) {
            (1, None | Some([0])) => Ok(vec![InputRole::FirstFrame]),
            (1, Some([-1])) => Ok(vec![InputRole::LastFrame]),
            (2, None | Some([0, -1])) => Ok(vec![InputRole::FirstFrame, InputRole::LastFrame]),
            (images, given) => {
                let given = given.unwrap_or_default();
                refused(format!(
                    "{FRAME_INDICES} must be [0] or [-1] for one image and [0, -1] for two, got {given:?} for {images}"
                ))
            }
        }
    }

    /// Checks each medium against the limits of its kind, and what has a limit together.
    ///
    /// Errors: `invalid_reference_media` for the medium's field, or for the field of the kind where all together are too
    /// long.
    pub(super) fn check_media(&self, geometry: &GeometryProfile) -> Result<(), Invalid> {
        let limits = ReferenceLimits::of(geometry);
        self.media.iter().try_for_each(|medium| check_medium(&limits, medium)).map_err(invalid_media)?;
        let facts = || self.media.iter().map(|medium| medium.facts);
        let pictures = facts().filter_map(|facts| match facts {
            MediumFacts::Video { seconds, .. } => Some(seconds),
            _ => None,
        });
        let sounds = facts().filter_map(|facts| match facts {
            MediumFacts::Audio { seconds } => Some(seconds),
            _ => None,
        });
        limits
            .check_total(ReferenceKind::Video, pictures)
            .and_then(|()| limits.check_total(ReferenceKind::Audio, sounds))
            .map_err(|error| Invalid::of_kind(InvalidCode::InvalidReferenceMedia, error.kind, error.to_string()))
    }

    /// Lists what the run starts from, in the order in which `recipe` packs it; `keyframes` are what
    /// [`VideoRequest::resolve_keyframes`] gave.
    ///
    /// The shapes bound what preparing can make of media that are as their facts say.
    ///
    /// Errors: `invalid_reference_media` for a medium whose sides lead to no size.
    pub(super) fn resolve_inputs(
        &self,
        keyframes: &[InputRole],
        recipe: Recipe,
        canvas: Canvas,
        target: FrameCount,
        geometry: &GeometryProfile,
    ) -> Result<Vec<Input>, Invalid> {
        let kinds: Vec<ReferenceKind> = self.media.iter().map(|medium| medium.facts.kind()).collect();
        let inputs = packed_order(&kinds, recipe).into_iter().map(|index| {
            let Medium { field, object, facts, .. } = &self.media[index];
            let (role, shape) = match keyframes.get(index) {
                Some(role) => (*role, still((canvas.width(), canvas.height()))),
                None => {
                    let sizeless = |error: CanvasError| {
                        Invalid::new(InvalidCode::InvalidReferenceMedia, field, format!("{field}: {error}"))
                    };
                    reference(facts, target, geometry).map_err(sizeless)?
                }
            };
            Ok(Input { role, object: object.clone(), shape })
        });
        inputs.collect()
    }
}

fn invalid_media(outside: OutsideLimits) -> Invalid {
    let message = outside.to_string();
    Invalid::new(InvalidCode::InvalidReferenceMedia, outside.field, message)
}

/// Checks one medium against the limits of its kind.
fn check_medium(limits: &ReferenceLimits, medium: &Medium) -> Result<(), OutsideLimits> {
    let Medium { field, size_bytes, .. } = medium;
    match medium.facts {
        MediumFacts::Image { width, height } => {
            limits.check_bytes(field, limits.image_bytes, *size_bytes)?;
            limits.check_sides(field, width, height)
        }
        MediumFacts::Video { width, height, fps, seconds, .. } => {
            limits.check_bytes(field, limits.video_bytes, *size_bytes)?;
            limits.check_sides(field, width, height)?;
            limits.check_fps(field, fps)?;
            limits.check_video_seconds(field, seconds)
        }
        MediumFacts::Audio { seconds } => {
            limits.check_bytes(field, limits.audio_bytes, *size_bytes)?;
            limits.check_sound_seconds(field, seconds)
        }
    }
}

/// The role and the shape of a reference.
fn reference(
    facts: &MediumFacts,
    target: FrameCount,
    geometry: &GeometryProfile,
) -> Result<(InputRole, InputShape), CanvasError> {
    Ok(match *facts {
        MediumFacts::Image { width, height } => {
            (InputRole::Image, still(geometry.reference_picture_size(width, height)?))
        }
        MediumFacts::Video { width, height, seconds, sound_seconds, .. } => {
            let canvas = geometry.canvas_of(width, height)?;
            let frames = ((seconds + HEADER_SLACK_SECONDS) * f64::from(FPS)).ceil() as u32;
            let shape = InputShape {
                width: canvas.width(),
                height: canvas.height(),
                frames: frames.clamp(1, target.get()),
                audio_latents: sound_seconds.map_or(0, |seconds| latents_bound(seconds, target)),
            };
            (InputRole::Video, shape)
        }
        MediumFacts::Audio { seconds } => {
            let audio_latents = latents_bound(seconds, target);
            (InputRole::Audio, InputShape { width: 0, height: 0, frames: 0, audio_latents })
        }
    })
}

/// The shape of a picture.
fn still((width, height): (u32, u32)) -> InputShape {
    InputShape { width, height, frames: 1, audio_latents: 0 }
}

/// A bound on the latents of a sound: as long as it is or as the target lasts, and one for what both round up.
fn latents_bound(seconds: f64, target: FrameCount) -> u32 {
    let seconds = seconds.max(0.0).min(target.seconds());
    (seconds * AUDIO_LATENTS_PER_SECOND).ceil() as u32 + 1
}
