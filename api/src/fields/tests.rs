use std::time::Duration;

use clapboard_jobs::Priority;
use serde_json::{Value, json};

use super::read;
use super::request::CreateRequest;
use crate::body::Decoded;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

fn read_json(tree: Value) -> Result<CreateRequest, ApiError> {
    let Value::Object(tree) = tree else { panic!("a request is an object") };
    read(Decoded { tree, ..Decoded::default() })
}

fn refusal(tree: Value) -> (ErrorCode, String, String) {
    let refused = read_json(tree).unwrap_err();
    (refused.code, refused.param.unwrap_or_default(), refused.message)
}

#[test]
fn texts_and_real_types_read_alike() {
    let typed = read_json(json!({
        "prompt": "a cat", "seconds": 5, "fps": 24, "seed": 1, "width": 512, "height": 288, "flow_shift": 3.5,
        "extra_params": {"task": "t2va", "audio_flow_shift": 2}
    }));
    let texts = read_json(json!({
        "prompt": "a cat", "seconds": "5", "fps": "24.0", "seed": "1.0", "width": "512", "height": " 288", "flow_shift": "3.5",
        "extra_params": "{\"task\": \"t2va\", \"audio_flow_shift\": \"2\"}"
    }));
    let (typed, texts) = (typed.unwrap(), texts.unwrap());
    assert_eq!(typed.video, texts.video);
    assert_eq!(typed.video.seconds, Some(5.0));
    assert_eq!(typed.video.seed, Some(1));
    assert_eq!(typed.video.task.as_deref(), Some("t2va"));
}

#[test]
fn extra_params_beat_the_top_level_and_the_target_beats_both() {
    let request = read_json(json!({
        "prompt": "a cat", "aspect_ratio": "1:1", "flow_shift": 1, "seconds": 4, "seed": 1,
        "extra_params": {"aspect_ratio": "4:3", "flow_shift": 2, "duration": 5, "target": {"aspect_ratio": "16:9"}}
    }))
    .unwrap();
    assert_eq!(request.video.aspect_ratio.as_deref(), Some("16:9"));
    assert_eq!(request.video.flow_shift, Some(2.0));
    assert_eq!((request.video.seconds, request.video.duration), (Some(4.0), Some(5.0)));
    assert_eq!(request.unknown, Vec::<String>::new());
}

#[test]
fn of_the_durations_the_target_wins_then_duration_seconds_then_duration() {
    let duration = |extra: Value| read_json(json!({"prompt": "x", "extra_params": extra})).unwrap().video.duration;
    assert_eq!(duration(json!({"duration": 4.5})), Some(4.5));
    assert_eq!(duration(json!({"duration": 4.5, "duration_seconds": 5.5})), Some(5.5));
    let all = json!({"duration": 4.5, "duration_seconds": 5.5, "target": {"duration_seconds": 6.5}});
    assert_eq!(duration(all), Some(6.5));
    assert_eq!(
        duration(json!({"duration_seconds": 5.5, "target": {"duration": 6.5}})),
        Some(6.5),
        "the place comes first"
    );
}

#[test]
fn absent_null_and_empty_are_the_same() {
    let request = read_json(json!({"prompt": "", "size": null, "seed": "", "extra_params": "", "lora": null})).unwrap();
    assert_eq!(format!("{request:?}"), format!("{:?}", CreateRequest::default()));
}

#[test]
fn what_is_documented_and_not_built_is_refused_by_its_path() {
    for (tree, path) in [
        (json!({"lora": {"name": "x"}}), "lora"),
        (json!({"negative_prompt": "dogs"}), "negative_prompt"),
        (json!({"enable_frame_interpolation": "true"}), "enable_frame_interpolation"),
        (json!({"generate_sound": false}), "generate_sound"),
        (json!({"num_outputs_per_prompt": 2}), "num_outputs_per_prompt"),
        (json!({"extra_params": {"long_video": true}}), "extra_params.long_video"),
        (json!({"extra_params": {"audio_mode": "lock_source"}}), "extra_params.audio_mode"),
        (json!({"start_time_seconds": 1}), "start_time_seconds"),
        (json!({"extra_params": {"video_codec_options": {}}}), "extra_params.video_codec_options"),
    ] {
        let (code, param, message) = refusal(tree);
        assert_eq!((code, param.as_str()), (ErrorCode::UnsupportedParameter, path));
        assert!(message.starts_with(path), "{message}");
    }
}

