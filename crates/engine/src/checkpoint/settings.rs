//! Clapboard's own settings of a checkpoint: its name, geometry and defaults.

use std::path::Path;

use clapboard_h3::{Defaults, FrameCount, GeometryProfile, TaskFrames};
use serde_json::{Value, json};

use super::config::fields::Fields;
use super::config::json::read_object;
use super::error::Error;
use super::layout::exists;

/// The name under which tiny checkpoints are served.
pub const TINY_NAME: &str = "minimax-h3-tiny";

/// The name under which released checkpoints are served.
const RELEASED_NAME: &str = "minimax-h3";

/// What `clapboard.json` at a checkpoint's root says. Released checkpoints have no such file.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name under which the API serves the checkpoint.
    pub name: String,
    /// Its canvases and durations.
    pub geometry: GeometryProfile,
    /// What a request gets that does not say.
    pub defaults: Defaults,
}

impl Settings {
    /// Returns the settings of a released checkpoint.
    pub fn released() -> Self {
        Self { name: RELEASED_NAME.to_owned(), geometry: GeometryProfile::released(), defaults: Defaults::released() }
    }

    /// Returns the settings of a tiny checkpoint: canvases up to 96x64, half a second and more, 22 frames, 4 sigma
    /// points.
    pub fn tiny() -> Self {
        Self {
            name: TINY_NAME.to_owned(),
            geometry: GeometryProfile {
                canvas_short_edge: 32,
                canvas_max_pixels: 96 * 64,
                canvas_multiple: 32,
                reference_image_short_edge: 64,
                min_duration_seconds: 0.5,
                max_duration_seconds: 15.0,
            },
            defaults: Defaults { num_frames: TaskFrames::all(FrameCount::snap_up(22)), num_inference_steps: 4 },
        }
    }

    /// Reads the first of `places` that exists; without any, the settings are those of a release.
    ///
    /// Errors: [`Error::Config`] with every missing key, wrong type or broken rule; [`Error::Io`] for a place that cannot
    /// be looked at.
    pub(super) fn read(places: &[impl AsRef<Path>]) -> Result<Self, Error> {
        let mut present = None;
        for path in places.iter().map(AsRef::as_ref) {
            if exists(path)? {
                present = Some(path);
                break;
            }
        }
        let Some(path) = present else { return Ok(Self::released()) };
        let mut fields = Fields::new(path, read_object(path)?);
        let fallback = Self::released().geometry;
        let geometry = GeometryProfile {
            canvas_short_edge: narrow(fields.size("geometry.canvas_short_edge")),
            canvas_max_pixels: fields.pixels("geometry.canvas_max_pixels"),
            canvas_multiple: narrow(fields.size_or("geometry.canvas_multiple", fallback.canvas_multiple as usize)),
            reference_image_short_edge: narrow(fields.size("geometry.reference_image_short_edge")),
            min_duration_seconds: fields.positive_or("geometry.min_duration_seconds", fallback.min_duration_seconds),
            max_duration_seconds: fields.positive_or("geometry.max_duration_seconds", fallback.max_duration_seconds),
        };
        let name = fields.text_or("name", RELEASED_NAME);
        let frames = fields.size("defaults.num_frames");
        let steps = fields.size("defaults.num_inference_steps");
        fields.rule(!name.is_empty(), || "name must not be empty".to_owned());
        fields.rule((5..=10_000).contains(&frames), || {
            format!("defaults.num_frames must be in 5..=10000, found {frames}")
        });
        fields.rule((2..=200).contains(&steps), || {
            format!("defaults.num_inference_steps must be in 2..=200, found {steps}")
        });
        if let Err(problem) = geometry.check() {
            fields.rule(false, || format!("geometry: {problem}"));
        }
        let frames = FrameCount::snap_up(narrow(frames.clamp(5, 10_000)));
        let defaults = Defaults { num_frames: TaskFrames::all(frames), num_inference_steps: narrow(steps) };
        fields.finish(Self { name, geometry, defaults })
    }

    /// Returns the text of a settings file that reads back as `self`; one default number of frames serves every task.
    pub(super) fn to_json(&self) -> Value {
        let geometry = &self.geometry;
        json!({
            "name": self.name,
            "geometry": {
                "canvas_short_edge": geometry.canvas_short_edge,
                "canvas_max_pixels": geometry.canvas_max_pixels,
                "canvas_multiple": geometry.canvas_multiple,
                "reference_image_short_edge": geometry.reference_image_short_edge,
                "min_duration_seconds": geometry.min_duration_seconds,
                "max_duration_seconds": geometry.max_duration_seconds,
            },
            "defaults": {
                "num_frames": self.defaults.num_frames.t2va.get(),
                "num_inference_steps": self.defaults.num_inference_steps,
            },
        })
    }
}

/// Narrows a size, which the config reader already bounds to 20 bits.
fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
