//! Requests that come twice.

use std::time::Duration;

use axum::http::Method;
use clapboard_api::{Auth, Options};
use clapboard_jobs::{ApiKey, KeyHash};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::app::{Reply, TestApp};
use crate::media::{FORM, Form, files};
use crate::worker::film;

fn fields() -> Value {
    json!({"prompt": "a cat", "size": "512x288"})
}

fn id(reply: &Reply) -> String {
    reply.good()["id"].as_str().unwrap().to_owned()
}

const KEY: (&str, &str) = ("idempotency-key", "k-1");

#[tokio::test]
async fn a_named_request_makes_one_video_however_often_it_comes() {
    let app = TestApp::start().await;
    let first = app.create_with(fields(), &[KEY]).await;
    assert_eq!(first.header("idempotency-replayed"), "");
    let again = app.create_with(fields(), &[KEY]).await;
    assert_eq!((id(&again), again.header("idempotency-replayed")), (id(&first), "true"));
    assert_eq!(again.header("openai-poll-after-ms"), "2000");
    assert_eq!((first.header("x-ignored-fields"), again.header("x-ignored-fields")), ("", ""));
    // The order of the fields and the encoding of what is absent do not matter; no seed is drawn anew.
    let other = json!({"size": "512x288", "model": null, "prompt": "a cat"});
    let again = app.create_with(other, &[KEY]).await;
    assert_eq!((id(&again), &again.good()["seed"]), (id(&first), &first.good()["seed"]));
    assert_eq!(app.jobs().await.len(), 1);
    app.worker().do_one().await;
    assert_eq!(app.create_with(fields(), &[KEY]).await.good()["status"], "completed");
    assert_ne!(id(&app.create_with(fields(), &[("idempotency-key", "k-2")]).await), id(&first));
    assert_ne!(id(&app.create(fields()).await), id(&first));
}

#[tokio::test]
async fn a_name_that_another_request_bore_is_refused() {
    let app = TestApp::start().await;
    let first = id(&app.create_with(fields(), &[KEY]).await);
    let other = json!({"prompt": "a dog", "size": "512x288"});
    let reply = app.create_with(other, &[KEY]).await;
    let message = reply.refused(409, "idempotency_key_reused", Some("Idempotency-Key"));
    assert_eq!(message, format!("another request with this Idempotency-Key has made {first}"));
    assert_eq!((reply.header("x-should-retry"), reply.header("x-video-id")), ("false", first.as_str()));
    // A remix is another request, also with the same prompt.
    let remix = app.post_with(&format!("/v1/videos/{first}/remix"), json!({"prompt": "a cat"}), &[KEY]).await;
    remix.refused(409, "idempotency_key_reused", Some("Idempotency-Key"));
    assert_eq!(app.jobs().await.len(), 1);

    app.call(Method::DELETE, &format!("/v1/videos/{first}")).await.good();
    let reply = app.create_with(fields(), &[KEY]).await;
    let message = reply.refused(409, "idempotency_key_reused", Some("Idempotency-Key"));
    assert_eq!(message, format!("this request has made {first}, which is deleted"));
    app.clock.advance(Duration::from_secs(24 * 3600));
    assert_ne!(id(&app.create_with(fields(), &[KEY]).await), first);
}

#[tokio::test]
async fn what_cannot_be_a_name_is_refused() {
    let app = TestApp::start().await;
    for key in ["", " ", &"x".repeat(256)] {
        let reply = app.create_with(fields(), &[("idempotency-key", key)]).await;
        let message = reply.refused(400, "invalid_value", Some("Idempotency-Key"));
        assert_eq!(message, "Idempotency-Key must have from 1 to 255 characters of ASCII");
    }
    app.create_with(fields(), &[("idempotency-key", &"x".repeat(255))]).await.good();
}

#[tokio::test]
async fn files_count_by_their_bytes_and_forms_not_by_theirs() {
    let app = TestApp::start_all(Options::default()).await;
    let form = |file: &[u8]| Form::new().text("task", "ref2va").text("seconds", "5").file("input_reference", file);
    let (png, jpeg) = (&files().png, &files().jpeg);
    let first = app.post_bytes_with("/v1/videos", FORM, form(png).body(), &[KEY]).await;
    // Another boundary, as each try has.
    let body = String::from_utf8_lossy(&form(b"FILE").body()).replace("xyzzy", "plugh");
    let (head, tail) = body.split_once("FILE").unwrap();
    let body = [head.as_bytes(), png, tail.as_bytes()].concat();
    let again = app.post_bytes_with("/v1/videos", "multipart/form-data; boundary=plugh", body, &[KEY]).await;
    assert_eq!((id(&again), again.header("idempotency-replayed")), (id(&first), "true"));
    let other = app.post_bytes_with("/v1/videos", FORM, form(jpeg).body(), &[KEY]).await;
    other.refused(409, "idempotency_key_reused", Some("Idempotency-Key"));
    app.until_spool_is_empty().await;
    assert_eq!(app.jobs().await.len(), 1);
}

