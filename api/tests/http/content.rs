//! The finished file, whole and in parts.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use clapboard_api::{AppState, Options};
use clapboard_jobs::blob::{ObjectInfo, Opened, Put};
use clapboard_jobs::{Blob, BlobError, BlobKey, Policy};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::TestApp;
use crate::connections::within;
use crate::worker::film;

async fn finished() -> (TestApp, String) {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.worker().do_one().await;
    (app, format!("/v1/videos/{id}/content"))
}

#[tokio::test]
async fn an_unknown_parameter_is_reported_and_refused_only_on_demand() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.worker().do_one().await;
    let path = format!("/v1/videos/{id}/content?variants=thumbnail");
    for method in [Method::GET, Method::HEAD] {
        let reply = app.call(method.clone(), &path).await;
        assert_eq!((reply.status, reply.header("x-ignored-fields")), (StatusCode::OK, "variants"), "{method}");
    }
    let strict = app.get_with(&path, &[("x-strict", "1")]).await;
    strict.refused(400, "unknown_parameter", Some("variants"));
}

#[tokio::test]
async fn the_whole_file_comes_with_all_that_a_client_may_ask_about() {
    let (app, path) = finished().await;
    let reply = app.get_with(&path, &[("accept", "application/binary")]).await;
    assert_eq!((reply.status, &reply.body), (StatusCode::OK, &film()));
    assert_eq!(reply.header("content-type"), "video/mp4");
    assert_eq!(reply.header("content-length"), "1000");
    assert_eq!(reply.header("accept-ranges"), "bytes");
    assert_eq!(reply.header("last-modified"), "Mon, 24 Nov 2025 16:00:00 GMT");
    let job = app.only_job().await;
    assert_eq!(reply.header("etag"), format!("\"{}\"", job.result.unwrap().sha256));
    assert_eq!(reply.header("content-disposition"), format!("attachment; filename=\"{}.mp4\"", job.id));
}

