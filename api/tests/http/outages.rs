//! What else may be away: the job store, and the dispatcher.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use clapboard_api::AppState;
use clapboard_jobs::{Dispatch, DispatchError, Hint, Queue};
use serde_json::json;

use crate::app::{Reply, TestApp};
use crate::connections::within;

async fn call(app: &TestApp, method: &Method, path: &str) -> Reply {
    if *method == Method::POST {
        let fields = if path.ends_with("/remix") {
            r#"{"prompt": "a dog"}"#
        } else {
            r#"{"prompt": "a cat", "size": "512x288"}"#
        };
        return app.post(path, "application/json", fields).await;
    }
    app.call(method.clone(), path).await
}

#[tokio::test]
async fn every_route_says_that_the_store_is_away_and_works_again_when_it_is_back() {
    let (app, store) = TestApp::start_faulty().await;
    let id = app.create_any().await;
    app.worker().do_one().await;
    let one = format!("/v1/videos/{id}");
    let content = format!("{one}/content");
    let [cancel, remix, events] = ["cancel", "remix", "events"].map(|verb| format!("{one}/{verb}"));
    let routes = [
        (Method::POST, "/v1/videos"),
        (Method::POST, "/v1/videos/sync"),
        (Method::GET, "/v1/videos"),
        (Method::GET, &one),
        (Method::DELETE, &one),
        (Method::GET, &content),
        (Method::POST, &cancel),
        (Method::POST, &remix),
        (Method::GET, &events),
        (Method::GET, "/ready"),
    ];
    for _ in 0..2 {
        store.go_away();
        for (method, path) in &routes {
            let reply = call(&app, method, path).await;
            assert_eq!(
                reply.refused(503, "no_capacity", None),
                "the job store could not be reached",
                "{method} {path}"
            );
            assert_eq!(reply.header("retry-after"), "5", "{method} {path}");
        }
        assert_eq!(app.call(Method::HEAD, &content).await.status, StatusCode::SERVICE_UNAVAILABLE);
        app.get("/health").await.good();
        store.come_back();
        app.get("/ready").await.good();
        app.get(&one).await.good();
        assert_eq!(app.get(&content).await.status, StatusCode::OK);
        assert_eq!(app.jobs().await.len(), 1);
    }
    app.create_any().await;
    app.call(Method::DELETE, &one).await.good();
}

#[tokio::test]
async fn a_client_whose_job_may_have_been_made_is_told_its_name() {
    let (app, store) = TestApp::start_faulty().await;
    store.go_away();
    let reply = app.create(json!({"prompt": "a cat", "size": "512x288"})).await;
    reply.refused(503, "no_capacity", None);
    assert_eq!(reply.header("x-should-retry"), "false");
    assert!(reply.header("x-video-id").starts_with("video_gen_"));
}

#[tokio::test]
async fn who_waits_for_a_video_outlasts_the_store() {
    let (app, store) = TestApp::start_faulty().await;
    let worker = app.worker();
    let work = async {
        app.until(async || app.jobs().await.pop()).await;
        store.go_away();
        app.get("/ready").await.refused(503, "no_capacity", None);
        store.come_back();
        worker.do_one().await;
    };
    let request = app.post("/v1/videos/sync", "application/json", r#"{"prompt": "a cat", "size": "512x288"}"#);
    let (reply, ()) = within(async { tokio::join!(request, work) }).await;
    assert_eq!(reply.status, StatusCode::OK);
}

/// A dispatcher that answers nobody, or with errors.
struct Away {
    silent: bool,
}

#[async_trait]
impl Dispatch for Away {
    async fn push(&self, _hints: &[Hint]) -> Result<usize, DispatchError> {
        if self.silent {
            return pending().await;
        }
        Err(DispatchError { doing: "following the script", source: "as the test says".into() })
    }

    async fn pop(&self, _queues: &[Queue], _wait: Duration) -> Result<Option<Hint>, DispatchError> {
        pending().await
    }

    async fn len(&self, _queue: Queue) -> Result<u64, DispatchError> {
        pending().await
    }
}

#[tokio::test]
async fn a_dispatcher_that_is_away_holds_nobody_up() {
    for silent in [false, true] {
        let app = TestApp::start().await;
        let state = AppState { dispatch: Arc::new(Away { silent }), ..app.state.clone() };
        let app = app.with(state);
        for made in 1..=3 {
            within(app.create_any()).await;
            assert_eq!(app.jobs().await.len(), made);
        }
        app.get("/ready").await.good();
        assert_eq!(app.worker().claim().await.job.attempt, 1);
    }
}
