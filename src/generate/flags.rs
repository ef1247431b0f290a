//! Refusals of the API's rules, told in the words of the command line.

use clapboard_h3::Invalid;

/// The names that the rules use, each with its flag. A longer name comes before its own beginning.
const FLAGS: [(&str, &str); 16] = [
    ("prompt", "--prompt"),
    ("extra_params.task", "--task"),
    ("size", "--size"),
    ("aspect_ratio", "--aspect-ratio"),
    ("width and height", "--width and --height"),
    ("width", "--width"),
    ("height", "--height"),
    ("extra_params.duration", "--duration"),
    ("num_frames", "--num-frames"),
    ("num_inference_steps", "--steps"),
    ("flow_shift", "--flow-shift"),
    ("extra_params.audio_flow_shift", "--audio-flow-shift"),
    ("quality", "--quality"),
    ("image_reference", "--image"),
    ("video_reference", "--video"),
    ("audio_reference", "--audio"),
];

/// Tells which rule was broken, naming the flag in place of the API's field.
pub(super) fn told_by_flag(invalid: &Invalid) -> String {
    let message = invalid.message.as_str();
    let by_beginning = FLAGS.iter().find_map(|(name, flag)| Some((flag, message.strip_prefix(name)?)));
    if let Some((flag, rule)) = by_beginning {
        return format!("{flag}{rule}");
    }
    let Some((name, flag)) = FLAGS.iter().find(|(name, _)| *name == invalid.field) else {
        return message.to_owned();
    };
    match message.strip_suffix(name) {
        // Only the ratio is asked for at the end of a sentence, and here a size does as well.
        Some(rule) => format!("{rule}{flag}, or a --size"),
        None => format!("{flag}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use clapboard_h3::{ModelProfile, Partition, VideoRequest};

    use super::*;

    fn told(change: impl FnOnce(&mut VideoRequest)) -> String {
        let profile = ModelProfile::released("h3", vec![Partition::Fl2va]);
        let (prompt, size) = (Some("a fox".to_owned()), Some("768x768".to_owned()));
        let mut request = VideoRequest { prompt, size, ..VideoRequest::default() };
        change(&mut request);
        told_by_flag(&request.resolve(&profile, 0).unwrap_err())
    }

    #[test]
    fn every_rule_names_the_flag_and_no_field() {
        let some = |text: &str| Some(text.to_owned());
        let sides = |request: &mut VideoRequest, width, height| {
            (request.size, request.aspect_ratio) = (None, some("1:1"));
            (request.width, request.height) = (Some(width), Some(height));
        };
        let cases = [
            (told(|request| request.prompt = some("")), "--prompt is required"),
            (told(|request| request.task = some("ref2va")), "--task: task ref2va is not run here"),
            (told(|request| request.size = some("12")), "--size must be WIDTHxHEIGHT"),
            (told(|request| request.size = some("16x16")), "--size 16x16: canvas sides must be at least 32"),
            (told(|request| request.size = None), "t2va requires an explicit --aspect-ratio, or a --size"),
            (told(|request| request.aspect_ratio = some("5:7")), "--aspect-ratio"),
            (told(|request| request.aspect_ratio = some("auto")), "--aspect-ratio must be named"),
            (told(|request| sides(request, 0, 64)), "--width must be at least 1"),
            (told(|request| sides(request, 64, -1)), "--height must be at least 1"),
            (told(|request| sides(request, 16, 16)), "--width and --height 16x16: canvas sides"),
            (told(|request| request.duration = Some(1.0)), "--duration: "),
            (told(|request| request.num_frames = Some(5)), "--num-frames: "),
            (told(|request| request.num_inference_steps = Some(1)), "--steps counts sigma points"),
            (told(|request| request.flow_shift = Some(0.0)), "--flow-shift: "),
            (told(|request| request.audio_flow_shift = Some(0.0)), "--audio-flow-shift: "),
            (told(|request| request.quality = some("best")), "--quality must be one of"),
        ];
        for (told, expected) in cases {
            assert!(told.starts_with(expected), "{told:?} does not start with {expected:?}");
            assert!(!told.contains('_'), "{told:?} names a field of the API");
        }
    }
}
