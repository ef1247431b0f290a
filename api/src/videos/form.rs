//! The fields of a create request, for the OpenAPI document. [`fields`](crate::fields) reads them.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// The fields of a create request: the same names in every encoding, as text in forms and with real types in JSON.
///
/// Only `prompt` is required, and without references a ratio (`size`, `aspect_ratio`). References come either as files of a
/// multipart form or as URLs; `audio_reference` goes with both. An option below `extra_params` beats the same option
/// at the top level. Documented options that are not built are refused, unknown ones are ignored and listed in
/// `x-ignored-fields`.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct CreateVideo {
    /// The text to generate from, at most 7000 characters.
    #[schema(max_length = 7000)]
    pub prompt: String,
    /// The served model's name or one of its aliases.
    #[schema(example = "minimax-h3")]
    pub model: Option<String>,
    /// The duration in whole seconds, within the checkpoint's limits (a released one: 4 to 15 s); the clip is rounded up to the model's frame lattice.
    pub seconds: Option<String>,
    /// The canvas as `WIDTHxHEIGHT`, each side floored to a multiple of 32; it beats `width` and `height`.
    #[schema(example = "1344x768")]
    pub size: Option<String>,
    /// The width in pixels, together with `height` and, without references, with `aspect_ratio`.
    pub width: Option<i64>,
    /// The height in pixels, together with `width` and, without references, with `aspect_ratio`.
    pub height: Option<i64>,
    /// `21:9`, `16:9`, `4:3`, `1:1`, `3:4`, `9:16` or the equal decimal. With `fl2va` it is checked and not used: the first
    /// picture's ratio counts.
    #[schema(example = "16:9")]
    pub aspect_ratio: Option<String>,
    /// The short edge in pixels: only the checkpoint's own.
    pub short_edge: Option<i64>,
    /// The frame rate: only 24.
    pub fps: Option<f64>,
    /// The number of frames, where no duration is given; the checkpoint's limits of the duration hold (a released one:
    /// 4 to 15 s).
    pub num_frames: Option<i64>,
    /// The number of sigma points, 2 to 200; the transformer runs once less.
    pub num_inference_steps: Option<i64>,
    /// The shift of the video's sigmas.
    pub flow_shift: Option<f64>,
    /// The seed; a random one is taken and shown without.
    pub seed: Option<i64>,
    /// The shift of the sound's sigmas.
    pub audio_flow_shift: Option<f64>,
    /// The duration in seconds, also fractions, within the checkpoint's limits; it beats `seconds` and `duration`.
    pub duration_seconds: Option<f64>,
    /// Another name of `duration_seconds`, which beats it.
    pub duration: Option<f64>,
    /// `t2va`, `fl2va` or `ref2va`; it follows from the references without.
    pub task: Option<String>,
    /// `lossless` or `high`; the service's own policy without.
    pub quality: Option<String>,
    /// `release` or `diffusers`.
    pub recipe: Option<String>,
    /// 0 to 20; without effect on this model.
    #[schema(minimum = 0, maximum = 20)]
    pub guidance_scale: Option<f64>,
    /// 0 to 20; without effect on this model.
    #[schema(minimum = 0, maximum = 20)]
    pub guidance_scale_2: Option<f64>,
    /// 0 to 20; without effect on this model.
    #[schema(minimum = 0, maximum = 20)]
    pub true_cfg_scale: Option<f64>,
    /// `normal` or `low`: a low one lets others go before it, about ten videos' worth of work and no more.
    pub priority: Option<String>,
    /// Within how many seconds after its creation it has to have begun, else it fails: above 0, at most 604800 (7 days).
    #[schema(exclusive_minimum = 0, maximum = 604_800)]
    pub start_deadline_s: Option<f64>,
    /// What the client attaches to it, as an object or as JSON in a text: at most 16 texts of 512 characters by keys of 64. It
    /// is told back, and lists can look for it.
    pub metadata: Option<BTreeMap<String, String>>,
    /// For how long the file is kept once it is completed: seconds, from 3600, or `{anchor: "completed_at", seconds}`. At most
    /// as long as the service keeps files.
    #[schema(value_type = Option<ExpiresAfter>)]
    pub expires_after: Option<serde_json::Value>,
    /// Where to tell of its end, by a POST that is signed as Standard Webhooks has it: an https URL.
    pub webhook_url: Option<String>,
    /// What `webhook_url` is told: `video.completed`, `video.failed`; both without.
    pub webhook_events: Option<Vec<String>>,
    /// For whom it is made; told back.
    #[schema(max_length = 256)]
    pub user: Option<String>,
    /// Whether the video object has `metrics`.
    pub return_stage_metrics: Option<bool>,
    /// Only 1.
    pub num_outputs_per_prompt: Option<i64>,
    /// A picture or a video, or a list of them: in a multipart form as a file, in any body as an object `{image_url}` or
    /// `{video_url}`.
    #[schema(value_type = Option<OneOrMore<InputReference>>)]
    pub input_reference: Option<serde_json::Value>,
    /// In a multipart form alone: up to 12 pictures, videos and sounds as files, in their order; what each is, its content
    /// says. URLs go into the next three fields.
    #[schema(value_type = Option<Vec<String>>, format = Binary)]
    pub input_references: Option<serde_json::Value>,
    /// A picture or a list of them: objects `{image_url}`, each an http, https or data URL.
    pub image_reference: Option<OneOrMore<ImageUrl>>,
    /// A video or a list of them: objects `{video_url}`, each an http, https or data URL.
    pub video_reference: Option<OneOrMore<VideoUrl>>,
    /// A sound or a list of them: objects `{audio_url}`, each an http, https or data URL.
    pub audio_reference: Option<OneOrMore<AudioUrl>>,
    /// Where the pictures of `fl2va` stand: `[0]` or `[-1]` for one, `[0, -1]` for two; a number, or a list also as JSON in a
    /// text.
    #[schema(value_type = Option<OneOrMore<i64>>)]
    pub frame_indices: Option<serde_json::Value>,
    /// Another name of `frame_indices`, which beats it.
    #[schema(value_type = Option<OneOrMore<i64>>)]
    pub frame_indexes: Option<serde_json::Value>,
    /// A third name of `frame_indices`, which both others beat.
    #[schema(value_type = Option<OneOrMore<i64>>)]
    pub frame_index: Option<serde_json::Value>,
    /// The same options once more, as an object or as JSON in a text, and `target`, an object of them again
    /// (`duration_seconds`, `aspect_ratio`, `short_edge`, `frame_indices`); `prompt` and `model` excepted.
    #[schema(value_type = Option<Object>)]
    pub extra_params: Option<serde_json::Value>,
}

