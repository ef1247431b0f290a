//! What clients attach to their videos, and what is told back to them.

use std::time::Duration;

use clapboard_api::Options;
use clapboard_jobs::Policy;
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::media::{FORM, Form};

fn with(changes: Value) -> Value {
    let mut fields = json!({"prompt": "a cat", "size": "512x288"});
    for (name, value) in changes.as_object().unwrap() {
        fields[name] = value.clone();
    }
    fields
}

async fn ids(app: &TestApp, query: &str) -> Vec<String> {
    let page = app.get(&format!("/v1/videos?order=asc&{query}")).await.good();
    page["data"].as_array().unwrap().iter().map(|video| video["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn metadata_come_in_every_encoding_and_are_told_back() {
    let app = TestApp::start().await;
    let expected = json!({"shop": "7", "k y": "a b"});
    let form = Form::new().text("size", "512x288").text("metadata[shop]", "7").text("metadata[k y]", "a b");
    let text = Form::new().text("size", "512x288").json("metadata", expected.clone());
    for reply in [
        app.create(with(json!({"metadata": expected.clone()}))).await,
        app.create(with(json!({"metadata": {"shop": 7, "k y": "a b", "none": null}}))).await,
        app.post("/v1/videos", FORM, form.body()).await,
        app.post("/v1/videos", FORM, text.body()).await,
        app.post(
            "/v1/videos",
            "application/x-www-form-urlencoded",
            "prompt=a+cat&size=512x288&metadata[shop]=7&metadata[k+y]=a+b",
        )
        .await,
    ] {
        let made = reply.good();
        assert_eq!(made["metadata"], expected);
        let path = format!("/v1/videos/{}", made["id"].as_str().unwrap());
        assert_eq!(app.get(&path).await.good()["metadata"], expected);
    }
    assert_eq!(app.create(with(json!({}))).await.good()["metadata"], json!({}));
}

#[tokio::test]
async fn lists_look_for_a_model_and_for_metadata() {
    let app = TestApp::start().await;
    let mut made = Vec::new();
    for (model, metadata) in [
        ("sora-2", json!({"shop": "7", "color": "red"})),
        ("sora-2", json!({"shop": "7"})),
        ("MiniMax-H3", json!({"shop": "8", "color": "red"})),
        ("MiniMax-H3", json!({})),
    ] {
        let video = app.create(with(json!({"model": model, "metadata": metadata}))).await.good();
        made.push(video["id"].as_str().unwrap().to_owned());
    }
    let of = |places: &[usize]| places.iter().map(|place| made[*place].clone()).collect::<Vec<_>>();
    for (query, places) in [
        ("model=sora-2", &[0, 1][..]),
        ("model=sora", &[]),
        ("metadata[shop]=7", &[0, 1]),
        ("metadata%5Bshop%5D=7&metadata%5Bcolor%5D=red", &[0]),
        ("metadata[color]=red", &[0, 2]),
        ("metadata[color]=red&model=MiniMax-H3", &[2]),
        ("metadata[shop]=7&status=completed", &[]),
        ("metadata[7]=shop", &[]),
        ("metadata[color]=red&limit=1", &[0]),
    ] {
        assert_eq!(ids(&app, query).await, of(places), "{query}");
    }
    assert_eq!(ids(&app, &format!("metadata[color]=red&limit=1&after={}", made[0])).await, of(&[2]));
    let twice = app.get("/v1/videos?metadata[a]=1&metadata[a]=2").await;
    twice.refused(400, "invalid_value", Some("metadata[a]"));
    app.get("/v1/videos?metadata=1").await.refused(400, "invalid_value", Some("metadata"));
}

#[tokio::test]
async fn an_empty_value_is_a_value_however_it_comes_and_is_looked_for_as_one() {
    let app = TestApp::start().await;
    let expected = json!({"batch": ""});
    let mut made = Vec::new();
    for reply in [
        app.create(with(json!({"metadata": expected.clone()}))).await,
        app.post_form(Form::new().text("size", "512x288").text("metadata[batch]", "")).await,
        app.post_form(Form::new().text("size", "512x288").json("metadata", expected.clone())).await,
        app.post("/v1/videos", "application/x-www-form-urlencoded", "prompt=x&size=512x288&metadata[batch]=").await,
    ] {
        let video = reply.good();
        assert_eq!(video["metadata"], expected);
        made.push(video["id"].as_str().unwrap().to_owned());
    }
    app.create(with(json!({"metadata": {"batch": "1"}}))).await.good();
    app.create(with(json!({}))).await.good();
    assert_eq!(ids(&app, "metadata[batch]=").await, made);
    assert_eq!(ids(&app, "metadata[other]=").await, Vec::<String>::new());
    // Nor are two requests one that differ in it.
    let key = [("idempotency-key", "k")];
    app.create_with(with(json!({"metadata": {}})), &key).await.good();
    let other = app.create_with(with(json!({"metadata": expected})), &key).await;
    other.refused(409, "idempotency_key_reused", Some("Idempotency-Key"));
}

#[tokio::test]
async fn a_user_is_told_back_and_metrics_to_who_asked_for_them() {
    let app = TestApp::start().await;
    let asked = app.create(with(json!({"user": "ann", "return_stage_metrics": true}))).await.good();
    let plain = app.create(with(json!({"return_stage_metrics": "false"}))).await.good();
    assert_eq!((&asked["user"], &asked["metrics"]), (&json!("ann"), &json!(null)));
    assert_eq!((&plain["user"], &plain["metrics"]), (&json!(null), &json!(null)));
    let worker = app.worker();
    worker.do_one().await;
    worker.do_one().await;
    let seen = async |video: &Value| app.get(&format!("/v1/videos/{}", video["id"].as_str().unwrap())).await.good();
    let metrics = json!({"denoise": {"duration_s": 10.5}, "decode_video": {"duration_s": 1.25}});
    assert_eq!(seen(&asked).await["metrics"], metrics);
    assert_eq!(seen(&plain).await["metrics"], json!(null));
}

#[tokio::test]
async fn a_file_is_kept_as_long_as_asked_and_no_longer_than_the_service_keeps_any() {
    let policy = Policy { result_life: Some(Duration::from_secs(86_400)), ..Policy::default() };
    let app = TestApp::start_under(Options::default(), policy).await;
    let worker = app.worker();
    for (asked, kept) in [
        (json!(3600), 3600),
        (json!({"anchor": "completed_at", "seconds": 7200}), 7200),
        (json!(604_800), 86_400),
        (json!(null), 86_400),
    ] {
        let made = app.create(with(json!({"expires_after": asked}))).await.good();
        assert_eq!(made["expires_at"], json!(null));
        worker.do_one().await;
        let done = app.get(&format!("/v1/videos/{}", made["id"].as_str().unwrap())).await.good();
        assert_eq!(done["expires_at"].as_i64().unwrap() - done["completed_at"].as_i64().unwrap(), kept, "{asked}");
    }
    let form = Form::new().text("size", "512x288").text("expires_after[anchor]", "completed_at");
    let made = app.post("/v1/videos", FORM, form.text("expires_after[seconds]", "5000").body()).await.good();
    worker.do_one().await;
    let done = app.get(&format!("/v1/videos/{}", made["id"].as_str().unwrap())).await.good();
    assert_eq!(done["expires_at"].as_i64().unwrap() - done["completed_at"].as_i64().unwrap(), 5000);
}

#[tokio::test]
async fn a_job_has_the_trace_of_its_request_if_that_can_be_read() {
    let app = TestApp::start().await;
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (header, expected) in [(good, Some(good)), ("00-x", None), ("", None)] {
        let reply = app.create_with(with(json!({})), &[("traceparent", header)]).await.good();
        let job = app.job(reply["id"].as_str().unwrap()).await;
        assert_eq!(job.trace.as_ref().map(|trace| trace.as_str()), expected);
    }
}
