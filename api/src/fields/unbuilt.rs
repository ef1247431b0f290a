//! What is documented and not built: refused by name, never ignored.

use super::layers::{Found, Layers};
use super::references;
use crate::body::{FileField, root};
use crate::error::ApiError;

/// Which value of a field asks for nothing, and so may be given.
#[derive(Debug, Clone, Copy)]
enum Neutral {
    /// None: the field itself asks for something.
    None,
    /// False.
    False,
    /// This text.
    Text(&'static str),
}

/// The fields, each with the value that asks for nothing.
const UNBUILT: [(&str, Neutral); 24] = [
    ("negative_prompt", Neutral::None),
    ("boundary_ratio", Neutral::None),
    ("start_time_seconds", Neutral::None),
    ("generate_sound", Neutral::None),
    ("sound_duration", Neutral::None),
    ("enable_frame_interpolation", Neutral::False),
    ("frame_interpolation_exp", Neutral::None),
    ("frame_interpolation_scale", Neutral::None),
    ("frame_interpolation_model_path", Neutral::None),
    ("lora", Neutral::None),
    ("control_reference", Neutral::None),
    ("control_type", Neutral::None),
    ("source_video", Neutral::None),
    ("source_audio", Neutral::None),
    ("video_noise_mask", Neutral::None),
    ("audio_noise_mask", Neutral::None),
    ("audio_mode", Neutral::Text("native")),
    ("long_video", Neutral::False),
    ("long_video_mode", Neutral::None),
    ("continuation_prompts", Neutral::None),
    ("pad_seq_len", Neutral::None),
    ("preencode_mp4", Neutral::False),
    ("preencode_batch_frames", Neutral::None),
    ("video_codec_options", Neutral::None),
];

/// Takes out and refuses the fields that are documented and not built.
pub(super) fn refuse(fields: &mut Layers) -> Result<(), ApiError> {
    for (name, neutral) in UNBUILT {
        if let Some(found) = fields.take(name) {
            let path = found.path.clone();
            if !asks_for_nothing(found, neutral)? {
                return Err(ApiError::unsupported_parameter(&path, format!("{path} is not supported yet")));
            }
        }
    }
    Ok(())
}

fn asks_for_nothing(found: Found, neutral: Neutral) -> Result<bool, ApiError> {
    match neutral {
        Neutral::None => Ok(false),
        Neutral::False => Ok(!found.boolean()?),
        Neutral::Text(text) => Ok(found.text()? == text),
    }
}

/// Refuses a part that is a file, under a name that takes none.
pub(super) fn refuse_file(part: &str) -> ApiError {
    let name = root(part);
    if FileField::of(name).is_some() {
        let message = format!("a file must come as {name}, {name}[] or {name}[0], {name}[1] and so on, got {part:?}");
        return ApiError::invalid_value(name, message);
    }
    if UNBUILT.iter().any(|(unbuilt, _)| *unbuilt == name) {
        return ApiError::unsupported_parameter(name, format!("{name} is not supported yet"));
    }
    if references::LISTS.iter().any(|list| list.name == name) {
        let message = format!("{name} takes URLs, and files go into input_reference or input_references");
        return ApiError::invalid_value(name, message);
    }
    ApiError::invalid_value(name, format!("{name} takes no file: files go into input_reference or input_references"))
}
