//! Requests that want what others have: room for files, and turns to look into them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use clapboard_api::{AppState, Auth, Options};
use clapboard_h3::{ModelProfile, Partition};
use clapboard_jobs::{ApiKey, KeyHash};
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::app::{Reply, TestApp};
use crate::connections::within;
use crate::media::{FORM, Form, files};
use crate::slow::HangingTools;

/// A wait that every test can sit out.
const SOON: Duration = Duration::from_millis(50);

/// A client that has sent the beginning of a file, and no more.
async fn holding(app: &TestApp, key: &str) -> TcpStream {
    let spooled = app.spooled();
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    let head = format!(
        "POST /v1/videos HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: {FORM}\r\n\
         content-length: 10000000\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&Form::new().file("input_reference", &vec![7; 1 << 20]).open()).await.unwrap();
    within(app.until(async || (app.spooled() > spooled).then_some(()))).await;
    client
}

async fn post_as(app: &TestApp, key: &str) -> Reply {
    let request =
        Request::post("/v1/videos").header("content-type", FORM).header("authorization", format!("Bearer {key}"));
    let body = Form::new().file("input_reference", &files().png).body();
    app.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn only_so_many_requests_bring_files_at_once() {
    let options = Options { max_uploads: 1, capacity_wait: SOON, ..Options::default() };
    let app = TestApp::start_all(options).await;
    let first = holding(&app, "any").await;
    let form = Form::new().file("input_reference", &files().png);
    let reply = app.post_form(form.clone()).await;
    reply.refused(503, "no_capacity", None);
    assert_eq!(reply.header("retry-after"), "5");
    app.create(json!({"prompt": "a cat", "size": "512x288"})).await.good();
    drop(first);
    within(app.until_spool_is_empty()).await;
    within(app.until(async || (app.post_form(form.clone()).await.status == 200).then_some(()))).await;
}

#[tokio::test]
async fn a_tenant_that_holds_its_share_leaves_the_rest_to_others() {
    let options = Options {
        auth: Auth::Keys,
        max_uploads: 2,
        max_uploads_per_tenant: 1,
        capacity_wait: SOON,
        ..Options::default()
    };
    let app = TestApp::start_all(options).await;
    for name in ["ann", "bob"] {
        let hash = KeyHash(Sha256::digest(name).into());
        app.state.store.add_key(&hash, &ApiKey::new(name.parse().unwrap(), "test")).await.unwrap();
    }
    let held = holding(&app, "ann").await;
    post_as(&app, "ann").await.refused(503, "no_capacity", None);
    post_as(&app, "bob").await.good();
    drop(held);
    within(app.until(async || (post_as(&app, "ann").await.status == 200).then_some(()))).await;
}

/// A service whose videos are looked into for ever, by one that takes all there is for that.
async fn hanging(folder: &TempDir, options: Options) -> (TestApp, HangingTools) {
    let app = TestApp::start_with(Options { inspection_memory_bytes: 1, ..options }).await;
    let hanging = HangingTools::within(folder.path());
    let profile = Arc::new(ModelProfile::released("MiniMax-H3", Partition::ALL.to_vec()));
    let state = AppState { tools: Arc::clone(&hanging.tools), profile, ..app.state.clone() };
    (app.with(state), hanging)
}

#[tokio::test]
async fn a_request_that_is_dropped_while_its_files_are_looked_into_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let (app, hanging) = hanging(&folder, Options { capacity_wait: SOON, ..Options::default() }).await;
    let posted = app.post_form(Form::new().file("input_reference", &files().mp4));
    let looking = async {
        let process = within(app.until(async || hanging.process().filter(|process| process.exists()))).await;
        // Whoever wants to look as well waits for no longer than it is told to; what a file is, is seen at once.
        let png = Form::new().file("input_reference", &files().png);
        let message = app.post_form(png.clone()).await.refused(503, "no_capacity", None);
        assert_eq!(message, "as many files are being looked into as may");
        app.post_form(Form::new().file("input_reference", b"text")).await.refused(
            400,
            "invalid_reference_media",
            Some("input_reference"),
        );
        process
    };
    let process = tokio::select! {
        process = looking => process,
        reply = posted => panic!("{:?} came although the program hangs", reply.status),
    };
    within(app.until(async || (!process.exists()).then_some(()))).await;
    within(app.until_spool_is_empty()).await;
    // Its turn is over, too.
    let png = Form::new().file("input_reference", &files().png);
    within(app.until(async || (app.post_form(png.clone()).await.status == 200).then_some(()))).await;
}

#[tokio::test]
async fn looking_into_the_files_of_a_request_ends_in_time() {
    let folder = TempDir::new().unwrap();
    let options = Options { inspection_timeout: Duration::from_millis(300), ..Options::default() };
    let (app, hanging) = hanging(&folder, options).await;
    let reply = within(app.post_form(Form::new().file("input_reference", &files().mp4))).await;
    let message = reply.refused(503, "no_capacity", None);
    assert_eq!(message, "the files of the request could not be looked into in time");
    assert_eq!(reply.header("retry-after"), "5");
    within(app.until(async || hanging.process().is_none_or(|process| !process.exists()).then_some(()))).await;
    within(app.until_spool_is_empty()).await;
}

#[tokio::test]
async fn a_video_that_no_worker_could_hold_is_refused_with_the_numbers() {
    let app = TestApp::start_with(Options { max_rows: Some(3_000), ..Options::default() }).await;
    let small = app.create(json!({"prompt": "a cat", "size": "256x128", "seconds": 4})).await;
    let id = small.good()["id"].as_str().unwrap().to_owned();
    let rows = app.job(&id).await.rows;
    let reply = app.create(json!({"prompt": "a cat", "size": "1344x768", "num_frames": 345})).await;
    reply.refused(400, "invalid_value", Some("size"));
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("has memory for 3000"));
    assert_eq!(app.hints().await, 1);

    // One that was accepted by a larger server, or a longer prompt of it.
    let options = Options { max_rows: Some(rows), ..(*app.state.options).clone() };
    let state = AppState { options: Arc::new(options), ..app.state.clone() };
    let exact = app.with(state);
    let path = format!("/v1/videos/{id}/remix");
    exact.post(&path, "application/json", json!({"prompt": "a dog"}).to_string()).await.good();
    let longer = json!({"prompt": "a dog in the snow"}).to_string();
    exact.post(&path, "application/json", longer).await.refused(400, "invalid_value", Some("video_id"));
}
