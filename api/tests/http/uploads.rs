//! Files on their way in: how large, how slow, how many, and clients that leave.

use std::time::Duration;

use axum::body::{Body, Bytes};
use clapboard_api::Options;
use futures_util::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::app::TestApp;
use crate::connections::within;
use crate::media::{FORM, Form, data_url, files};
use crate::refusals::dripping;

type Piece = Result<Bytes, std::io::Error>;

/// A form whose last file goes on as `rest` does.
fn going_on(rest: impl Stream<Item = Piece> + Send + 'static) -> Body {
    let mut head = Form::new().file("input_reference", b"begin").open();
    head.truncate(head.len() - 2);
    Body::from_stream(stream::iter([Ok(Bytes::from(head))]).chain(rest))
}

#[tokio::test]
async fn a_form_comes_in_pieces_of_any_size() {
    let app = TestApp::start_all(Options::default()).await;
    let body = Form::new().file("input_references", &files().png).file("input_references", &files().jpeg).body();
    for piece in [1, 7, 1000, 1 << 20] {
        app.post("/v1/videos", FORM, dripping(body.clone(), piece)).await.good();
        assert_eq!(app.spooled(), 0);
    }
    let jobs = app.jobs().await;
    let digests = |at: usize| {
        let inputs = &jobs[at].spec.decode().unwrap().inputs;
        inputs.iter().map(|input| input.object.rsplit('-').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!((1..4).all(|at| digests(at) == digests(0)));
}

#[tokio::test]
async fn a_file_without_end_is_refused_by_its_field() {
    let app = TestApp::start_all(Options { drain_bytes: 1 << 20, ..Options::default() }).await;
    let endless = stream::repeat_with(|| Ok(Bytes::from(vec![0; 1 << 20])));
    let reply = within(app.post("/v1/videos", FORM, going_on(endless))).await;
    let message = reply.refused(400, "invalid_reference_media", Some("input_reference"));
    assert_eq!(message, "input_reference: the file has more than 52428800 bytes, which is as many as are accepted");
    app.until_spool_is_empty().await;
}

#[tokio::test]
async fn texts_beside_files_have_the_limit_of_texts() {
    let options = Options { max_body_bytes: 100_000, drain_bytes: 1 << 20, ..Options::default() };
    let app = TestApp::start_all(options).await;
    let long = "x".repeat(60_000);
    let form = || Form::new().text("a", &long).file("input_reference", &vec![0; 3_000_000]);
    let reply = app.post_form(form()).await;
    reply.refused(400, "invalid_reference_media", Some("input_reference"));
    let reply = app.post_form(form().text("b", &long)).await;
    assert_eq!(reply.refused(413, "request_too_large", None), "the body must have at most 100000 bytes");
    app.until_spool_is_empty().await;
}

#[tokio::test]
async fn a_head_of_a_part_without_end_is_refused() {
    let app = TestApp::start_all(Options { drain_bytes: 1 << 20, ..Options::default() }).await;
    let head = b"--xyzzy\r\nContent-Disposition: form-data; name=\"".to_vec();
    let endless = stream::repeat_with(|| Ok(Bytes::from(vec![b'x'; 1 << 16])));
    let body = Body::from_stream(stream::iter([Piece::Ok(Bytes::from(head))]).chain(endless));
    let message = within(app.post("/v1/videos", FORM, body)).await.refused(413, "request_too_large", None);
    assert_eq!(message, "the head of a part, and what stands between parts, must have at most 1048576 bytes");
}

#[tokio::test]
async fn fields_where_no_file_was_chosen_are_counted() {
    let app = TestApp::start_all(Options::default()).await;
    let empty = |count: usize| {
        let form = Form::new().file("input_reference", &files().png);
        (0..count).fold(form, |form, _| form.file_as("input_reference", "", "application/octet-stream", b""))
    };
    app.post_form(empty(900)).await.good();
    let message = app.post_form(empty(1000)).await.refused(400, "invalid_value", Some("input_reference"));
    assert_eq!(message, "a form must have at most 1000 fields");
    app.until_spool_is_empty().await;
}

#[tokio::test]
async fn a_file_that_stands_still_is_given_up() {
    let options = Options {
        upload_stall_timeout: Duration::from_millis(50),
        drain_timeout: Duration::from_secs(3600),
        ..Options::default()
    };
    let app = TestApp::start_all(options).await;
    let reply = within(app.post("/v1/videos", FORM, going_on(stream::pending()))).await;
    reply.refused(408, "request_timeout", None);
    app.until_spool_is_empty().await;
}

#[tokio::test]
async fn a_file_that_comes_too_slowly_is_given_up() {
    let options = Options {
        upload_timeout: Duration::from_millis(200),
        drain_timeout: Duration::from_millis(1),
        ..Options::default()
    };
    let app = TestApp::start_all(options).await;
    let drip = stream::repeat(()).then(async |()| {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(Bytes::from_static(b"x"))
    });
    within(app.post("/v1/videos", FORM, going_on(drip))).await.refused(408, "request_timeout", None);
    app.until_spool_is_empty().await;
}

#[tokio::test]
async fn a_file_that_drips_is_given_up_long_before_its_time_is_over() {
    let options = Options {
        upload_stall_timeout: Duration::from_millis(100),
        upload_least_bytes_per_s: 1 << 20,
        drain_timeout: Duration::from_millis(1),
        ..Options::default()
    };
    let app = TestApp::start_all(options).await;
    let drip = stream::repeat(()).then(async |()| {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(Bytes::from_static(b"x"))
    });
    let reply = within(app.post("/v1/videos", FORM, going_on(drip))).await;
    let message = reply.refused(408, "request_timeout", None);
    assert_eq!(message, "the files came with less than 1048576 bytes a second");
}

#[tokio::test]
async fn a_form_that_breaks_off_leaves_nothing() {
    let app = TestApp::start_all(Options::default()).await;
    let broken = stream::iter([Err(std::io::Error::other("gone"))]);
    app.post("/v1/videos", FORM, going_on(broken)).await.refused(400, "invalid_value", None);
    app.post("/v1/videos", FORM, going_on(stream::empty())).await.refused(400, "invalid_value", None);
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_file_leaves_nothing() {
    let app = TestApp::start_all(Options::default()).await;
    let address = app.listen().await;
    for path in ["/v1/videos", "/v1/videos/sync"] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {FORM}\r\ncontent-length: 10000000\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        let mut form = Form::new().file("input_reference", &vec![7; 1_000_000]).open();
        form.truncate(form.len() - 2);
        client.write_all(&form).await.unwrap();
        within(app.until(async || (app.spooled() == 1).then_some(()))).await;
        drop(client);
        within(app.until_spool_is_empty()).await;
    }
    assert!(app.jobs().await.is_empty());
}

#[tokio::test]
async fn only_so_many_long_texts_are_held_at_once() {
    let options = Options { max_large_bodies: 1, capacity_wait: Duration::from_millis(50), ..Options::default() };
    let app = TestApp::start_all(options).await;
    let long = || stream::iter([Ok(Bytes::from(vec![b' '; 2 << 20]))]);
    let held = app.post("/v1/videos", "application/json", Body::from_stream(long().chain(stream::pending::<Piece>())));
    let mut held = std::pin::pin!(held);
    let refused = async {
        loop {
            let reply = app.post("/v1/videos", "application/json", Body::from_stream(long())).await;
            if reply.status == 503 {
                return reply;
            }
        }
    };
    let reply = tokio::select! {
        reply = within(refused) => reply,
        _ = &mut held => panic!("a body that does not end was answered"),
    };
    reply.refused(503, "no_capacity", None);
    // Short texts need no such room.
    app.create(json!({"prompt": "a cat", "size": "512x288"})).await.good();
}

#[tokio::test]
async fn a_data_url_of_many_megabytes_fits() {
    let app = TestApp::start_all(Options::default()).await;
    let bytes = vec![7; 11 << 20];
    let body = json!({"prompt": "a cat", "video_reference": {"video_url": data_url("video/mp4", &bytes)}});
    app.create(body).await.refused(400, "invalid_reference_media", Some("video_reference.video_url"));
    app.until_spool_is_empty().await;
}
