//! Requests that break a rule: each is answered by name, and nothing is left behind.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use clapboard_api::Options;
use futures_util::stream;
use serde_json::{Value, json};

use crate::app::{Reply, TestApp};
use crate::connections::within;

/// A request that would be accepted, with some fields changed.
fn with(changes: Value) -> Value {
    let mut fields = json!({"prompt": "a cat", "size": "512x288", "seconds": "4"});
    for (name, value) in changes.as_object().unwrap() {
        fields[name] = value.clone();
    }
    fields
}

#[tokio::test]
async fn every_rule_of_text_to_video_is_named_at_once_on_both_routes() {
    let app = TestApp::start().await;
    for (changes, code, param) in [
        (json!({"prompt": null}), "missing_required_parameter", "prompt"),
        (json!({"prompt": ""}), "missing_required_parameter", "prompt"),
        (json!({"prompt": "x".repeat(7001)}), "string_above_max_length", "prompt"),
        (json!({"prompt": "<|image_pad|>"}), "invalid_value", "prompt"),
        (json!({"prompt": 7}), "invalid_value", "prompt"),
        (json!({"size": null}), "missing_required_parameter", "aspect_ratio"),
        (json!({"size": null, "width": 512, "height": 288}), "missing_required_parameter", "aspect_ratio"),
        (json!({"size": null, "aspect_ratio": "adaptive"}), "invalid_aspect_ratio", "aspect_ratio"),
        (json!({"size": null, "aspect_ratio": "auto"}), "invalid_aspect_ratio", "aspect_ratio"),
        (json!({"size": null, "aspect_ratio": "2:1"}), "invalid_aspect_ratio", "aspect_ratio"),
        (json!({"size": "big"}), "invalid_value", "size"),
        (json!({"size": "512X288"}), "invalid_value", "size"),
        (json!({"size": "2048x2048"}), "invalid_size", "size"),
        (json!({"size": "31x512"}), "invalid_size", "size"),
        (json!({"size": "1024x64"}), "invalid_size", "size"),
        (json!({"short_edge": 512}), "invalid_value", "short_edge"),
        (json!({"seconds": "3"}), "invalid_duration", "seconds"),
        (json!({"seconds": "16"}), "invalid_duration", "seconds"),
        (json!({"seconds": "4.5"}), "invalid_value", "seconds"),
        (json!({"seconds": "abc"}), "invalid_value", "seconds"),
        (json!({"extra_params": {"duration": 3.99}}), "invalid_duration", "extra_params.duration"),
        (json!({"extra_params": {"duration": "nan"}}), "invalid_duration", "extra_params.duration"),
        (json!({"seconds": null, "num_frames": 10}), "invalid_duration", "num_frames"),
        (json!({"fps": 24.9}), "invalid_fps", "fps"),
        (json!({"fps": 30}), "invalid_fps", "fps"),
        (json!({"num_inference_steps": 1}), "invalid_value", "num_inference_steps"),
        (json!({"num_inference_steps": 201}), "invalid_value", "num_inference_steps"),
        (json!({"flow_shift": "inf"}), "invalid_value", "flow_shift"),
        (json!({"flow_shift": "nan"}), "invalid_value", "flow_shift"),
        (json!({"flow_shift": 0}), "invalid_value", "flow_shift"),
        (json!({"extra_params": {"audio_flow_shift": -1}}), "invalid_value", "extra_params.audio_flow_shift"),
        (json!({"seed": "9223372036854775808"}), "invalid_value", "seed"),
        (json!({"quality": "best"}), "invalid_value", "quality"),
        (json!({"recipe": "soup"}), "invalid_value", "recipe"),
        (json!({"model": "gpt-5"}), "model_not_found", "model"),
        (json!({"priority": "high"}), "invalid_value", "priority"),
        (json!({"priority": 1}), "invalid_value", "priority"),
        (json!({"start_deadline_s": 0}), "invalid_value", "start_deadline_s"),
        (json!({"start_deadline_s": -1}), "invalid_value", "start_deadline_s"),
        (json!({"start_deadline_s": 604_801}), "invalid_value", "start_deadline_s"),
        (json!({"start_deadline_s": "nan"}), "invalid_value", "start_deadline_s"),
        (json!({"start_deadline_s": "soon"}), "invalid_value", "start_deadline_s"),
        (json!({"extra_params": {"task": "t2v"}}), "unsupported_task", "extra_params.task"),
        (json!({"extra_params": {"task": "ref2va"}}), "unsupported_task", "extra_params.task"),
        (json!({"extra_params": "{"}), "invalid_json", "extra_params"),
        (json!({"lora": {"name": "x", "path": "/etc"}}), "unsupported_parameter", "lora"),
        (json!({"webhook_url": "http://a.example/"}), "invalid_webhook_url", "webhook_url"),
        (json!({"webhook_url": "https://169.254.169.254/"}), "webhook_url_forbidden", "webhook_url"),
        (json!({"extra_params": {"webhook_url": "x"}}), "invalid_webhook_url", "extra_params.webhook_url"),
        (json!({"webhook_events": ["video.failed"]}), "invalid_value", "webhook_events"),
        (json!({"metadata": {"k": "x".repeat(513)}}), "invalid_value", "metadata"),
        (json!({"expires_after": 3599}), "invalid_value", "expires_after"),
        (
            json!({"expires_after": {"anchor": "created_at", "seconds": 3600}}),
            "unsupported_parameter",
            "expires_after.anchor",
        ),
        (json!({"user": "x".repeat(257)}), "string_above_max_length", "user"),
        (json!({"extra_params": {"long_video": true}}), "unsupported_parameter", "extra_params.long_video"),
        (json!({"audio_reference": {"audio_url": "file:///a"}}), "invalid_reference_url", "audio_reference.audio_url"),
        (json!({"audio_reference": "x"}), "invalid_json", "audio_reference"),
        (
            json!({"image_reference": {"image_url": "https://a.example"}, "extra_params": {"task": "t2va"}}),
            "invalid_reference_combination",
            "image_reference",
        ),
        (json!({"extra_params": {"task": "fl2va"}}), "invalid_reference_combination", "image_reference"),
        (json!({"extra_params": {"frame_index": 0}}), "invalid_value", "frame_indices"),
    ] {
        for path in ["/v1/videos", "/v1/videos/sync"] {
            let body = with(changes.clone()).to_string();
            let reply = app.post(path, "application/json", body).await;
            reply.refused(400, code, Some(param));
        }
    }
    assert!(app.jobs().await.is_empty());
    assert_eq!(app.hints().await, 0);
}