/// The fields of a remix, in any of the encodings. What is generated, and what from, the original says; fields about that are
/// refused.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct RemixVideo {
    /// The text to generate from, at most 7000 characters.
    #[schema(max_length = 7000)]
    pub prompt: String,
    /// The seed; a random one is taken and shown without.
    pub seed: Option<i64>,
    /// `normal` or `low`.
    pub priority: Option<String>,
    /// Within how many seconds after its creation it has to have begun, else it fails: above 0, at most 604800 (7 days).
    #[schema(exclusive_minimum = 0, maximum = 604_800)]
    pub start_deadline_s: Option<f64>,
    /// What the client attaches to it.
    pub metadata: Option<BTreeMap<String, String>>,
    /// For how long the file is kept once it is completed.
    #[schema(value_type = Option<ExpiresAfter>)]
    pub expires_after: Option<serde_json::Value>,
    /// Where to tell of its end.
    pub webhook_url: Option<String>,
    /// What `webhook_url` is told.
    pub webhook_events: Option<Vec<String>>,
    /// For whom it is made; told back.
    #[schema(max_length = 256)]
    pub user: Option<String>,
    /// Whether the video object has `metrics`.
    pub return_stage_metrics: Option<bool>,
}

/// For how long a file is kept.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ExpiresAfter {
    /// So many seconds after its completion.
    Seconds(f64),
    /// So many seconds after what the anchor names.
    Anchored {
        /// Only `completed_at`.
        anchor: Option<String>,
        /// The seconds.
        seconds: f64,
    },
}

/// One of something, or a list of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum OneOrMore<T> {
    /// One.
    One(T),
    /// A list.
    More(Vec<T>),
}

/// A picture or a video of `input_reference`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum InputReference {
    /// A file of a multipart form.
    File(ReferenceFile),
    /// A picture by its URL.
    Image(ImageUrl),
    /// A video by its URL.
    Video(VideoUrl),
}

/// The bytes of a reference.
#[derive(Debug, Serialize, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct ReferenceFile(pub Vec<u8>);

/// Where a picture is.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImageUrl {
    /// An http or https URL, or a data URL of an image.
    pub image_url: String,
}

/// Where a video is.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoUrl {
    /// An http or https URL, or a data URL of a video.
    pub video_url: String,
}

/// Where a sound is.
#[derive(Debug, Serialize, ToSchema)]
pub struct AudioUrl {
    /// An http or https URL, or a data URL of a sound.
    pub audio_url: String,
}

/// The bytes of a picture, as the OpenAPI document shows them.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct PictureFile(pub Vec<u8>);

/// Server-sent events, as the OpenAPI document shows them.
#[derive(Debug, ToSchema)]
#[schema(value_type = String)]
pub struct VideoEvents(pub String);

/// The bytes of an MP4, as the OpenAPI document shows them.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct VideoFile(pub Vec<u8>);
