//! How often videos may be asked for.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use clapboard_api::{Auth, Options};
use clapboard_jobs::{ApiKey, KeyHash, Rate, Tenant};
use sha2::{Digest, Sha256};

use crate::app::{Reply, TestApp};

const HEADERS: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];

/// A service that asks for keys: ann has two of them, one with a rate of its own.
async fn guarded(requests_per_minute: Option<u32>) -> TestApp {
    let app = TestApp::start_with(Options { auth: Auth::Keys, requests_per_minute, ..Options::default() }).await;
    for (key, rate) in [("sk-usual", None), ("sk-own", Some(Rate { per_minute: 1 }))] {
        let hash = KeyHash(Sha256::digest(key).into());
        let key = ApiKey { rate, ..ApiKey::new(Tenant::default(), key) };
        app.state.store.add_key(&hash, &key).await.unwrap();
    }
    app
}

async fn post(app: &TestApp, key: &str, path: &str, body: &'static str) -> Reply {
    let request =
        Request::post(path).header("content-type", "application/json").header("authorization", format!("Bearer {key}"));
    app.send(request.body(Body::from(body)).unwrap()).await
}

async fn create(app: &TestApp, key: &str) -> Reply {
    post(app, key, "/v1/videos", r#"{"prompt": "a cat", "size": "512x288"}"#).await
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_how_long_to_wait_and_others_are_not() {
    let app = guarded(Some(2)).await;
    for remaining in ["1", "0"] {
        let reply = create(&app, "sk-usual").await;
        reply.good();
        assert_eq!((reply.header(HEADERS[0]), reply.header(HEADERS[1])), ("2", remaining));
        assert!(reply.header(HEADERS[2]).ends_with('s'), "{}", reply.header(HEADERS[2]));
        assert_eq!(reply.header("retry-after"), "");
    }
    let reply = create(&app, "sk-usual").await;
    let message = reply.refused(429, "rate_limit_exceeded", None);
    assert_eq!(message, "as many videos were asked for as may be: 2 a minute");
    assert_eq!((reply.header(HEADERS[0]), reply.header(HEADERS[1])), ("2", "0"));
    let wait_s: u64 = reply.header("retry-after").parse().unwrap();
    let wait_ms: u64 = reply.header("retry-after-ms").parse().unwrap();
    assert!((1..=30).contains(&wait_s) && wait_ms <= wait_s * 1000 && wait_ms > (wait_s - 1) * 1000, "{wait_ms}");
    assert_eq!(app.jobs().await.len(), 2);

    let reply = create(&app, "sk-own").await;
    reply.good();
    assert_eq!((reply.header(HEADERS[0]), reply.header(HEADERS[1])), ("1", "0"));
    create(&app, "sk-own").await.refused(429, "rate_limit_exceeded", None);
}

#[tokio::test]
async fn every_request_for_a_video_counts_and_looking_does_not() {
    let app = guarded(Some(3)).await;
    post(&app, "sk-own", "/v1/videos", "{}").await.refused(400, "missing_required_parameter", Some("prompt"));
    for (path, body) in [
        ("/v1/videos", r#"{"prompt": "x"}"#),
        ("/v1/videos/sync", r#"{"prompt": "x", "size": "512x288"}"#),
        ("/v1/videos/video_gen_00000000000000000000000000000000/remix", r#"{"prompt": "x"}"#),
    ] {
        post(&app, "sk-own", path, body).await.refused(429, "rate_limit_exceeded", None);
    }
    for path in ["/v1/videos", "/v1/models", "/v1/videos/video_gen_00000000000000000000000000000000"] {
        let request = Request::get(path).header("authorization", "Bearer sk-own");
        let reply = app.send(request.body(Body::empty()).unwrap()).await;
        assert_ne!(reply.status, StatusCode::TOO_MANY_REQUESTS, "{path}");
        assert_eq!(HEADERS.map(|name| reply.header(name)), [""; 3]);
    }
}

#[tokio::test]
async fn without_a_limit_nothing_is_counted_or_told() {
    let app = guarded(None).await;
    for _ in 0..5 {
        let reply = create(&app, "sk-usual").await;
        reply.good();
        assert_eq!(HEADERS.map(|name| reply.header(name)), [""; 3]);
    }
}

#[tokio::test]
async fn where_there_are_no_keys_everybody_is_counted_together() {
    let app = TestApp::start_with(Options { requests_per_minute: Some(2), ..Options::default() }).await;
    create(&app, "sk-a").await.good();
    create(&app, "sk-b").await.good();
    create(&app, "sk-c").await.refused(429, "rate_limit_exceeded", None);
}

#[tokio::test]
async fn who_has_no_key_is_not_counted() {
    let app = guarded(Some(1)).await;
    for _ in 0..3 {
        let reply = create(&app, "sk-wrong").await;
        reply.refused(401, "invalid_api_key", None);
        assert_eq!(reply.header(HEADERS[0]), "");
    }
}
