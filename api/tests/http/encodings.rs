//! The same request in the encodings of real clients.

use serde_json::{Value, json};

use crate::app::TestApp;
use crate::refusals::dripping;

/// As openai-python sends `client.videos.create(...)`: always multipart, a boundary of 32 hex digits, scalars as texts,
/// `extra_body` flattened into brackets.
const PYTHON: &str = "--0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"prompt\"\r\n\r\n\
    a cat, d\u{f6}sing \u{732b}\r\n\
    --0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"model\"\r\n\r\n\
    sora-2\r\n\
    --0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"seconds\"\r\n\r\n\
    8\r\n\
    --0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"size\"\r\n\r\n\
    1280x720\r\n\
    --0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"seed\"\r\n\r\n\
    7\r\n\
    --0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"flow_shift\"\r\n\r\n\
    5.0\r\n\
    --0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"extra_params[task]\"\r\n\r\n\
    t2va\r\n\
    --0123456789abcdef0123456789abcdef\r\n\
    Content-Disposition: form-data; name=\"extra_params[audio_flow_shift]\"\r\n\r\n\
    2.5\r\n\
    --0123456789abcdef0123456789abcdef--\r\n";

/// As openai-node sends it through undici, with its own boundary and JSON text for the object.
const NODE: &str = "------formdata-undici-012345678901\r\n\
    Content-Disposition: form-data; name=\"prompt\"\r\n\r\n\
    a cat, d\u{f6}sing \u{732b}\r\n\
    ------formdata-undici-012345678901\r\n\
    Content-Disposition: form-data; name=\"model\"\r\n\r\n\
    sora-2\r\n\
    ------formdata-undici-012345678901\r\n\
    Content-Disposition: form-data; name=\"seconds\"\r\n\r\n\
    8\r\n\
    ------formdata-undici-012345678901\r\n\
    Content-Disposition: form-data; name=\"size\"\r\n\r\n\
    1280x720\r\n\
    ------formdata-undici-012345678901\r\n\
    Content-Disposition: form-data; name=\"seed\"\r\n\r\n\
    7\r\n\
    ------formdata-undici-012345678901\r\n\
    Content-Disposition: form-data; name=\"flow_shift\"\r\n\r\n\
    5\r\n\
    ------formdata-undici-012345678901\r\n\
    Content-Disposition: form-data; name=\"extra_params\"\r\n\r\n\
    {\"task\": \"t2va\", \"audio_flow_shift\": 2.5}\r\n\
    ------formdata-undici-012345678901--\r\n\r\n";

const URLENCODED: &str = "prompt=a+cat%2C+d%C3%B6sing+%E7%8C%AB&model=sora-2&seconds=8&size=1280x720&seed=7&flow_shift=5\
    &extra_params%5Btask%5D=t2va&extra_params[audio_flow_shift]=2.5&negative_prompt=";

fn as_json() -> Value {
    json!({
        "prompt": "a cat, d\u{f6}sing \u{732b}", "model": "sora-2", "seconds": 8, "size": "1280x720", "seed": 7,
        "flow_shift": 5, "extra_params": {"task": "t2va", "audio_flow_shift": 2.5}, "negative_prompt": null
    })
}

#[tokio::test]
async fn every_encoding_makes_the_same_job_however_its_bytes_come() {
    let app = TestApp::start().await;
    let python = "multipart/form-data; boundary=0123456789abcdef0123456789abcdef";
    let node = "multipart/form-data; boundary=----formdata-undici-012345678901";
    let bodies = [
        ("application/json; charset=utf-8", as_json().to_string()),
        (python, PYTHON.to_owned()),
        (node, NODE.to_owned()),
        ("application/x-www-form-urlencoded", URLENCODED.to_owned()),
    ];
    for (content_type, body) in &bodies {
        for piece in [1, 7, 1 << 20] {
            let reply = app.post("/v1/videos", content_type, dripping(body.clone().into_bytes(), piece)).await;
            assert_eq!(reply.good()["status"], "queued");
            assert_eq!(reply.header("x-ignored-fields"), "");
        }
    }
    let jobs = app.jobs().await;
    assert_eq!(jobs.len(), 12);
    assert!(jobs.iter().all(|job| job.spec == jobs[0].spec && job.model == "sora-2"));
    let spec = jobs[0].spec.decode().unwrap();
    assert_eq!(spec.prompt, "a cat, d\u{f6}sing \u{732b}");
    assert_eq!((spec.canvas.to_string().as_str(), spec.num_frames.get(), spec.seed), ("1280x704", 192, 7));
}

#[tokio::test]
async fn a_field_given_twice_is_not_guessed_at() {
    let app = TestApp::start().await;
    let reply = app.post("/v1/videos", "application/x-www-form-urlencoded", "prompt=a&prompt=b&size=512x288").await;
    assert_eq!(reply.refused(400, "invalid_value", Some("prompt")), "prompt must be given once, as a text");
}

#[tokio::test]
async fn a_field_without_a_name_is_refused_and_not_reported_as_nothing() {
    let app = TestApp::start().await;
    let multipart = "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na cat\r\n\
        --b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n1\r\n--b--\r\n";
    for (content_type, body) in [
        ("multipart/form-data; boundary=b", multipart),
        ("application/x-www-form-urlencoded", "prompt=a&size=512x288&=1"),
        ("application/x-www-form-urlencoded", "prompt=a&size=512x288&+=1"),
        ("application/json", r#"{"prompt": "a", "size": "512x288", "": 1}"#),
    ] {
        let message = app.post("/v1/videos", content_type, body).await.refused(400, "invalid_value", None);
        assert_eq!(message, "each field and parameter must have a name", "{content_type} {body}");
    }
    // A name without a text is a field that is absent, whatever its name.
    let reply = app.post("/v1/videos", "application/x-www-form-urlencoded", "prompt=a&size=512x288&=").await;
    assert_eq!((reply.good()["status"].as_str(), reply.headers.get("x-ignored-fields")), (Some("queued"), None));
}
