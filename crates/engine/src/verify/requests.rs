//! The requests of a golden folder, as `requests.json` describes them.

use clapboard_h3::prepare::PreparedReference;
use clapboard_h3::{
    AspectRatio, Canvas, FrameCount, GenerationSpec, GeometryProfile, Input, InputRole, Quality, Recipe, Sigmas, Task,
};
use serde::Deserialize;

use super::tolerance::Precision;

#[derive(Debug, Deserialize)]
pub(super) struct Requests {
    pub(super) cases: Vec<Request>,
}

/// One golden request.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) recipe: Recipe,
    pub(super) task: Task,
    pub(super) prompt: String,
    asked: Asked,
    pub(super) resolved: Resolved,
    sigma_points: u32,
    shifts: RequestShifts,
    torch_seed: u64,
    dtype: String,
    geometry: RequestGeometry,
    /// What was handed over, in that order.
    #[serde(default)]
    pub(super) media: Vec<RequestMedium>,
    /// Which medium stands at each place of the packed sequence.
    #[serde(default)]
    pub(super) packed_order: Vec<usize>,
}

/// One medium of a request.
#[derive(Debug, Deserialize)]
pub(super) struct RequestMedium {
    pub(super) kind: MediumKind,
    /// `first` or `last` for a keyframe.
    role: String,
    /// The tensor of its pixels, if it has any.
    pub(super) tensor: Option<String>,
    /// Frames per second of a video.
    pub(super) fps: Option<f64>,
    /// Sides of a picture or video, in pixels.
    pub(super) width: Option<u32>,
    pub(super) height: Option<u32>,
    /// The tensor of its sound, if it has any.
    pub(super) audio_tensor: Option<String>,
    /// Samples per second of that sound.
    pub(super) sample_rate: Option<u32>,
}

/// What a medium is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MediumKind {
    /// A picture.
    Image,
    /// A video.
    Video,
    /// A sound.
    Audio,
}

#[derive(Debug, Deserialize)]
struct Asked {
    height: Option<u32>,
    width: Option<u32>,
    num_frames: Option<i64>,
    aspect_ratio: Option<String>,
    duration_seconds: Option<f64>,
}

/// What the reference made of the request; compared with what we make of it.
#[derive(Debug, Deserialize)]
pub(super) struct Resolved {
    pub(super) height: u32,
    pub(super) width: u32,
    pub(super) num_frames: u32,
    pub(super) audio_samples: usize,
}

#[derive(Debug, Deserialize)]
struct RequestShifts {
    video: f64,
    audio: f64,
}

#[derive(Debug, Deserialize)]
struct RequestGeometry {
    canvas_short_edge: u32,
    canvas_max_pixels: u64,
    canvas_multiple: u32,
    reference_image_short_edge: u32,
    min_duration_seconds: f64,
}

/// The longest side that is verified, in pixels.
pub(super) const MAX_SIDE: u32 = 8192;

impl Request {
    /// What the case computes in; none for a name that is not known.
    pub(super) fn precision(&self) -> Option<Precision> {
        match self.dtype.as_str() {
            "float32" => Some(Precision::F32),
            "bfloat16" => Some(Precision::Bf16),
            _ => None,
        }
    }

