//! Requests that wait for their video.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use clapboard_api::{Options, ServiceState};
use clapboard_jobs::{Job, JobState};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::TestApp;
use crate::connections::within;
use crate::warnings::Warnings;
use crate::worker::film;

const BODY: &str = r#"{"prompt": "a cat", "size": "512x288", "foo": 1}"#;

#[tokio::test]
async fn the_answer_is_the_video_and_the_job_stays() {
    let app = TestApp::start().await;
    let worker = app.worker();
    let work = async {
        app.until(async || app.jobs().await.pop()).await;
        worker.do_one().await;
    };
    let (reply, ()) = tokio::join!(app.post("/v1/videos/sync", "application/json", BODY), work);
    assert_eq!((reply.status, &reply.body), (StatusCode::OK, &film()));
    let job = app.only_job().await;
    for (name, value) in [
        ("content-type", "video/mp4"),
        ("content-length", "1000"),
        ("x-video-id", &job.id.to_string()),
        ("x-model", "MiniMax-H3"),
        ("x-inference-time-s", "12.346"),
        ("x-stage-durations", r#"{"decode_video":1.25,"denoise":10.5}"#),
        ("x-peak-memory-mb", "3.000"),
        ("x-ignored-fields", "foo"),
    ] {
        assert_eq!(reply.header(name), value, "{name}");
    }
    assert!(reply.header("x-request-id").starts_with("video_sync-"));
    assert_eq!(app.get(&format!("/v1/videos/{}", job.id)).await.good()["status"], "completed");
}

#[tokio::test]
async fn a_failure_is_told_and_not_to_be_tried_again_by_the_client() {
    let app = TestApp::start().await;
    let worker = app.worker();
    let work = async {
        app.until(async || app.jobs().await.pop()).await;
        worker.fail_one().await;
    };
    let (reply, ()) = tokio::join!(app.post("/v1/videos/sync", "application/json", BODY), work);
    let message = reply.refused(422, "video_failed", Some("video_id"));
    assert!(message.ends_with("generation_failed: the latents are not finite"), "{message}");
    assert_eq!(reply.header("x-video-id"), app.only_job().await.id.to_string());
}

#[tokio::test]
async fn a_video_whose_file_is_missing_is_not_made_again_by_the_client() {
    let app = TestApp::start().await;
    let worker = app.worker();
    let work = async {
        app.until(async || app.jobs().await.pop()).await;
        worker.lose_one().await;
    };
    let (reply, ()) = tokio::join!(app.post("/v1/videos/sync", "application/json", BODY), work);
    reply.refused(500, "internal_error", None);
    assert_eq!(reply.header("x-should-retry"), "false");
    assert_eq!(reply.header("x-video-id"), app.only_job().await.id.to_string());
}

#[tokio::test]
async fn out_of_time_the_client_gets_the_id_and_the_job_goes_on() {
    let options = Options { sync_timeout: Duration::from_millis(10), ..Options::default() };
    let app = TestApp::start_with(options).await;
    let reply = app.post("/v1/videos/sync", "application/json", BODY).await;
    let message = reply.refused(504, "sync_timeout", None);
    let job = app.only_job().await;
    assert!(message.contains(&job.id.to_string()), "{message}");
    assert_eq!(reply.header("x-video-id"), job.id.to_string());
    assert_eq!(reply.header("x-should-retry"), "false");
    app.state.tasks.close();
    app.state.tasks.wait().await;
    assert_eq!(app.only_job().await.state, JobState::Queued);
}

#[tokio::test]
async fn a_service_that_stops_sends_the_waiting_client_away_and_keeps_the_job() {
    let app = TestApp::start().await;
    let stop = async {
        app.until(async || app.jobs().await.pop()).await;
        app.state.readiness.set(ServiceState::Draining);
    };
    let (reply, ()) = tokio::join!(app.post("/v1/videos/sync", "application/json", BODY), stop);
    reply.refused(503, "no_capacity", None);
    assert_eq!(reply.header("x-should-retry"), "false");
    let job = app.only_job().await;
    assert_eq!(reply.header("x-video-id"), job.id.to_string());
    assert_eq!(job.state, JobState::Queued);
}

#[tokio::test]
async fn a_video_that_is_deleted_meanwhile_is_not_waited_for() {
    let app = TestApp::start().await;
    let delete = async {
        let job: Job = app.until(async || app.jobs().await.pop()).await;
        app.call(axum::http::Method::DELETE, &format!("/v1/videos/{}", job.id)).await.good();
    };
    let (reply, ()) = tokio::join!(app.post("/v1/videos/sync", "application/json", BODY), delete);
    reply.refused(404, "not_found", Some("video_id"));
}

/// Sends a synchronous request, waits until its job is there, and hangs up.
async fn ask_and_hang_up(app: &TestApp, extra: &str) {
    drop(ask_and_wait_for_its_job(app, extra).await);
}

/// Sends a synchronous request and waits until its job is there.
async fn ask_and_wait_for_its_job(app: &TestApp, extra: &str) -> TcpStream {
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    let head = format!(
        "POST /v1/videos/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{extra}Content-Length: {}\r\n\r\n",
        BODY.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(BODY.as_bytes()).await.unwrap();
    app.until(async || app.jobs().await.pop()).await;
    client
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_its_job() {
    let app = TestApp::start().await;
    ask_and_hang_up(&app, "").await;
    let job = app.until(async || app.jobs().await.pop().filter(|job| job.state.is_final())).await;
    assert_eq!(job.state, JobState::Cancelled);
}

#[tokio::test]
async fn a_job_that_may_have_been_made_is_named_to_its_client_and_not_cancelled() {
    let (app, store) = TestApp::start_faulty().await;
    store.lose_next_create();
    store.refuse_gets();
    let reply = app.post("/v1/videos/sync", "application/json", BODY).await;
    reply.refused(503, "no_capacity", None);
    app.state.tasks.close();
    app.state.tasks.wait().await;
    let job = app.only_job().await;
    assert_eq!((reply.header("x-video-id"), job.state), (job.id.to_string().as_str(), JobState::Queued));
    assert_eq!(reply.header("x-should-retry"), "false");
}

fn has_failed_to_cancel(warnings: &Warnings) -> Option<()> {
    warnings.all().contains(&"could not cancel a job whose client has gone".to_owned()).then_some(())
}

#[tokio::test]
async fn a_client_that_hangs_up_in_an_outage_cancels_its_job_when_that_is_over() {
    let pause = Duration::from_millis(2);
    let options = Options { poll_after: pause, sync_poll: pause, ..Options::default() };
    let (app, store) = TestApp::start_with(options).await.over_faulty();
    let (warnings, _guard) = Warnings::keep();
    let client = ask_and_wait_for_its_job(&app, "").await;
    store.go_away();
    drop(client);
    app.until(async || has_failed_to_cancel(&warnings)).await;
    store.come_back();
    let job = within(app.until(async || app.jobs().await.pop().filter(|job| job.state.is_final()))).await;
    assert_eq!(job.state, JobState::Cancelled);
    app.state.tasks.close();
    within(app.state.tasks.wait()).await;
}

#[tokio::test]
async fn a_cancel_that_an_outage_hinders_does_not_hinder_the_end_of_the_service() {
    let (app, store) = TestApp::start_with(Options { poll_after: Duration::from_secs(3600), ..Options::default() })
        .await
        .over_faulty();
    let (warnings, _guard) = Warnings::keep();
    let client = ask_and_wait_for_its_job(&app, "").await;
    store.go_away();
    drop(client);
    app.until(async || has_failed_to_cancel(&warnings)).await;
    app.state.readiness.set(ServiceState::Draining);
    app.state.tasks.close();
    within(app.state.tasks.wait()).await;
}

#[tokio::test]
async fn a_client_that_hangs_up_may_have_asked_to_keep_the_job() {
    // A name says that it comes back.
    for extra in ["x-keep-job: 1\r\n", "Idempotency-Key: k\r\n"] {
        keeps_its_job(extra).await;
    }
}

async fn keeps_its_job(extra: &str) {
    let app = TestApp::start().await;
    ask_and_hang_up(&app, extra).await;
    // A second client that keeps nothing: when its cancel is seen, the first one's would have been too.
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    let request = format!(
        "POST /v1/videos/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    app.until(async || (app.jobs().await.len() == 2).then_some(())).await;
    drop(client);
    app.until(async || app.jobs().await.into_iter().find(|job| job.state == JobState::Cancelled)).await;
    let states: Vec<JobState> = app.jobs().await.into_iter().map(|job| job.state).collect();
    assert!(states.contains(&JobState::Queued), "{states:?}");
}

#[tokio::test]
async fn an_upload_over_a_socket_is_refused_and_the_answer_arrives() {
    let app = TestApp::start().await;
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    let head = "--b\r\nContent-Disposition: form-data; name=\"source_video\"; filename=\"a.png\"\r\n\r\n";
    let file = vec![0u8; 4 << 20];
    let tail = "\r\n--b--\r\n";
    let length = head.len() + file.len() + tail.len();
    let request = format!(
        "POST /v1/videos HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {length}\r\n\r\n{head}"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    client.write_all(&file).await.unwrap();
    client.write_all(tail.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("\"code\":\"unsupported_parameter\""), "{answer}");
}

#[tokio::test]
async fn a_request_that_breaks_a_rule_does_not_wait() {
    let app = TestApp::start().await;
    let request = Request::post("/v1/videos/sync").header("content-type", "application/json");
    let reply = app.send(request.body(Body::from(json!({"prompt": "a cat"}).to_string())).unwrap()).await;
    reply.refused(400, "missing_required_parameter", Some("aspect_ratio"));
}
