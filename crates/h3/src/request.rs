//! What a client asked for, before any rule has looked at it.

use crate::medium::Medium;
use crate::recipe::Recipe;

/// Every sampling option of a request as it came; absent ones are `None`.
///
/// Numbers are wider than their rules, so that a value out of range reaches the rule that names it.
/// [`VideoRequest::resolve`] is the only way on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VideoRequest {
    /// The text to generate from, used verbatim.
    pub prompt: Option<String>,
    /// The task by name (`extra_params.task`); absent, it follows from the references.
    pub task: Option<String>,
    /// The canvas as `WxH` in pixels; it overrides `width` and `height`.
    pub size: Option<String>,
    /// The width in pixels; only together with `height`.
    pub width: Option<i64>,
    /// The height in pixels; only together with `width`.
    pub height: Option<i64>,
    /// The ratio of width to height, by name or as a decimal. Keyframes bring their own, which counts instead.
    pub aspect_ratio: Option<String>,
    /// The short edge in pixels; only the checkpoint's own is taken.
    pub short_edge: Option<i64>,
    /// The duration in seconds, from the field `seconds`.
    pub seconds: Option<f64>,
    /// The duration in seconds, from `extra_params.duration`; it overrides `seconds`.
    pub duration: Option<f64>,
    /// The number of frames, used when no duration is given.
    pub num_frames: Option<i64>,
    /// The frame rate; only 24 is taken.
    pub fps: Option<f64>,
    /// The number of sigma points; a run makes one forward less.
    pub num_inference_steps: Option<i64>,
    /// The shift of the video's sigma grid.
    pub flow_shift: Option<f64>,
    /// The shift of the audio's sigma grid (`extra_params.audio_flow_shift`).
    pub audio_flow_shift: Option<f64>,
    /// The seed; a negative one counts as PyTorch takes it, by its two's complement.
    pub seed: Option<i64>,
    /// The encoding policy by name.
    pub quality: Option<String>,
    /// Which of the published recipes to follow.
    pub recipe: Option<Recipe>,
    /// Where the keyframes stand, in their order: `[0]`, `[-1]` or `[0, -1]`; absent, the first frame and then the last.
    pub frame_indices: Option<Vec<i64>>,
    /// The media that came along, in the request's order.
    pub media: Vec<Medium>,
}