    /// Resolves the request by our own rules.
    ///
    /// Sizes are taken as they stand: the reference lets an explicit size exceed the pixel budget, the service does
    /// not. No golden film comes near [`MAX_SIDE`], and a longer side would ask for more memory than there is.
    pub(super) fn spec(&self) -> Result<GenerationSpec, String> {
        let geometry = GeometryProfile {
            canvas_short_edge: self.geometry.canvas_short_edge,
            canvas_max_pixels: self.geometry.canvas_max_pixels,
            canvas_multiple: self.geometry.canvas_multiple,
            reference_image_short_edge: self.geometry.reference_image_short_edge,
            min_duration_seconds: self.geometry.min_duration_seconds,
            max_duration_seconds: GeometryProfile::released().max_duration_seconds,
        };
        geometry.check().map_err(text)?;
        let canvas = match (&self.asked.aspect_ratio, self.asked.width, self.asked.height) {
            (Some(ratio), ..) => geometry.canvas(ratio.parse::<AspectRatio>().map_err(text)?.value()).map_err(text)?,
            (None, Some(width), Some(height)) => Canvas::new(width, height).map_err(text)?,
            // The canvas of the first keyframe; else the reference's own default, which the service does not have.
            (None, None, None) if self.task == Task::Fl2va => self.first_picture_canvas(&geometry)?,
            (None, None, None) => geometry.canvas(16.0 / 9.0).map_err(text)?,
            _ => return Err(format!("case {} asks for a width or a height alone", self.name)),
        };
        if canvas.width().max(canvas.height()) > MAX_SIDE {
            return Err(format!("case {} asks for {canvas} pixels, a side may have {MAX_SIDE}", self.name));
        }
        let num_frames = match (self.asked.duration_seconds, self.asked.num_frames) {
            (Some(seconds), _) => FrameCount::from_seconds(seconds, &geometry).map_err(text)?,
            (None, Some(frames)) => FrameCount::from_frames(frames, &geometry).map_err(text)?,
            _ => return Err(format!("case {} asks for neither a duration nor frames", self.name)),
        };
        Ok(GenerationSpec {
            version: GenerationSpec::VERSION,
            task: self.task,
            partition: self.task.partition(),
            recipe: self.recipe,
            prompt: self.prompt.clone(),
            canvas,
            num_frames,
            video_sigmas: Sigmas::shifted(self.sigma_points, self.shifts.video).map_err(text)?,
            audio_sigmas: Sigmas::shifted(self.sigma_points, self.shifts.audio).map_err(text)?,
            seed: self.torch_seed,
            quality: Quality::Default,
            geometry,
            inputs: Vec::new(),
        })
    }

    /// Names the media of the request, which are given as they are prepared, in packed order.
    pub(super) fn inputs(&self, media: &[PreparedReference]) -> Result<Vec<Input>, String> {
        let packed = self.packed_order.iter().zip(media);
        packed
            .map(|(index, prepared)| {
                let medium =
                    self.media.get(*index).ok_or_else(|| format!("case {} has no medium {index}", self.name))?;
                let role = match (medium.kind, medium.role.as_str()) {
                    (MediumKind::Image, "first") => InputRole::FirstFrame,
                    (MediumKind::Image, "last") => InputRole::LastFrame,
                    (MediumKind::Image, _) => InputRole::Image,
                    (MediumKind::Video, _) => InputRole::Video,
                    (MediumKind::Audio, _) => InputRole::Audio,
                };
                Ok(Input { role, object: format!("media.{index}"), shape: prepared.shape() })
            })
            .collect()
    }

    fn first_picture_canvas(&self, geometry: &GeometryProfile) -> Result<Canvas, String> {
        let sides = self.media.first().and_then(|medium| Some((medium.width?, medium.height?)));
        let (width, height) = sides.ok_or_else(|| format!("case {} has no first picture", self.name))?;
        geometry.canvas_of(width, height).map_err(text)
    }
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns why the first golden request is refused after `change`.
    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/requests.json");
        let mut requests: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let request = &mut requests["cases"][0];
        serde_json::from_value::<Request>(request.clone()).unwrap().spec().unwrap();
        change(request);
        serde_json::from_value::<Request>(request.take()).unwrap().spec().unwrap_err()
    }

    #[test]
    fn canvases_that_no_memory_holds_are_refused() {
        for (width, height) in [(1_000_000_000, 32_u32), (32, 8224), (4_294_967_264_u32, 4_294_967_264)] {
            let problem = refused(|request| {
                request["asked"] = json!({ "width": width, "height": height, "num_frames": 22 });
            });
            assert!(problem.ends_with(&format!("asks for {width}x{height} pixels, a side may have 8192")), "{problem}");
        }
        let problem = refused(|request| {
            request["geometry"]["canvas_short_edge"] = json!(1 << 20);
            request["geometry"]["canvas_max_pixels"] = json!(1_u64 << 42);
            request["asked"] = json!({ "aspect_ratio": "16:9", "num_frames": 22 });
        });
        assert!(problem.ends_with("pixels, a side may have 8192"), "{problem}");
    }

    #[test]
    fn geometries_without_sense_are_refused() {
        let problem = refused(|request| request["geometry"]["canvas_multiple"] = json!(0));
        assert_eq!(problem, "canvas_multiple must be a positive multiple of 32, got 0");
    }
}
