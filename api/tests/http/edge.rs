//! What holds on every path.

use axum::body::Body;
use axum::http::{Method, Request};
use clapboard_api::{AppState, Readiness, ServiceState};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::TestApp;
use crate::connections::within;

#[tokio::test]
async fn a_route_that_is_not_there_is_answered_in_the_one_shape() {
    let app = TestApp::start().await;
    for path in ["/", "/v1", "/v2/videos", "/v1/videos/", "/v1/videos/x/y"] {
        app.get(path).await.refused(404, "not_found", None);
    }
    assert_eq!(app.get("/nowhere?prompt=secret").await.error().3, "there is no route for GET /nowhere");
}

#[tokio::test]
async fn a_wrong_method_names_the_right_ones() {
    let app = TestApp::start().await;
    for (method, path, allowed) in [
        (Method::PUT, "/v1/videos", vec!["GET", "HEAD", "POST"]),
        (Method::GET, "/v1/videos/sync", vec!["POST"]),
        (Method::POST, "/v1/videos/video_gen_x", vec!["DELETE", "GET", "HEAD"]),
        (Method::POST, "/v1/videos/video_gen_x/content", vec!["GET", "HEAD"]),
        (Method::DELETE, "/health", vec!["GET", "HEAD"]),
    ] {
        let reply = app.call(method, path).await;
        reply.refused(405, "method_not_allowed", None);
        let mut allow: Vec<&str> = reply.header("allow").split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow, allowed, "{path}");
    }
}

#[tokio::test]
async fn routes_that_are_not_built_say_so_and_are_not_taken_for_ids() {
    let app = TestApp::start().await;
    for (method, path) in [
        (Method::POST, "/v1/videos/edits"),
        (Method::GET, "/v1/videos/edits"),
        (Method::POST, "/v1/videos/extensions"),
        (Method::POST, "/v1/videos/characters"),
        (Method::GET, "/v1/videos/characters/char_1"),
        (Method::GET, "/metrics"),
    ] {
        let reply = app.call(method, path).await;
        reply.refused(501, "unsupported", None);
        assert_eq!(reply.header("x-should-retry"), "false", "{path}");
    }
}

