//! The fields of a remix: another prompt, and what says nothing about what is generated.

use super::layers::{Found, Layers};
use super::terms::{self, Terms};
use super::unbuilt;
use crate::body::Decoded;
use crate::error::ApiError;

/// What a remix has from its original.
const OF_ORIGINAL: [&str; 29] = [
    "model",
    "task",
    "size",
    "width",
    "height",
    "aspect_ratio",
    "short_edge",
    "seconds",
    "duration",
    "duration_seconds",
    "num_frames",
    "fps",
    "num_inference_steps",
    "flow_shift",
    "audio_flow_shift",
    "guidance_scale",
    "guidance_scale_2",
    "true_cfg_scale",
    "quality",
    "recipe",
    "num_outputs_per_prompt",
    "frame_indices",
    "frame_indexes",
    "frame_index",
    "input_reference",
    "input_references",
    "image_reference",
    "video_reference",
    "audio_reference",
];

/// A request to make a video once more from another prompt.
#[derive(Debug)]
pub(crate) struct RemixRequest {
    /// The prompt.
    pub(crate) prompt: Option<String>,
    /// The seed.
    pub(crate) seed: Option<i64>,
    /// When, for how long, for whom, and who is told.
    pub(crate) terms: Terms,
    /// The fields that nothing documents.
    pub(crate) unknown: Vec<String>,
}

/// Reads the fields of a remix.
///
/// Errors: `unsupported_parameter` for what a remix has from its original, and those of [`read`](super::read).
pub(crate) fn read(decoded: Decoded) -> Result<RemixRequest, ApiError> {
    let mut fields = Layers::of(decoded.tree)?;
    if let Some(file) = &decoded.refused_file {
        return Err(unbuilt::refuse_file(file));
    }
    if let Some(part) = decoded.files.first() {
        return Err(of_original(part.field.as_str()));
    }
    unbuilt::refuse(&mut fields)?;
    for name in OF_ORIGINAL {
        if let Some(found) = fields.take(name) {
            return Err(of_original(&found.path));
        }
    }
    Ok(RemixRequest {
        prompt: fields.take_top("prompt").map(Found::strict_text).transpose()?,
        seed: fields.take("seed").map(Found::integer).transpose()?,
        terms: terms::read(&mut fields)?,
        unknown: fields.leftovers(),
    })
}

fn of_original(path: &str) -> ApiError {
    ApiError::unsupported_parameter(path, format!("{path} is not supported in a remix, which has it from its original"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn remix(tree: Value) -> Result<RemixRequest, ApiError> {
        let Value::Object(tree) = tree else { panic!("a request is an object") };
        read(Decoded { tree, ..Decoded::default() })
    }

    #[test]
    fn what_the_original_decides_is_refused_by_name() {
        let read = remix(json!({"prompt": "a dog", "seed": "7", "user": "ann", "foo": 1})).unwrap();
        assert_eq!((read.prompt.as_deref(), read.seed, read.unknown), (Some("a dog"), Some(7), vec!["foo".to_owned()]));
        assert_eq!(read.terms.told.user.as_deref(), Some("ann"));
        for (tree, param) in [
            (json!({"prompt": "a dog", "size": "512x288"}), "size"),
            (json!({"prompt": "a dog", "extra_params": {"task": "t2va"}}), "extra_params.task"),
            (json!({"prompt": "a dog", "input_reference": {"image_url": "https://a.example"}}), "input_reference"),
            (json!({"prompt": "a dog", "negative_prompt": "x"}), "negative_prompt"),
        ] {
            let refused = remix(tree).unwrap_err();
            assert_eq!((refused.code.as_str(), refused.param.as_deref()), ("unsupported_parameter", Some(param)));
        }
    }
}