#[tokio::test]
async fn texts_that_people_read_are_kept() {
    let app = TestApp::start().await;
    let no_ratio = app.create(json!({"prompt": "a cat", "width": 512, "height": 288})).await;
    let message = no_ratio.error().3;
    let (known, more) = message.split_once("; ").unwrap();
    assert_eq!(known, "t2va requires an explicit aspect_ratio");
    assert_eq!(more, "a video from text alone needs size, WIDTHxHEIGHT in pixels, or aspect_ratio, such as 16:9");
    let model = app.create(with(json!({"model": "gpt-5"}))).await;
    assert_eq!(model.error().3, "the model \"gpt-5\" is not served here, which serves \"MiniMax-H3\"");
}

#[tokio::test]
async fn a_long_text_is_not_quoted_back_whole() {
    let app = TestApp::start().await;
    for field in ["size", "aspect_ratio", "quality"] {
        let reply = app.create(with(json!({field: "\u{732b}".repeat(100_000)}))).await;
        let (status, _, param, message) = reply.error();
        assert_eq!((status, param.as_deref()), (400, Some(field)));
        assert_eq!(message.chars().count(), 1001, "{field}");
    }
}

#[tokio::test]
async fn every_name_of_the_model_is_known_and_echoed() {
    let app = TestApp::start().await;
    for model in ["MiniMax-H3", "sora-2", "sora-2-pro", "minimax-h3", "MiniMaxAI/MiniMax-H3"] {
        assert_eq!(app.create(with(json!({"model": model}))).await.good()["model"], model);
    }
}

#[tokio::test]
async fn an_unknown_field_is_reported_and_refused_only_on_demand() {
    let app = TestApp::start().await;
    let fields = with(json!({"foo": 1, "extra_params": {"bar": 2}}));
    let reply = app.create(fields.clone()).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("x-ignored-fields"), "foo, extra_params.bar");
    assert_eq!(app.create(with(json!({}))).await.header("x-ignored-fields"), "");

    let strict = Request::post("/v1/videos").header("content-type", "application/json").header("x-strict", "1");
    let reply = app.send(strict.body(Body::from(fields.to_string())).unwrap()).await;
    assert_eq!(reply.refused(400, "unknown_parameter", Some("foo")), "foo is not a parameter");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_in_every_encoding() {
    let app = TestApp::start_with(Options { max_body_bytes: 10_000, ..Options::default() }).await;
    let long = "x".repeat(20_000);
    let multipart = format!("--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n{long}\r\n--b--\r\n");
    for (content_type, body) in [
        ("application/json", format!("{{\"prompt\": \"{long}\"}}")),
        ("application/x-www-form-urlencoded", format!("prompt={long}")),
        ("multipart/form-data; boundary=b", multipart),
    ] {
        for body in [Body::from(body.clone()), dripping(body.into_bytes(), 1000)] {
            let reply = app.post("/v1/videos", content_type, body).await;
            assert_eq!(reply.refused(413, "request_too_large", None), "the body must have at most 10000 bytes");
        }
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let options = Options { max_body_bytes: 10_000, drain_bytes: 1 << 20, ..Options::default() };
    let app = TestApp::start_with(options).await;
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 1000]));
    let reply = app.post("/v1/videos", "application/json", Body::from_stream(endless)).await;
    reply.refused(413, "request_too_large", None);
}

