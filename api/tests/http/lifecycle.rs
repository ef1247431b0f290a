//! A video from its request to its removal.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use clapboard_api::Options;
use clapboard_jobs::{NewJob, Policy, Priority, Tenant, backoff};
use insta::assert_json_snapshot;
use serde_json::json;

use crate::app::{NOW, TestApp, redacted};
use crate::worker::film;

#[tokio::test]
async fn a_prompt_becomes_a_file_and_is_deleted() {
    let app = TestApp::start().await;
    let worker = app.worker();

    let created = app
        .create(json!({"prompt": "a cat", "model": "sora-2", "seconds": "6", "size": "1280x720", "seed": 7, "quality": "high"}))
        .await;
    let id = created.good()["id"].as_str().unwrap().to_owned();
    assert_json_snapshot!("queued", redacted(&created));
    assert_eq!(created.header("openai-poll-after-ms"), "2000");
    assert!(created.header("x-request-id").starts_with("req_"));
    assert_eq!(app.hints().await, 1);
    let path = format!("/v1/videos/{id}");

    // Claimed ahead it is still queued for the client, with nobody before it.
    let claimed = worker.claim().await;
    let seen = app.get(&path).await.good();
    assert_eq!((&seen["status"], &seen["queue_position"]), (&json!("queued"), &json!(0)));

    app.state.store.begin(&claimed.lease).await.unwrap();
    worker.step(&claimed, 10, 20).await;
    let running = app.get(&path).await;
    assert_json_snapshot!("in_progress", redacted(&running));
    assert_eq!(running.header("openai-poll-after-ms"), "2000");
    app.get(&format!("{path}/content")).await.refused(404, "video_not_ready", Some("video_id"));

    worker.finish(&claimed).await;
    assert_json_snapshot!("completed", redacted(&app.get(&path).await));

    let content = app.get(&format!("{path}/content")).await;
    assert_eq!(content.status, StatusCode::OK);
    assert_eq!(content.body, film());

    let deleted = app.call(Method::DELETE, &path).await;
    assert_eq!(deleted.good(), json!({"id": id, "object": "video.deleted", "deleted": true}));
    app.call(Method::DELETE, &path).await.refused(404, "not_found", Some("video_id"));
    app.get(&path).await.refused(404, "not_found", Some("video_id"));
    app.get(&format!("{path}/content")).await.refused(404, "not_found", Some("video_id"));
}

#[tokio::test]
async fn a_failed_job_is_told_with_200_and_has_no_content() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.worker().fail_one().await;
    let seen = app.get(&format!("/v1/videos/{id}")).await;
    assert_json_snapshot!("failed", redacted(&seen));
    let message = app.get(&format!("/v1/videos/{id}/content")).await.refused(422, "video_failed", Some("video_id"));
    assert_eq!(message, "the video has no content: generation_failed: the latents are not finite");
}