#[test]
fn what_asks_for_nothing_may_be_given() {
    let request = read_json(json!({
        "prompt": "a cat", "enable_frame_interpolation": "off", "num_outputs_per_prompt": 1, "guidance_scale": 5.5,
        "return_stage_metrics": false, "negative_prompt": "",
        "extra_params": {"long_video": 0, "audio_mode": "native", "preencode_mp4": false}
    }));
    assert_eq!(request.unwrap().unknown, Vec::<String>::new());
}

#[test]
fn a_file_is_refused_by_what_it_was_meant_for() {
    let refused = |name: &str| read(Decoded { refused_file: Some(name.to_owned()), ..Decoded::default() }).unwrap_err();
    let message = "image_reference takes URLs, and files go into input_reference or input_references";
    assert_eq!(refused("image_reference").message, message);
    assert_eq!(refused("source_video").code, ErrorCode::UnsupportedParameter);
    for name in ["prompt", "image", "input_refrence"] {
        let (refused, rule) = (refused(name), "takes no file: files go into input_reference or input_references");
        assert_eq!((refused.code, refused.message), (ErrorCode::InvalidValue, format!("{name} {rule}")));
    }
    assert_eq!(refused("extra_params[task]").param.as_deref(), Some("extra_params"));
    let misnamed = refused("input_reference[image_url]");
    assert_eq!(misnamed.param.as_deref(), Some("input_reference"));
    let rule =
        "a file must come as input_reference, input_reference[] or input_reference[0], input_reference[1] and so on";
    assert_eq!(misnamed.message, format!("{rule}, got \"input_reference[image_url]\""));
}

#[test]
fn wrong_types_name_the_field() {
    for (tree, path, end) in [
        (json!({"seed": "abc"}), "seed", "must be a whole number of 64 bits"),
        (json!({"seed": 1.5}), "seed", "must be a whole number of 64 bits"),
        (json!({"seed": 9_223_372_036_854_775_808_u64}), "seed", "must be a whole number of 64 bits"),
        (json!({"seed": -9_223_372_036_854_775_808.0}), "seed", "must be a whole number of 64 bits"),
        (json!({"seed": "-9223372036854775809"}), "seed", "must be a whole number of 64 bits"),
        (json!({"seed": "9007199254740993.0"}), "seed", "must be a whole number of 64 bits"),
        (json!({"seed": true}), "seed", "must be a whole number of 64 bits"),
        (json!({"seed": ["1", "2"]}), "seed", "must be given once, as a whole number of 64 bits"),
        (json!({"fps": "fast"}), "fps", "must be a number"),
        (json!({"prompt": 5}), "prompt", "must be a text"),
        (json!({"prompt": ["a", "b"]}), "prompt", "must be given once, as a text"),
        (json!({"size": {"w": 1}}), "size", "must be a text"),
        (json!({"guidance_scale": 21}), "guidance_scale", "must be between 0 and 20, got 21"),
        (json!({"guidance_scale": "nan"}), "guidance_scale", "must be between 0 and 20, got NaN"),
        (json!({"num_outputs_per_prompt": 0}), "num_outputs_per_prompt", "must be between 1 and 10, got 0"),
        (
            json!({"seconds": 4.5}),
            "seconds",
            "must be a whole number of seconds; extra_params.duration takes fractions",
        ),
        (json!({"extra_params": []}), "extra_params", "must be a JSON object"),
        (json!({"extra_params": "[1]"}), "extra_params", "must be a JSON object"),
        (json!({"extra_params": {"target": 1}}), "extra_params.target", "must be a JSON object"),
        (json!({"extra_params": {"flow_shift": "x"}}), "extra_params.flow_shift", "must be a number"),
        (json!({"enable_frame_interpolation": "maybe"}), "enable_frame_interpolation", "must be true or false"),
    ] {
        let (code, param, message) = refusal(tree);
        assert_eq!((code, param.as_str()), (ErrorCode::InvalidValue, path));
        assert_eq!(message, format!("{path} {end}"));
    }
}

#[test]
fn priority_and_deadline_are_read_wherever_they_stand() {
    let plain = read_json(json!({"prompt": "x"})).unwrap();
    assert_eq!((plain.terms.priority, plain.terms.start_within), (Priority::Normal, None));
    let texts = read_json(json!({"prompt": "x", "priority": "low", "start_deadline_s": "0.5"})).unwrap();
    let texts = texts.terms;
    assert_eq!((texts.priority, texts.start_within), (Priority::Low, Some(Duration::from_millis(500))));
    let extra = json!({"priority": "normal", "start_deadline_s": 604_800});
    let extra = read_json(json!({"prompt": "x", "priority": "low", "extra_params": extra})).unwrap();
    let extra = extra.terms;
    assert_eq!((extra.priority, extra.start_within), (Priority::Normal, Some(Duration::from_secs(604_800))));
    let (code, param, message) = refusal(json!({"prompt": "x", "start_deadline_s": 1e9}));
    assert_eq!((code, param.as_str()), (ErrorCode::InvalidValue, "start_deadline_s"));
    assert_eq!(message, "start_deadline_s must be above 0 and at most 604800 (7 days), got 1000000000");
}

