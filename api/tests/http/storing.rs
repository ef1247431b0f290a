//! The media of a request on their way to its job, and what becomes of them where there is none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_api::{AppState, Options};
use clapboard_jobs::fixtures::FaultyBlob;
use clapboard_jobs::{Tenant, TenantLimits};
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::connections::within;
use crate::media::{Form, data_url, files};
use crate::slow::SlowBlob;

/// Puts a service over a media store that stores nothing before it is told to.
fn slow(app: TestApp) -> (TestApp, Arc<SlowBlob>) {
    let blob = Arc::new(SlowBlob::over(Arc::clone(&app.state.blob)));
    let state = AppState { blob: Arc::clone(&blob) as _, ..app.state.clone() };
    (app.with(state), blob)
}

#[tokio::test]
async fn a_deleted_video_takes_its_inputs_with_it() {
    let app = TestApp::start_all(Options::default()).await;
    let reply = app.post_form(Form::new().file("input_reference", &files().png)).await;
    let id = reply.good()["id"].as_str().unwrap().to_owned();
    let key = app.job(&id).await.spec.decode().unwrap().inputs[0].object.clone();
    app.call(axum::http::Method::DELETE, &format!("/v1/videos/{id}")).await.good();
    app.clock.advance(Duration::from_secs(7200));
    let garbage: Vec<String> =
        app.state.store.garbage(10).await.unwrap().into_iter().map(|key| key.as_str().to_owned()).collect();
    assert_eq!(garbage, [key]);
}

#[tokio::test]
async fn media_whose_job_is_not_made_are_garbage() {
    let (app, faulty) = TestApp::start_all(Options::default()).await.over_faulty();
    faulty.refuse_creates(2);
    let body: Value = json!({"prompt": "a cat", "image_reference": {"image_url": data_url("image/png", &files().png)}});
    app.create(body).await.error();
    let garbage = async || app.state.store.garbage(10).await.unwrap().into_iter().next();
    let key = within(app.until(garbage)).await;
    assert!(app.state.blob.head(&key).await.unwrap().is_some(), "it is for the sweep to delete");
}

#[tokio::test]
async fn media_whose_client_has_gone_while_they_were_stored_are_garbage_once_that_has_ended() {
    let (app, blob) = slow(TestApp::start_all(Options::default()).await);
    let posted = app.post_form(Form::new().file("input_reference", &files().png));
    tokio::select! {
        () = within(blob.asked()) => {}
        reply = posted => panic!("{:?} came before the file was stored", reply.status),
    }
    assert_eq!((app.spooled(), app.state.store.garbage(10).await.unwrap()), (1, vec![]));
    blob.go_on();
    let garbage = async || app.state.store.garbage(10).await.unwrap().into_iter().next();
    let key = within(app.until(garbage)).await;
    assert!(app.state.blob.head(&key).await.unwrap().is_some());
    within(app.until_spool_is_empty()).await;
    assert!(app.jobs().await.is_empty());
}

#[tokio::test]
async fn storing_is_given_up_long_before_its_grace_is_over() {
    const GRACE: Duration = Duration::from_secs(8);
    let form = Form::new().file("input_reference", &files().png);
    let (app, _blob) = slow(TestApp::start_all(Options { input_grace: GRACE, ..Options::default() }).await);
    let began = Instant::now();
    let reply = within(app.post_form(form)).await;
    let message = reply.refused(503, "no_capacity", None);
    assert_eq!(message, "the files of the request could not be stored in time");
    assert!(began.elapsed() < GRACE);
    assert_eq!(app.state.store.garbage(10).await.unwrap(), [], "they may still arrive");
    within(app.until_spool_is_empty()).await;
}

#[tokio::test]
async fn a_media_store_that_is_away_for_a_moment_is_waited_for() {
    let app = TestApp::start_all(Options::default()).await;
    let blob = Arc::new(FaultyBlob::failing(Arc::clone(&app.state.blob), 1));
    let state = AppState { blob: Arc::clone(&blob) as _, ..app.state.clone() };
    let app = app.with(state);
    let form = || Form::new().file("input_reference", &files().png);
    app.post_form(form()).await.good();
    assert_eq!(blob.failures_left(), 0);
    blob.go_away();
    let reply = app.post_form(form()).await;
    assert_eq!(reply.refused(503, "no_capacity", None), "the media store could not be reached");
    assert_eq!((app.spooled(), app.jobs().await.len()), (0, 1));
}

#[tokio::test]
async fn a_job_with_media_whose_making_was_not_heard_of_is_made_once() {
    let (app, faulty) = TestApp::start_all(Options::default()).await.over_faulty();
    faulty.lose_next_create();
    let reply = app.post_form(Form::new().file("input_reference", &files().png)).await;
    let id = reply.good()["id"].as_str().unwrap().to_owned();
    let job = app.only_job().await;
    assert_eq!(job.id.to_string(), id);
    app.clock.advance(Duration::from_secs(7200));
    assert_eq!(app.state.store.garbage(10).await.unwrap(), [], "its media are its own");
}

#[tokio::test]
async fn media_whose_job_came_too_late_for_the_queue_are_garbage() {
    let (app, blob) = slow(TestApp::start_all(Options::default()).await);
    let limits = TenantLimits { max_queued: Some(1), ..TenantLimits::default() };
    app.state.store.set_tenant(&Tenant::default(), &limits).await.unwrap();
    let posted = app.post_form(Form::new().file("input_reference", &files().png));
    let (reply, ()) = tokio::join!(posted, async {
        within(blob.asked()).await;
        app.create_any().await;
        blob.go_on();
    });
    reply.refused(429, "queue_full", None);
    let garbage = async || app.state.store.garbage(10).await.unwrap().into_iter().next();
    within(app.until(garbage)).await;
    assert_eq!((app.spooled(), app.jobs().await.len()), (0, 1));
}