#[tokio::test]
async fn head_is_get_without_the_bytes() {
    let (app, path) = finished().await;
    let get = app.get(&path).await;
    let head = app.call(Method::HEAD, &path).await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
    for name in ["content-type", "content-length", "accept-ranges", "etag", "last-modified", "content-disposition"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
}

/// Asks over a socket, and returns the whole answer in lower case.
async fn asked(address: SocketAddr, method: &str, path: &str, header: &str) -> String {
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within(client.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).to_ascii_lowercase()
}

#[tokio::test]
async fn an_answer_without_a_body_does_not_say_that_the_file_is_empty() {
    let (app, path) = finished().await;
    let etag = app.get(&path).await.header("etag").to_owned();
    let events = path.replace("/content", "/events");
    let stream = String::from_utf8(app.get(&events).await.body).unwrap();
    let last = stream.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let address = app.listen().await;
    for method in ["GET", "HEAD"] {
        for (path, header, status) in [
            (&path, format!("if-none-match: {etag}"), 304),
            (&path, "if-modified-since: Mon, 24 Nov 2025 16:00:00 GMT".to_owned(), 304),
            (&events, format!("last-event-id: {last}"), 204),
        ] {
            let answer = asked(address, method, path, &header).await;
            assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{method} {answer}");
            assert!(!answer.contains("content-length"), "{method} {answer}");
            assert!(answer.ends_with("\r\n\r\n"), "{method} {answer}");
        }
    }
    let whole = asked(address, "HEAD", &path, "accept: */*").await;
    assert!(whole.starts_with("http/1.1 200 ") && whole.contains("\r\ncontent-length: 1000\r\n"), "{whole}");
    // Elsewhere it is the length of what GET would bring.
    for path in ["/health", "/v1/videos", "/v1/videos/x"] {
        let head = asked(address, "HEAD", path, "accept: */*").await;
        let get = asked(address, "GET", path, "accept: */*").await;
        let length = format!("\r\ncontent-length: {}\r\n", get.split_once("\r\n\r\n").unwrap().1.len());
        assert!(get.contains(&length) && head.contains(&length) && head.ends_with("\r\n\r\n"), "{path} {head} {get}");
    }
}

#[tokio::test]
async fn parts_are_served_and_named() {
    let (app, path) = finished().await;
    for (range, bytes, content_range) in [
        ("bytes=0-0", 0..1, "bytes 0-0/1000"),
        ("bytes=10-19", 10..20, "bytes 10-19/1000"),
        ("bytes=990-", 990..1000, "bytes 990-999/1000"),
        ("bytes=-7", 993..1000, "bytes 993-999/1000"),
        ("bytes=500-5000", 500..1000, "bytes 500-999/1000"),
    ] {
        let reply = app.get_with(&path, &[("range", range)]).await;
        assert_eq!(reply.status, StatusCode::PARTIAL_CONTENT, "{range}");
        assert_eq!(reply.header("content-range"), content_range);
        assert_eq!(reply.header("content-length"), bytes.len().to_string());
        assert_eq!(reply.body, film()[bytes]);
    }
}

#[tokio::test]
async fn a_range_behind_the_end_is_refused_with_the_length() {
    let (app, path) = finished().await;
    let reply = app.get_with(&path, &[("range", "bytes=1000-")]).await;
    assert_eq!(
        reply.refused(416, "range_not_satisfiable", Some("Range")),
        "the range is not within the file, which has 1000 bytes"
    );
    assert_eq!(reply.header("content-range"), "bytes */1000");
}

#[tokio::test]
async fn several_ranges_are_answered_with_the_whole() {
    let (app, path) = finished().await;
    let reply = app.get_with(&path, &[("range", "bytes=0-1,5-6")]).await;
    assert_eq!((reply.status, reply.body.len()), (StatusCode::OK, 1000));
}

#[tokio::test]
async fn who_has_the_file_gets_no_bytes() {
    let (app, path) = finished().await;
    let etag = app.get(&path).await.header("etag").to_owned();
    for headers in [[("if-none-match", etag.as_str())], [("if-modified-since", "Mon, 24 Nov 2025 16:00:00 GMT")]] {
        let reply = app.get_with(&path, &headers).await;
        assert_eq!((reply.status, reply.body.len()), (StatusCode::NOT_MODIFIED, 0));
        assert_eq!(reply.header("etag"), etag);
    }
    let resumed = app.get_with(&path, &[("range", "bytes=5-"), ("if-range", &etag)]).await;
    assert_eq!(resumed.status, StatusCode::PARTIAL_CONTENT);
    let stale = app.get_with(&path, &[("range", "bytes=5-"), ("if-range", "\"other\"")]).await;
    assert_eq!((stale.status, stale.body.len()), (StatusCode::OK, 1000));
}

#[tokio::test]
async fn the_words_of_a_download_are_checked() {
    let (app, path) = finished().await;
    assert_eq!(app.get(&format!("{path}?variant=video")).await.status, StatusCode::OK);
    assert_eq!(app.get(&format!("{path}?redirect=false&variant=")).await.status, StatusCode::OK);
    let message = app.get(&format!("{path}?redirect=maybe")).await.refused(400, "invalid_value", Some("redirect"));
    assert_eq!(message, "redirect must be true or false");
    assert_eq!(app.call(Method::HEAD, &format!("{path}?variant=poster")).await.status, StatusCode::BAD_REQUEST);
}

/// A real media store that has addresses for everybody besides.
struct Linked(Arc<dyn Blob>);

/// What an address looks like; nothing is there.
fn address(key: &BlobKey, life: Duration, file_name: &str) -> String {
    format!("https://media.example/{key}?expires={}&name={file_name}", life.as_secs())
}

#[async_trait]
impl Blob for Linked {
    async fn put_file(&self, key: &BlobKey, file: &Path, moved: &(dyn Fn() + Send + Sync)) -> Result<Put, BlobError> {
        self.0.put_file(key, file, moved).await
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError> {
        self.0.head(key).await
    }

    async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError> {
        self.0.open(key, range).await
    }

    async fn link(&self, key: &BlobKey, life: Duration, file_name: &str) -> Result<Option<String>, BlobError> {
        Ok(Some(address(key, life, file_name)))
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        self.0.delete(key).await
    }

    async fn list(&self, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Result<Vec<ObjectInfo>, BlobError> {
        self.0.list(prefix, after, limit).await
    }
}

/// A finished video in a media store that has addresses.
async fn finished_elsewhere(options: Options) -> (TestApp, String) {
    let app = TestApp::start_with(options).await;
    let blob = Arc::new(Linked(Arc::clone(&app.state.blob)));
    let state = AppState { blob, ..app.state.clone() };
    let app = app.with(state);
    let id = app.create_any().await;
    app.worker().do_one().await;
    (app, format!("/v1/videos/{id}/content"))
}

#[tokio::test]
async fn who_asks_for_a_redirect_is_sent_to_the_media_store_for_a_while() {
    let (app, path) = finished_elsewhere(Options::default()).await;
    let job = app.only_job().await;
    let key = job.result.unwrap().key;
    for word in ["true", "1"] {
        let reply = app.get_with(&format!("{path}?redirect={word}"), &[("range", "bytes=0-1")]).await;
        assert_eq!((reply.status, reply.body.len()), (StatusCode::TEMPORARY_REDIRECT, 0));
        let expected = address(&key, Duration::from_secs(300), &format!("{}.mp4", job.id));
        assert_eq!(reply.header("location"), expected);
        assert_eq!(reply.header("cache-control"), "no-store");
    }
    assert_eq!(app.get(&path).await.body, film());
    let head = app.call(Method::HEAD, &format!("{path}?redirect=true")).await;
    assert_eq!((head.status, head.header("content-length")), (StatusCode::OK, "1000"));
    let etag = app.get(&path).await.header("etag").to_owned();
    let known = app.get_with(&format!("{path}?redirect=true"), &[("if-none-match", &etag)]).await;
    assert_eq!(known.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn a_service_may_send_everybody_on_who_does_not_object() {
    let (app, path) = finished_elsewhere(Options { redirect_content: true, ..Options::default() }).await;
    assert_eq!(app.get(&path).await.status, StatusCode::TEMPORARY_REDIRECT);
    let here = app.get(&format!("{path}?redirect=false")).await;
    assert_eq!((here.status, here.body), (StatusCode::OK, film()));
}

#[tokio::test]
async fn a_media_store_without_addresses_is_read_for_the_client() {
    let (app, path) = finished().await;
    let reply = app.get(&format!("{path}?redirect=true")).await;
    assert_eq!((reply.status, reply.body), (StatusCode::OK, film()));
}

#[tokio::test]
async fn a_redirect_is_for_videos_that_are_finished() {
    let (app, _) = finished_elsewhere(Options::default()).await;
    let id = app.create_any().await;
    let reply = app.get(&format!("/v1/videos/{id}/content?redirect=true")).await;
    reply.refused(404, "video_not_ready", Some("video_id"));
}

#[tokio::test]
async fn a_file_that_was_kept_long_enough_is_gone_and_its_video_is_not() {
    let life = Duration::from_secs(3600);
    let policy = Policy { result_life: Some(life), ..Policy::default() };
    let app = TestApp::start_under(Options::default(), policy).await;
    let id = app.create_any().await;
    let path = format!("/v1/videos/{id}");
    assert_eq!(app.get(&path).await.good()["expires_at"], Value::Null);
    app.worker().do_one().await;
    let completed = app.get(&path).await.good();
    let expires_at = completed["completed_at"].as_i64().unwrap() + 3600;
    assert_eq!(completed["expires_at"], expires_at);
    assert_eq!(app.get(&format!("{path}/content")).await.body, film());

    app.clock.advance(life);
    assert_eq!(app.state.store.expire_results(10).await.unwrap(), [id.parse().unwrap()]);
    let seen = app.get(&path).await.good();
    assert_eq!((&seen["status"], &seen["progress"]), (&json!("completed"), &json!(100)));
    assert_eq!((&seen["expires_at"], &seen["file_name"]), (&json!(expires_at), &Value::Null));
    assert_eq!(app.get("/v1/videos?status=completed").await.good()["data"][0]["id"], id);
    for query in ["", "?redirect=true"] {
        let reply = app.get(&format!("{path}/content{query}")).await;
        reply.refused(410, "video_expired", Some("video_id"));
    }
    assert_eq!(app.call(Method::HEAD, &format!("{path}/content")).await.status, StatusCode::GONE);
    app.call(Method::DELETE, &path).await.good();
}

#[tokio::test]
async fn a_file_that_is_not_as_long_as_it_was_is_not_served() {
    let (app, path) = finished().await;
    let job = app.only_job().await;
    for bytes in [&film()[..999], &[film(), vec![0]].concat(), b""] {
        app.spoil(&job, bytes);
        for range in ["", "bytes=0-0", "bytes=990-999", "bytes=-1", "bytes=0-"] {
            app.get_with(&path, &[("range", range)]).await.refused(500, "internal_error", None);
        }
        assert_eq!(app.call(Method::HEAD, &path).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    }
    app.spoil(&job, &film());
    assert_eq!(app.get(&path).await.body, film());
}
