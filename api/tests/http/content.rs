//! The finished file, whole and in parts.

use axum::http::{Method, StatusCode};

use crate::app::TestApp;
use crate::worker::film;

async fn finished() -> (TestApp, String) {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.worker().do_one().await;
    (app, format!("/v1/videos/{id}/content"))
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
async fn only_the_video_itself_is_built() {
    let (app, path) = finished().await;
    assert_eq!(app.get(&format!("{path}?variant=video")).await.status, StatusCode::OK);
    for variant in ["thumbnail", "spritesheet"] {
        let reply = app.get(&format!("{path}?variant={variant}")).await;
        reply.refused(400, "unsupported_parameter", Some("variant"));
    }
    assert_eq!(app.get(&format!("{path}?redirect=false&variant=")).await.status, StatusCode::OK);
    app.get(&format!("{path}?redirect=true")).await.refused(400, "unsupported_parameter", Some("redirect"));
    let message = app.get(&format!("{path}?variant=poster")).await.refused(400, "invalid_value", Some("variant"));
    assert_eq!(message, "variant must be video, thumbnail or spritesheet");
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
