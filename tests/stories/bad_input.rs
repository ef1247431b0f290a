//! Bad requests get an answer that names what and why, and leave nothing behind.

use serde_json::{Value, json};

use crate::support::{Body, Service, files_below, short_job};

/// The short job with some fields changed.
fn with(changes: &Value) -> Value {
    let mut job = short_job();
    for (name, value) in changes.as_object().unwrap() {
        job[name] = value.clone();
    }
    job
}

#[test]
fn each_broken_rule_is_named_and_no_job_is_made() {
    let service = Service::start();
    let cases = [
        (json!({"prompt": ""}), "missing_required_parameter", "prompt"),
        (json!({"prompt": "see <|image_pad|> here"}), "invalid_value", "prompt"),
        (json!({"prompt": "x".repeat(7001)}), "string_above_max_length", "prompt"),
        (json!({"size": null, "width": 64, "height": 32}), "missing_required_parameter", "aspect_ratio"),
        (json!({"size": "4096x4096"}), "invalid_size", "size"),
        (json!({"size": "96x16"}), "invalid_size", "size"),
        (json!({"size": null, "aspect_ratio": "5:7"}), "invalid_aspect_ratio", "aspect_ratio"),
        (json!({"seconds": "16"}), "invalid_duration", "seconds"),
        (json!({"extra_params": {"duration": 0.25}}), "invalid_duration", "extra_params.duration"),
        (json!({"fps": 25}), "invalid_fps", "fps"),
        (json!({"num_inference_steps": 1}), "invalid_value", "num_inference_steps"),
        (json!({"num_inference_steps": 201}), "invalid_value", "num_inference_steps"),
        (json!({"flow_shift": "NaN"}), "invalid_value", "flow_shift"),
        (json!({"flow_shift": -1}), "invalid_value", "flow_shift"),
        (json!({"extra_params": {"task": "v2v"}}), "unsupported_task", "extra_params.task"),
        (json!({"extra_params": {"task": "ref2va"}}), "unsupported_task", "extra_params.task"),
        (json!({"negative_prompt": "rain"}), "unsupported_parameter", "negative_prompt"),
        (json!({"webhook_url": "http://example.com/hook"}), "invalid_webhook_url", "webhook_url"),
        (json!({"lora": {"name": "x"}}), "unsupported_parameter", "lora"),
        (json!({"model": "another-model"}), "model_not_found", "model"),
    ];
    for (changes, code, param) in &cases {
        let error = service.post(Body::Json(&with(changes))).error();
        assert_eq!(error, (400, (*code).to_owned(), Some((*param).to_owned())), "{changes}");
    }
    let too_large = format!("{{\"prompt\": \"{}\"}}", "x".repeat(100_000));
    let cases = [
        ("application/json", "{\"prompt\": ", 400, "invalid_json"),
        ("text/plain", "a prompt", 415, "unsupported_media_type"),
        ("application/json", too_large.as_str(), 400, "string_above_max_length"),
    ];
    for (content_type, body, status, code) in cases {
        let (found, name, _) = service.post(Body::Raw(content_type, body)).error();
        assert_eq!((found, name.as_str()), (status, code));
    }
    assert_eq!(service.get("/v1/videos").json()["data"], json!([]));
    for folder in ["scratch", "media"] {
        assert_eq!(files_below(&service.data().join(folder)), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn routes_and_methods_that_are_not_there_answer_in_the_same_shape() {
    let service = Service::start();
    assert_eq!(service.get("/v1/nothing").error().0, 404);
    assert_eq!(service.get("/v1/videos/video_gen_00000000000000000000000000000000").error().0, 404);
    assert_eq!(service.request("PUT", "/v1/videos", &[], Body::Nothing).error().0, 405);
}

#[test]
fn a_body_beyond_the_limit_is_refused() {
    let service = Service::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    std::fs::write(&file, vec![b' '; (16 << 20) + 1]).unwrap();
    // curl reads a body of this size from a file.
    let body = format!("@{}", file.display());
    let reply = service.post(Body::Raw("application/json", &body));
    assert_eq!(reply.error(), (413, "request_too_large".to_owned(), None));
}