#[tokio::test]
async fn a_second_try_that_a_library_counts_finds_the_first_and_a_second_wish_makes_another() {
    let app = TestApp::start().await;
    let count = |count: &'static str| [("x-stainless-retry-count", count)];
    let first = app.create_with(fields(), &count("0")).await;
    let again = app.create_with(fields(), &count("1")).await;
    assert_eq!((id(&again), again.header("idempotency-replayed")), (id(&first), "true"));
    let other = json!({"prompt": "a dog", "size": "512x288"});
    assert_ne!(id(&app.create_with(other, &count("1")).await), id(&first));
    let wish = app.create_with(fields(), &count("0")).await;
    assert_ne!(id(&wish), id(&first));
    assert_eq!(id(&app.create_with(fields(), &count("2")).await), id(&wish));
    // A minute later it is a new request.
    app.clock.advance(Duration::from_secs(60));
    let late = app.create_with(fields(), &count("1")).await;
    assert_eq!((id(&late) == id(&wish), late.header("idempotency-replayed")), (false, ""));
}

#[tokio::test]
async fn names_are_those_of_one_key() {
    let app = TestApp::start_with(Options { auth: Auth::Keys, ..Options::default() }).await;
    let mut ids = Vec::new();
    for (secret, tenant) in [("sk-ann", "ann"), ("sk-ann-2", "ann"), ("sk-bob", "bob")] {
        let (hash, tenant) = (KeyHash(Sha256::digest(secret).into()), tenant.parse().unwrap());
        app.state.store.add_key(&hash, &ApiKey::new(tenant, "test")).await.unwrap();
        let authorization = ("authorization", &*format!("Bearer {secret}"));
        let first = id(&app.create_with(fields(), &[authorization, KEY]).await);
        assert_eq!(id(&app.create_with(fields(), &[authorization, KEY]).await), first);
        ids.push(first);
    }
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
}

#[tokio::test]
async fn a_job_whose_making_was_not_heard_of_is_found_by_the_next_try() {
    let (app, store) = TestApp::start_faulty().await;
    store.lose_next_create();
    let first = app.create_with(fields(), &[KEY]).await;
    assert_eq!((id(&first), first.header("idempotency-replayed")), (id(&app.create_with(fields(), &[KEY]).await), ""));
    // Where both answers were lost, the client may well try again.
    store.refuse_creates(2);
    let other = ("idempotency-key", "k-2");
    let lost = app.create_with(fields(), &[other]).await;
    lost.refused(503, "no_capacity", None);
    assert_eq!((lost.header("x-should-retry"), lost.header("x-video-id").is_empty()), ("", false));
    app.create_with(fields(), &[other]).await.good();
    assert_eq!(app.jobs().await.len(), 2);
}

#[tokio::test]
async fn two_tries_at_once_make_one_video() {
    let app = TestApp::start().await;
    let tries = (0..8).map(|_| app.create_with(fields(), &[KEY]));
    let ids: Vec<String> = futures_util::future::join_all(tries).await.iter().map(id).collect();
    assert!(ids.iter().all(|other| *other == ids[0]), "{ids:?}");
    assert_eq!((app.jobs().await.len(), app.hints().await), (1, 1));
}

#[tokio::test]
async fn a_named_request_that_waits_gets_the_video_of_the_first() {
    let app = TestApp::start().await;
    let first = id(&app.create_with(fields(), &[KEY]).await);
    app.worker().do_one().await;
    let reply = app.post_with("/v1/videos/sync", fields(), &[KEY]).await;
    assert_eq!((reply.status.as_u16(), &reply.body), (200, &film()));
    assert_eq!((reply.header("x-video-id"), reply.header("idempotency-replayed")), (first.as_str(), "true"));
    assert_eq!(app.jobs().await.len(), 1);
}

#[tokio::test]
async fn a_remix_is_known_again_too() {
    let app = TestApp::start().await;
    let original = app.create_any().await;
    let path = format!("/v1/videos/{original}/remix");
    let first = app.post_with(&path, json!({"prompt": "a dog"}), &[KEY]).await;
    let again = app.post_with(&path, json!({"prompt": "a dog"}), &[KEY]).await;
    assert_eq!((id(&again), again.header("idempotency-replayed")), (id(&first), "true"));
    let other = app.post_with(&path, json!({"prompt": "a fox"}), &[KEY]).await;
    other.refused(409, "idempotency_key_reused", Some("Idempotency-Key"));
}