#[tokio::test]
async fn a_service_that_does_as_vllm_omni_answers_for_a_failed_job_with_an_error() {
    let app = TestApp::start_with(Options { compat_failed_job_http_status: true, ..Options::default() }).await;
    let (failed, cancelled, waiting) = (app.create_any().await, app.create_any().await, app.create_any().await);
    app.worker().fail_one().await;
    app.call(Method::POST, &format!("/v1/videos/{cancelled}/cancel")).await.good();
    for (id, status, retry) in [(failed, 500, "false"), (cancelled, 400, "false"), (waiting, 200, "")] {
        let reply = app.get(&format!("/v1/videos/{id}")).await;
        assert_eq!((reply.status.as_u16(), reply.header("x-should-retry")), (status, retry));
        assert_eq!(reply.json()["id"], json!(id));
    }
    assert_eq!(app.get("/v1/videos").await.good()["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_cancelled_job_is_failed_with_the_code_cancelled() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.state.store.cancel(&Tenant::default(), id.parse().unwrap()).await.unwrap();
    let seen = app.get(&format!("/v1/videos/{id}")).await.good();
    assert_eq!(seen["status"], "failed");
    assert_eq!(seen["error"]["code"], "cancelled");
}

#[tokio::test]
async fn a_running_job_that_is_deleted_is_lost_to_its_worker() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    let claimed = app.worker().begin().await;
    app.call(Method::DELETE, &format!("/v1/videos/{id}")).await.good();
    let beat = app.state.store.beat(&claimed.lease, &clapboard_jobs::Progress::START).await;
    assert!(matches!(beat, Err(clapboard_jobs::LeaseError::Lost { .. })), "{beat:?}");
}

#[tokio::test]
async fn queued_jobs_know_their_places() {
    let app = TestApp::start().await;
    let (first, second) = (app.create_any().await, app.create_any().await);
    for (id, place) in [(&first, 1), (&second, 2)] {
        assert_eq!(app.get(&format!("/v1/videos/{id}")).await.good()["queue_position"], place);
    }
}

#[tokio::test]
async fn a_place_is_exact_up_to_a_thousand_and_then_a_text() {
    let app = TestApp::start().await;
    let first = app.create_any().await;
    let spec = app.job(&first).await.spec.decode().unwrap();
    let mut ids = vec![first];
    for _ in 0..1000 {
        let job = NewJob::new(Tenant::default(), "MiniMax-H3", &spec);
        ids.push(app.state.store.create(job).await.unwrap().id.to_string());
    }
    let place = async |id: &str| app.get(&format!("/v1/videos/{id}")).await.good()["queue_position"].clone();
    assert_eq!((place(&ids[999]).await, place(&ids[1000]).await), (json!(1000), json!("1000+")));
    assert_eq!(app.create_with(json!({"prompt": "x", "size": "512x288"}), &[]).await.good()["queue_position"], "1000+");
    app.call(Method::POST, &format!("/v1/videos/{}/cancel", ids[1000])).await.good();
    assert_eq!(place(&ids[1000]).await, json!(null), "it does not wait any more");
}

#[tokio::test]
async fn a_job_without_a_seed_gets_a_random_one_of_32_bits() {
    let app = TestApp::start().await;
    let mut seeds = Vec::new();
    for _ in 0..4 {
        let created = app.create(json!({"prompt": "a cat", "aspect_ratio": "1:1"})).await.good();
        let seed = created["seed"].as_i64().unwrap();
        assert!((0..1 << 32).contains(&seed), "{seed}");
        seeds.push(seed);
    }
    seeds.dedup();
    assert_eq!(seeds.len(), 4, "{seeds:?}");
    let negative = app.create(json!({"prompt": "a cat", "aspect_ratio": "1:1", "seed": -5})).await.good();
    assert_eq!(negative["seed"], -5);
}

#[tokio::test]
async fn priority_and_deadline_are_kept_and_told() {
    let app = TestApp::start().await;
    let plain = app.create(json!({"prompt": "a cat", "size": "512x288"})).await.good();
    assert_eq!((&plain["priority"], &plain["start_by"]), (&json!("normal"), &json!(null)));
    let fields = json!({"prompt": "a cat", "size": "512x288", "priority": "low", "start_deadline_s": "90"});
    let made = app.create(fields).await.good();
    let start_by = made["created_at"].as_i64().unwrap() + 90;
    assert_eq!((&made["priority"], &made["start_by"]), (&json!("low"), &json!(start_by)));
    let job = app.job(made["id"].as_str().unwrap()).await;
    assert_eq!((job.priority, job.start_by), (Priority::Low, Some(NOW.plus(Duration::from_secs(90)))));

    app.clock.advance(Duration::from_secs(91));
    app.state.store.fail_overdue(10).await.unwrap();
    let failed = app.get(&format!("/v1/videos/{}", job.id)).await.good();
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("start_deadline_exceeded")));
    assert_eq!(app.get(&format!("/v1/videos/{}", plain["id"].as_str().unwrap())).await.good()["status"], "queued");
}

#[tokio::test]
async fn a_job_that_begins_again_shows_its_attempt_and_its_progress() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    let worker = app.worker();
    let first = worker.begin().await;
    worker.step(&first, 10, 20).await;
    app.clock.advance(Policy::default().lease);
    app.state.store.reclaim_expired(10).await.unwrap();
    let path = format!("/v1/videos/{id}");
    let waits = app.get(&path).await.good();
    assert_eq!((&waits["status"], &waits["attempt"]), (&json!("queued"), &json!(1)));
    app.clock.advance(backoff::CAP);
    let second = worker.begin().await;
    worker.step(&second, 8, 16).await;
    let runs = app.get(&path).await.good();
    assert_eq!((&runs["status"], &runs["attempt"], &runs["progress"]), (&json!("in_progress"), &json!(2), &json!(16)));
    worker.finish(&second).await;
    assert_eq!(app.get(&path).await.good()["attempt"], 2);
}

#[tokio::test]
async fn a_size_alone_carries_the_ratio_and_is_floored() {
    let app = TestApp::start().await;
    let created = app.create(json!({"prompt": "a cat", "size": "1280x720"})).await.good();
    assert_eq!(created["size"], "1280x704");
    assert_eq!(created["num_frames"], 209);
    assert_eq!(created["seconds"], "8");
    assert_eq!(created["forwards"], 49);
    assert_eq!(created["model"], "MiniMax-H3");
}

#[tokio::test]
async fn ids_that_cannot_be_ids_are_just_not_found() {
    let app = TestApp::start().await;
    for id in ["x", "video_gen_", "video_gen_00000000000000000000000000000000", "%ff", "%2e%2e", "a%2Fb"] {
        let message = app.get(&format!("/v1/videos/{id}")).await.refused(404, "not_found", Some("video_id"));
        assert_eq!(message, "Video not found");
    }
}

#[tokio::test]
async fn a_missing_file_is_a_fault_of_the_service_and_says_no_more() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.worker().do_one().await;
    let key = app.job(&id).await.result.unwrap().key;
    app.state.blob.delete(&key).await.unwrap();
    for method in [Method::GET, Method::HEAD] {
        let reply = app.call(method, &format!("/v1/videos/{id}/content")).await;
        assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!String::from_utf8_lossy(&reply.body).contains(key.as_str()));
    }
}
