//! What is served, and by whom.

use std::sync::Arc;

use clapboard_api::{AppState, Options, Readiness, ServiceState};
use clapboard_h3::Partition;
use clapboard_jobs::{WorkerCard, WorkerId, WorkerState};
use serde_json::json;

use crate::app::TestApp;

#[tokio::test]
async fn the_served_model_is_listed_with_its_tasks() {
    let app = TestApp::start().await;
    let mut list = app.get("/v1/models").await.good();
    let created = list["data"][0]["created"].take().as_u64().unwrap();
    assert!(created > 1_700_000_000, "{created}");
    let model = json!({
        "id": "MiniMax-H3", "object": "model", "created": null, "owned_by": "clapboard",
        "tasks": ["t2va", "fl2va"], "partitions": ["fl2va"]
    });
    assert_eq!(list, json!({"object": "list", "data": [model]}));
    let app = TestApp::start_all(Default::default()).await;
    let list = app.get("/v1/models").await.good();
    assert_eq!(list["data"][0]["tasks"], json!(["t2va", "fl2va", "ref2va"]));
    assert_eq!(list["data"][0], app.get("/v1/models/MiniMax-H3").await.good());
}

#[tokio::test]
async fn a_model_is_told_by_every_name_that_requests_may_use() {
    let app = TestApp::start().await;
    for name in ["MiniMax-H3", "sora-2", "minimax-h3", "MiniMaxAI/MiniMax-H3", "MiniMaxAI%2FMiniMax-H3"] {
        assert_eq!(app.get(&format!("/v1/models/{name}")).await.good()["id"], "MiniMax-H3", "{name}");
    }
    for name in ["gpt-5", "MiniMaxAI/other", "%ff"] {
        app.get(&format!("/v1/models/{name}")).await.refused(404, "not_found", Some("model"));
    }
}

#[tokio::test]
async fn readiness_of_a_service_with_a_worker_shows_the_weights_that_it_has() {
    let app = TestApp::start().await;
    let ready = app.get("/ready").await.good();
    assert_eq!(ready, json!({"status": "ready", "partitions": {"fl2va": true, "ref2va": false}}));
}

#[tokio::test]
async fn readiness_of_a_service_without_a_worker_shows_those_of_the_workers_that_take_jobs() {
    let app = TestApp::start_all(Default::default()).await;
    let readiness = Readiness::new_without_worker();
    readiness.set(ServiceState::Ready);
    let state = AppState { readiness, ..app.state.clone() };
    let app = app.with(state);
    let partitions = async || app.get("/ready").await.good()["partitions"].take();
    assert_eq!(partitions().await, json!({"fl2va": false, "ref2va": false}));
    let card = |id, partition, state| WorkerCard {
        id,
        host: "a".to_owned(),
        version: "1".to_owned(),
        partitions: vec![partition],
        spec_versions: vec![2],
        max_rows: None,
        state,
    };
    let (first, second) = (WorkerId::new(), WorkerId::new());
    app.state.store.announce(&card(first, Partition::Ref2va, WorkerState::Busy)).await.unwrap();
    app.state.store.announce(&card(second, Partition::Fl2va, WorkerState::Draining)).await.unwrap();
    assert_eq!(partitions().await, json!({"fl2va": false, "ref2va": true}));
    app.state.store.announce(&card(second, Partition::Fl2va, WorkerState::Idle)).await.unwrap();
    assert_eq!(partitions().await, json!({"fl2va": true, "ref2va": true}));
    app.state.store.ask_drain(first).await.unwrap();
    assert_eq!(partitions().await, json!({"fl2va": true, "ref2va": false}));
    // A job for which there is no worker waits for one.
    app.state.store.ask_drain(second).await.unwrap();
    let job = app.create(json!({"prompt": "a cat", "size": "512x288"})).await.good();
    assert_eq!(job["status"], "queued");

    // Unless the service is to queue no such job.
    let options = Options { require_live_partition: true, ..Options::clone(&app.state.options) };
    let state = AppState { options: Arc::new(options), ..app.state.clone() };
    let app = app.with(state);
    let refused = app.create(json!({"prompt": "a cat", "size": "512x288"})).await;
    assert_eq!(refused.refused(503, "no_capacity", None), "no worker runs jobs of fl2va now");
    assert_eq!(refused.header("retry-after"), "5");
    let path = format!("/v1/videos/{}/remix", job["id"].as_str().unwrap());
    app.post_with(&path, json!({"prompt": "a dog"}), &[]).await.refused(503, "no_capacity", None);
    let third = WorkerId::new();
    app.state.store.announce(&card(third, Partition::Fl2va, WorkerState::Idle)).await.unwrap();
    app.create(json!({"prompt": "a cat", "size": "512x288"})).await.good();
}
