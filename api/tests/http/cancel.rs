//! Videos that are cancelled and keep their record.

use axum::http::Method;
use clapboard_jobs::{LeaseError, Outcome, Progress};
use serde_json::json;

use crate::app::TestApp;

#[tokio::test]
async fn a_waiting_video_is_cancelled_at_once_and_again_to_no_effect() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    let path = format!("/v1/videos/{id}/cancel");
    let first = app.call(Method::POST, &path).await;
    let video = first.good();
    assert_eq!((&video["status"], &video["error"]["code"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!((video["id"].as_str().unwrap(), first.header("openai-poll-after-ms")), (id.as_str(), "2000"));
    assert_eq!(app.call(Method::POST, &path).await.good(), video);
    assert_eq!(app.get(&format!("/v1/videos/{id}")).await.good(), video);
    let reply = app.get(&format!("/v1/videos/{id}/content")).await;
    let message = reply.refused(422, "video_failed", Some("video_id"));
    assert_eq!(message, "the video has no content: it was cancelled");
}

#[tokio::test]
async fn a_running_video_is_cancelled_when_its_worker_says_so_whatever_it_has_finished() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    let worker = app.worker();
    let claimed = worker.begin().await;
    let path = format!("/v1/videos/{id}");
    let video = app.call(Method::POST, &format!("{path}/cancel")).await.good();
    assert_eq!(video["status"], "in_progress");
    let beat = app.state.store.beat(&claimed.lease, &Progress::START).await.unwrap();
    assert!(beat.cancel_requested);
    worker.finish(&claimed).await;
    let video = app.get(&path).await.good();
    assert_eq!((&video["status"], &video["error"]["code"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!(video["file_name"], json!(null));
    let late = app.state.store.finish(&claimed.lease, Outcome::Cancelled).await;
    assert!(matches!(late, Err(LeaseError::Lost { .. })), "{late:?}");
}

#[tokio::test]
async fn a_video_that_has_ended_stays_as_it_is() {
    let app = TestApp::start().await;
    let done = app.create_any().await;
    app.worker().do_one().await;
    let video = app.call(Method::POST, &format!("/v1/videos/{done}/cancel")).await.good();
    assert_eq!((&video["status"], &video["error"]), (&json!("completed"), &json!(null)));
    let failed = app.create_any().await;
    app.worker().fail_one().await;
    let video = app.call(Method::POST, &format!("/v1/videos/{failed}/cancel")).await.good();
    assert_eq!(video["error"]["code"], "generation_failed");
}

#[tokio::test]
async fn a_video_that_is_not_there_cannot_be_cancelled() {
    let app = TestApp::start().await;
    for id in ["x", "video_gen_00000000000000000000000000000000"] {
        let reply = app.call(Method::POST, &format!("/v1/videos/{id}/cancel")).await;
        reply.refused(404, "not_found", Some("video_id"));
    }
    app.get("/v1/videos/x/cancel").await.refused(405, "method_not_allowed", None);
}