#[tokio::test]
async fn a_body_that_never_comes_is_given_up() {
    let options = Options {
        body_timeout: Duration::from_millis(20),
        drain_timeout: Duration::from_secs(3600),
        ..Options::default()
    };
    let app = TestApp::start_with(options).await;
    let silent = Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let reply = within(app.post("/v1/videos", "application/json", silent)).await;
    reply.refused(408, "request_timeout", None);
    assert_eq!(reply.header("x-should-retry"), "false");
}

#[tokio::test]
async fn a_file_where_none_is_taken_is_refused_before_its_bytes_are_read() {
    let options = Options { max_body_bytes: 10_000, drain_bytes: 1 << 20, ..Options::default() };
    let app = TestApp::start_with(options).await;
    let head = b"--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na cat\r\n--b\r\n\
        Content-Disposition: form-data; name=\"source_video\"; filename=\"upload\"\r\n\
        Content-Type: application/octet-stream\r\n\r\n"
        .to_vec();
    // A file without end, in chunks larger than the limit of the fields.
    let file = stream::repeat_with(|| Ok::<_, std::io::Error>(vec![0; 20_000]));
    let body = stream::StreamExt::chain(stream::iter([Ok(head)]), file);
    let reply = app.post("/v1/videos", "multipart/form-data; boundary=b", Body::from_stream(body)).await;
    let message = reply.refused(400, "unsupported_parameter", Some("source_video"));
    assert!(message.contains("not supported yet"), "{message}");
}

#[tokio::test]
async fn broken_multipart_bodies_are_told_what_is_wrong() {
    let app = TestApp::start().await;
    let part = |disposition: &str, text: &str| format!("--b\r\nContent-Disposition: {disposition}\r\n\r\n{text}\r\n");
    let whole = part("form-data; name=\"prompt\"", "a cat");
    for body in [
        String::new(),
        "--b\r\n".to_owned(),
        "no boundary at all".to_owned(),
        whole.clone(),
        whole[..whole.len() - 4].to_owned(),
        format!("{}--b--\r\n", part("form-data", "a cat")),
        "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n".to_owned(),
    ] {
        let message = broken(&app.post("/v1/videos", "multipart/form-data; boundary=b", body).await);
        assert!(message.starts_with("the multipart body is broken: "), "{message}");
    }
    let message = broken(&app.post("/v1/videos", "multipart/form-data", whole).await);
    assert_eq!(message, "the multipart body is broken: the content type names no boundary");
    assert!(app.jobs().await.is_empty());
}

#[track_caller]
fn broken(reply: &Reply) -> String {
    reply.refused(400, "invalid_value", None)
}

#[tokio::test]
async fn texts_that_are_not_utf_8_are_refused_in_every_encoding() {
    let app = TestApp::start().await;
    let multipart = b"--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n\xff\xfe\r\n--b--\r\n".to_vec();
    app.post("/v1/videos", "multipart/form-data; boundary=b", multipart).await.refused(
        400,
        "invalid_value",
        Some("prompt"),
    );
    let form = app.post("/v1/videos", "application/x-www-form-urlencoded", "prompt=%ff").await;
    form.refused(400, "invalid_value", Some("prompt"));
    let json = app.post("/v1/videos", "application/json", b"{\"prompt\": \"\xff\"}".to_vec()).await;
    json.refused(400, "invalid_json", None);
}

#[tokio::test]
async fn a_key_given_twice_in_json_is_not_guessed_at() {
    let app = TestApp::start().await;
    let body = r#"{"prompt": "a cat", "size": "512x288", "seed": 1, "seed": 2}"#;
    let reply = app.post("/v1/videos", "application/json", body).await;
    assert_eq!(reply.refused(400, "invalid_value", Some("seed")), "seed must be given once");
    let body = "prompt=a+cat&size=512x288&extra_params={\"seed\":1,\"seed\":2}";
    let reply = app.post("/v1/videos", "application/x-www-form-urlencoded", body).await;
    reply.refused(400, "invalid_value", Some("extra_params.seed"));
    assert!(app.jobs().await.is_empty());
}

#[tokio::test]
async fn a_seed_beyond_64_bits_is_refused_and_not_cut() {
    let app = TestApp::start().await;
    for seed in ["-9223372036854775809", "9223372036854775808", "18446744073709551616", "-1e30"] {
        for seed in [seed.to_owned(), format!("\"{seed}\"")] {
            let body = format!(r#"{{"prompt": "a cat", "size": "512x288", "seed": {seed}}}"#);
            app.post("/v1/videos", "application/json", body).await.refused(400, "invalid_value", Some("seed"));
        }
    }
    let body = r#"{"prompt": "a cat", "size": "512x288", "seed": -9223372036854775808}"#;
    assert_eq!(app.post("/v1/videos", "application/json", body).await.good()["seed"], i64::MIN);
}

/// A body that comes in small pieces.
pub(crate) fn dripping(bytes: Vec<u8>, piece: usize) -> Body {
    let pieces: Vec<Result<Vec<u8>, std::io::Error>> = bytes.chunks(piece).map(|piece| Ok(piece.to_vec())).collect();
    Body::from_stream(stream::iter(pieces))
}
