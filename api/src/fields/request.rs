//! Reading the fields of a create request.

use clapboard_h3::{Recipe, VideoRequest};
use serde_json::Value;

use super::layers::{Found, Layers};
use super::references::{self, Reference};
use super::terms::{self, Terms};
use super::{unbuilt, value};
use crate::body::Decoded;
use crate::error::ApiError;

/// The number of videos that a request may ask for; more than one is documented and not built.
const OUTPUTS: std::ops::RangeInclusive<i64> = 1..=10;
/// The range of the guidance scales, which have no effect on a model that was distilled from its guided self.
const GUIDANCE: std::ops::RangeInclusive<f64> = 0.0..=20.0;

/// A create request with every value of the right type; the rules of the model have not been looked at.
#[derive(Debug, Default)]
pub(crate) struct CreateRequest {
    /// The model by the name that the client used.
    pub(crate) model: Option<String>,
    /// What to generate.
    pub(crate) video: VideoRequest,
    /// The media to generate from, in the request's order.
    pub(crate) references: Vec<Reference>,
    /// When, for how long, for whom, and who is told.
    pub(crate) terms: Terms,
    /// The fields that nothing documents.
    pub(crate) unknown: Vec<String>,
}

/// Reads the fields of a body.
///
/// Errors: `unsupported_parameter` for what is not built, `invalid_json`, `invalid_value` for a wrong type, and those of
/// references; each names the field by its path.
pub(crate) fn read(decoded: Decoded) -> Result<CreateRequest, ApiError> {
    let mut fields = Layers::of(decoded.tree)?;
    if let Some(file) = &decoded.refused_file {
        return Err(unbuilt::refuse_file(file));
    }
    unbuilt::refuse(&mut fields)?;
    let references = references::read(&mut fields, decoded.files, decoded.is_form)?;
    check_outputs(&mut fields)?;
    check_guidance(&mut fields)?;
    let video = VideoRequest {
        prompt: fields.take_top("prompt").map(Found::strict_text).transpose()?,
        task: text(fields.take("task"))?,
        size: text(fields.take("size"))?,
        width: integer(fields.take("width"))?,
        height: integer(fields.take("height"))?,
        aspect_ratio: text(fields.take("aspect_ratio"))?,
        short_edge: integer(fields.take("short_edge"))?,
        seconds: seconds(fields.take("seconds"))?,
        duration: number(fields.take_any(&["duration_seconds", "duration"]))?,
        num_frames: integer(fields.take("num_frames"))?,
        fps: number(fields.take("fps"))?,
        num_inference_steps: integer(fields.take("num_inference_steps"))?,
        flow_shift: number(fields.take("flow_shift"))?,
        audio_flow_shift: number(fields.take("audio_flow_shift"))?,
        seed: integer(fields.take("seed"))?,
        quality: text(fields.take("quality"))?,
        recipe: recipe(fields.take("recipe"))?,
        frame_indices: frame_indices(&mut fields)?,
        ..VideoRequest::default()
    };
    let model = fields.take_top("model").map(Found::strict_text).transpose()?;
    let terms = terms::read(&mut fields)?;
    Ok(CreateRequest { model, video, references, terms, unknown: fields.leftovers() })
}

fn text(found: Option<Found>) -> Result<Option<String>, ApiError> {
    found.map(Found::text).transpose()
}

fn integer(found: Option<Found>) -> Result<Option<i64>, ApiError> {
    found.map(Found::integer).transpose()
}

fn number(found: Option<Found>) -> Result<Option<f64>, ApiError> {
    found.map(Found::number).transpose()
}

/// Reads `seconds`, which is a whole number; fractions are for `extra_params.duration`.
fn seconds(found: Option<Found>) -> Result<Option<f64>, ApiError> {
    let Some(found) = found else {
        return Ok(None);
    };
    let path = found.path.clone();
    match found.integer() {
        Ok(seconds) => Ok(Some(seconds as f64)),
        Err(_) => Err(ApiError::invalid_value(
            &path,
            format!("{path} must be a whole number of seconds; extra_params.duration takes fractions"),
        )),
    }
}

fn recipe(found: Option<Found>) -> Result<Option<Recipe>, ApiError> {
    let Some(found) = found else {
        return Ok(None);
    };
    let path = found.path.clone();
    let recipe = found.text()?.parse::<Recipe>().map_err(|error| ApiError::invalid_value(&path, error.to_string()))?;
    Ok(Some(recipe))
}

/// Reads where the keyframes stand, by any of the three names: a whole number, or a list of them.
fn frame_indices(fields: &mut Layers) -> Result<Option<Vec<i64>>, ApiError> {
    let names = ["frame_indices", "frame_indexes", "frame_index"];
    let Some(Found { path, value }) = fields.take_any(&names) else {
        return Ok(None);
    };
    let value = match value {
        // One number is JSON as well.
        Value::String(text) if text.trim_start().starts_with('[') => value::json(&path, &text)?,
        value => value,
    };
    let values = match value {
        Value::Array(values) => values,
        single => vec![single],
    };
    let integers: Result<Vec<i64>, _> =
        values.into_iter().map(|value| Found { path: path.clone(), value }.integer()).collect();
    let message = format!("{path} must be a whole number or a list of them");
    integers.map(Some).map_err(|_| ApiError::invalid_value(&path, message))
}

fn check_outputs(fields: &mut Layers) -> Result<(), ApiError> {
    const FIELD: &str = "num_outputs_per_prompt";
    match integer(fields.take(FIELD))? {
        None | Some(1) => Ok(()),
        Some(outputs) if OUTPUTS.contains(&outputs) => {
            Err(ApiError::unsupported_parameter(FIELD, format!("{FIELD} above 1 is not supported yet, got {outputs}")))
        }
        Some(outputs) => Err(ApiError::invalid_value(
            FIELD,
            format!("{FIELD} must be between {} and {}, got {outputs}", OUTPUTS.start(), OUTPUTS.end()),
        )),
    }
}

fn check_guidance(fields: &mut Layers) -> Result<(), ApiError> {
    for name in ["guidance_scale", "guidance_scale_2", "true_cfg_scale"] {
        let Some(found) = fields.take(name) else {
            continue;
        };
        let path = found.path.clone();
        let scale = found.number()?;
        if !GUIDANCE.contains(&scale) {
            let (least, most) = (GUIDANCE.start(), GUIDANCE.end());
            return Err(ApiError::invalid_value(
                &path,
                format!("{path} must be between {least} and {most}, got {scale}"),
            ));
        }
    }
    Ok(())
}