#[test]
fn the_places_of_keyframes_are_read_by_all_their_names() {
    let indices = |extra: Value| read_json(json!({"prompt": "x", "extra_params": extra})).unwrap().video.frame_indices;
    for (extra, expected) in [
        (json!({"frame_index": 0}), Some(vec![0])),
        (json!({"frame_index": "-1"}), Some(vec![-1])),
        (json!({"frame_indexes": [0, -1]}), Some(vec![0, -1])),
        (json!({"frame_indices": "[0, -1]"}), Some(vec![0, -1])),
        (json!({"frame_indices": ["0", "-1"]}), Some(vec![0, -1])),
        (json!({"target": {"frame_indices": [-1.0]}}), Some(vec![-1])),
        (json!({"frame_index": 7, "target": {"frame_index": 0}}), Some(vec![0])),
        (json!({"frame_index": 7, "frame_indexes": 8, "frame_indices": [0]}), Some(vec![0])),
        (json!({"frame_indices": [0], "target": {"frame_index": -1}}), Some(vec![-1])),
        (json!({"frame_indices": [], "target": {"frame_indexes": [0, -1]}}), Some(vec![0, -1])),
        (json!({"frame_indices": []}), Some(Vec::new())),
        (json!({"frame_indices": null}), None),
    ] {
        assert_eq!(indices(extra.clone()), expected, "{extra}");
    }
    for (value, code) in [
        (json!("first"), ErrorCode::InvalidValue),
        (json!([0, "x"]), ErrorCode::InvalidValue),
        (json!([[0]]), ErrorCode::InvalidValue),
        (json!(true), ErrorCode::InvalidValue),
        (json!("[0,"), ErrorCode::InvalidJson),
    ] {
        let (found, param, _) = refusal(json!({"extra_params": {"target": {"frame_indices": value}}}));
        assert_eq!((found, param.as_str()), (code, "extra_params.target.frame_indices"));
    }
}

#[test]
fn every_whole_number_of_64_bits_is_one() {
    for seed in [i64::MIN, -1, 9_007_199_254_740_993, i64::MAX] {
        assert_eq!(read_json(json!({"seed": seed})).unwrap().video.seed, Some(seed));
        assert_eq!(read_json(json!({"seed": seed.to_string()})).unwrap().video.seed, Some(seed));
    }
    assert_eq!(read_json(json!({"seed": -7.0})).unwrap().video.seed, Some(-7));
}

#[test]
fn a_key_that_stands_twice_in_the_json_of_a_field_is_named() {
    let (code, param, message) =
        refusal(json!({"extra_params": "{\"target\": {\"short_edge\": 1, \"short_edge\": 2}}"}));
    assert_eq!((code, param.as_str()), (ErrorCode::InvalidValue, "extra_params.target.short_edge"));
    assert_eq!(message, "extra_params.target.short_edge must be given once");
}

#[test]
fn broken_json_in_a_field_is_named() {
    let (code, param, message) = refusal(json!({"extra_params": "{task"}));
    assert_eq!((code, param.as_str()), (ErrorCode::InvalidJson, "extra_params"));
    assert_eq!(message, "Invalid JSON in form field extra_params");
}

#[test]
fn unknown_fields_are_listed_by_their_paths() {
    let request =
        read_json(json!({"prompt": "x", "foo": 1, "extra_params": {"bar": 1, "target": {"baz": 1}}})).unwrap();
    assert_eq!(request.unknown, ["foo", "extra_params.bar", "extra_params.target.baz"]);
}

#[test]
fn the_innermost_place_wins_over_the_first_name() {
    let body = json!({"prompt": "x", "frame_indices": [0], "extra_params": {"target": {"frame_index": -1}}});
    assert_eq!(read_json(body).unwrap().video.frame_indices, Some(vec![-1]));
    let body = json!({"prompt": "x", "frame_indices": [0], "extra_params": {"frame_indexes": [0, -1]}});
    let request = read_json(body).unwrap();
    assert_eq!((request.video.frame_indices, request.unknown), (Some(vec![0, -1]), Vec::new()));
}