#[tokio::test]
async fn whoever_is_answered_in_the_middle_of_sending_gets_to_read_it() {
    let app = TestApp::start().await;
    let address = app.listen().await;
    let body = vec![b' '; 8 << 20];
    let unknown = "/v1/videos/video_gen_00000000000000000000000000000000";
    for (request, status, code) in [
        ("POST /v1/videos/edits".to_owned(), 501, "unsupported"),
        ("POST /v1/videos/characters".to_owned(), 501, "unsupported"),
        ("POST /v1/nowhere".to_owned(), 404, "not_found"),
        ("POST /videos".to_owned(), 404, "not_found"),
        ("PUT /v1/videos".to_owned(), 405, "method_not_allowed"),
        ("POST /v1/videos/nonsense/remix".to_owned(), 404, "not_found"),
        ("POST /v1/webhook_endpoints/nonsense".to_owned(), 404, "not_found"),
        (format!("POST {unknown}/cancel"), 404, "not_found"),
        (format!("DELETE {unknown}"), 404, "not_found"),
        ("POST /v1/videos".to_owned(), 415, "unsupported_media_type"),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: video/mp4\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(head.as_bytes()).await.unwrap();
        within(client.write_all(&body)).await.unwrap_or_else(|error| panic!("{request} was cut off: {error}"));
        let mut answer = String::new();
        within(client.read_to_string(&mut answer)).await.unwrap_or_else(|error| panic!("{request}: {error}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(code), "{request}: {answer}");
    }
}

#[tokio::test]
async fn a_good_request_id_comes_back() {
    let app = TestApp::start().await;
    assert_eq!(app.get_with("/health", &[("x-request-id", "build-42")]).await.header("x-request-id"), "build-42");
    assert_ne!(app.get_with("/nowhere", &[("x-request-id", "two words")]).await.header("x-request-id"), "two words");
}

#[tokio::test]
async fn readiness_follows_the_service_and_health_does_not() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/ready").await.good()["status"], "ready");
    app.state.readiness.set(ServiceState::Draining);
    let reply = app.get("/ready").await;
    assert_eq!(reply.refused(503, "no_capacity", None), "the service is stopping and takes no new work");
    assert_eq!(reply.header("retry-after"), "5");
    assert_eq!(app.get("/health").await.good(), json!({"status": "ok"}));
}

#[tokio::test]
async fn a_service_without_a_worker_is_ready_while_its_store_answers() {
    let app = TestApp::start().await;
    let state = AppState { readiness: Readiness::new_without_worker(), ..app.state.clone() };
    let (app, store) = app.with(state).over_faulty();
    assert_eq!(app.get("/ready").await.good()["status"], "ready");
    store.go_away();
    app.get("/ready").await.refused(503, "no_capacity", None);
    store.come_back();
    assert_eq!(app.get("/ready").await.good()["status"], "ready");
    app.state.readiness.set(ServiceState::Draining);
    app.get("/ready").await.refused(503, "no_capacity", None);
}

#[tokio::test]
async fn a_service_whose_jobs_are_gone_is_not_ready() {
    let app = TestApp::start().await;
    app.remove_jobs();
    app.get("/ready").await.refused(503, "no_capacity", None);
    app.create(json!({"prompt": "a cat", "size": "512x288"})).await.refused(503, "no_capacity", None);
}

#[tokio::test]
async fn a_service_that_starts_takes_jobs_and_one_that_stops_does_not() {
    for (state, status) in [(ServiceState::Draining, 503), (ServiceState::WorkerLost, 503)] {
        let app = TestApp::start().await;
        app.state.readiness.set(ServiceState::Starting);
        app.get("/ready").await.refused(503, "no_capacity", None);
        app.create_any().await;
        app.state.readiness.set(state);
        let reply = app.create(json!({"prompt": "a cat", "size": "512x288"})).await;
        reply.refused(status, "no_capacity", None);
        assert_eq!(app.jobs().await.len(), 1);
    }
}

#[tokio::test]
async fn a_service_that_begins_to_stop_while_a_body_comes_does_not_take_the_job() {
    let app = TestApp::start().await;
    let readiness = app.state.readiness.clone();
    let body = futures_util::stream::once(async move {
        readiness.set(ServiceState::Draining);
        Ok::<_, std::io::Error>(r#"{"prompt": "a cat", "size": "512x288"}"#)
    });
    let reply = app.post("/v1/videos", "application/json", Body::from_stream(body)).await;
    reply.refused(503, "no_capacity", None);
    assert!(app.jobs().await.is_empty());
}

#[tokio::test]
async fn a_job_store_that_cannot_be_reached_is_to_be_tried_again() {
    let (app, store) = TestApp::start_faulty().await;
    store.refuse_creates(2);
    let reply = app.create(json!({"prompt": "a cat", "size": "512x288"})).await;
    assert_eq!(reply.refused(503, "no_capacity", None), "the job store could not be reached");
    assert_eq!(reply.header("retry-after"), "5");
    assert!(app.jobs().await.is_empty());
}

#[tokio::test]
async fn a_job_of_which_nothing_was_heard_is_made_again_under_its_id() {
    let (app, store) = TestApp::start_faulty().await;
    store.refuse_creates(1);
    let id = app.create_any().await;
    assert_eq!(app.only_job().await.id.to_string(), id);
}

#[tokio::test]
async fn a_job_that_was_made_is_answered_with_whatever_else_fails() {
    let (app, store) = TestApp::start_faulty().await;
    store.lose_next_create();
    let id = app.create_any().await;
    assert_eq!(app.only_job().await.id.to_string(), id);
    assert_eq!(app.hints().await, 1);
    store.refuse_positions();
    let made = app.create(json!({"prompt": "a cat", "size": "512x288"})).await.good();
    assert_eq!((&made["status"], &made["queue_position"]), (&json!("queued"), &json!(null)));
    assert_eq!(app.jobs().await.len(), 2);
}

#[tokio::test]
async fn bodies_of_other_types_are_refused() {
    let app = TestApp::start().await;
    for content_type in
        ["text/plain", "", "application/octet-stream", "multipart/mixed; boundary=x", "application/jsonp"]
    {
        let reply = app.post("/v1/videos", content_type, "{}").await;
        let message = reply.refused(415, "unsupported_media_type", None);
        assert!(message.contains("application/json"), "{message}");
    }
    let untyped = app.send(Request::post("/v1/videos").body(Body::empty()).unwrap()).await;
    let message = untyped.refused(415, "unsupported_media_type", None);
    assert!(message.ends_with("got none"), "{message}");
    let zipped =
        Request::post("/v1/videos").header("content-type", "application/json").header("content-encoding", "gzip");
    app.send(zipped.body(Body::from("{}")).unwrap()).await.refused(415, "unsupported_media_type", None);
}

#[tokio::test]
async fn an_encoding_that_changes_nothing_is_none() {
    let app = TestApp::start().await;
    for (encoding, status) in [
        ("identity", 200),
        ("IDENTITY", 200),
        ("", 200),
        ("Identity, identity", 200),
        ("identity, gzip", 415),
        ("x", 415),
    ] {
        let request = Request::post("/v1/videos").header("content-type", "application/json");
        let request = request.header("content-encoding", encoding);
        let body = Body::from(r#"{"prompt": "a cat", "size": "512x288"}"#);
        let reply = app.send(request.body(body).unwrap()).await;
        assert_eq!(reply.status.as_u16(), status, "{encoding:?}");
    }
}
