//! Videos made from others by another prompt.

use std::sync::Arc;

use clapboard_api::{AppState, Options};
use clapboard_h3::ModelProfile;
use clapboard_jobs::{BlobKey, FailureCode, JobError, Outcome};
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use crate::app::{Reply, TestApp};
use crate::media::{Form, files};

async fn remix(app: &TestApp, id: &str, fields: Value) -> Reply {
    app.post(&format!("/v1/videos/{id}/remix"), "application/json", fields.to_string()).await
}

#[tokio::test]
async fn a_remix_is_its_original_but_for_prompt_and_seed() {
    let app = TestApp::start().await;
    let fields = json!({
        "prompt": "a cat", "model": "sora-2", "size": "512x288", "seconds": 5, "num_inference_steps": 20, "seed": 7,
        "quality": "high", "metadata": {"k": "v"}, "user": "ann"
    });
    let original = app.create(fields).await.good();
    let id = original["id"].as_str().unwrap();
    let reply = remix(&app, id, json!({"prompt": "a dog"})).await;
    let made = reply.good();
    assert_eq!(reply.header("openai-poll-after-ms"), "2000");
    assert_eq!((&made["prompt"], &made["remixed_from_video_id"]), (&json!("a dog"), &json!(id)));
    assert_eq!((&made["metadata"], &made["user"]), (&json!({}), &json!(null)));
    for key in ["model", "size", "seconds", "num_frames", "forwards", "quality", "task"] {
        assert_eq!(made[key], original[key], "{key}");
    }
    assert_ne!(made["seed"], original["seed"]);
    assert_eq!(original["remixed_from_video_id"], json!(null));
    let job = app.job(made["id"].as_str().unwrap()).await;
    let (spec, of_original) = (job.spec.decode().unwrap(), app.job(id).await.spec.decode().unwrap());
    assert_eq!((&spec.video_sigmas, &spec.audio_sigmas), (&of_original.video_sigmas, &of_original.audio_sigmas));
    assert_eq!(app.hints().await, 2);

    let named = json!({"prompt": "a dog", "seed": -5, "priority": "low", "metadata": {"a": "b"}, "foo": 1});
    let reply = remix(&app, id, named).await;
    let made = reply.good();
    assert_eq!((&made["seed"], &made["priority"], &made["metadata"]), (&json!(-5), &json!("low"), &json!({"a": "b"})));
    assert_eq!(reply.header("x-ignored-fields"), "foo");
    let form = app.post(&format!("/v1/videos/{id}/remix"), "application/x-www-form-urlencoded", "prompt=a+fox").await;
    assert_eq!(form.good()["prompt"], "a fox");
}

#[tokio::test]
async fn a_video_in_any_state_can_be_remixed_and_a_remix_too() {
    let app = TestApp::start().await;
    let done = app.create_any().await;
    app.worker().do_one().await;
    let made = remix(&app, &done, json!({"prompt": "a dog"})).await.good();
    let id = made["id"].as_str().unwrap().to_owned();
    app.worker().fail_one().await;
    let second = remix(&app, &id, json!({"prompt": "a fox"})).await.good();
    assert_eq!(second["remixed_from_video_id"], json!(id));
    app.call(axum::http::Method::DELETE, &format!("/v1/videos/{id}")).await.good();
    let path = format!("/v1/videos/{}", second["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.good()["remixed_from_video_id"], json!(id), "the name stays");
    remix(&app, &id, json!({"prompt": "a fox"})).await.refused(404, "not_found", Some("video_id"));
}

#[tokio::test]
async fn the_references_of_the_original_are_copied_for_its_remix() {
    let app = TestApp::start_all(Options::default()).await;
    let form = Form::new()
        .text("task", "ref2va")
        .text("seconds", "5")
        .file("input_references", &files().png)
        .file("input_references", &files().jpeg);
    let original = app.post_form(form).await.good()["id"].as_str().unwrap().to_owned();
    let made = remix(&app, &original, json!({"prompt": "a dog"})).await.good();
    let job = app.job(made["id"].as_str().unwrap()).await;
    let (spec, of_original) = (job.spec.decode().unwrap(), app.job(&original).await.spec.decode().unwrap());
    assert_eq!(spec.inputs.len(), 2);
    for (input, from) in spec.inputs.iter().zip(&of_original.inputs) {
        assert_eq!((input.role, input.shape), (from.role, from.shape));
        assert!(input.object.starts_with(&format!("v1/default/{}/input-", job.id)), "{}", input.object);
        assert_eq!(bytes(&app, &input.object).await, bytes(&app, &from.object).await);
    }
    assert_eq!(app.spooled(), 0);

    // What goes with the original is not the remix's.
    app.call(axum::http::Method::DELETE, &format!("/v1/videos/{original}")).await.good();
    for key in app.state.store.garbage(10).await.unwrap() {
        app.state.blob.delete(&key).await.unwrap();
    }
    for input in &spec.inputs {
        assert!(bytes(&app, &input.object).await.is_some(), "{} went with its original", input.object);
    }
    // A failed video keeps its references; a cancelled one does not.
    let worker = app.worker();
    let claimed = worker.begin().await;
    let error = JobError::new(FailureCode::GenerationFailed, "x");
    app.state.store.finish(&claimed.lease, Outcome::Failed(error)).await.unwrap();
    let id = job.id.to_string();
    let third = remix(&app, &id, json!({"prompt": "a fox"})).await.good()["id"].as_str().unwrap().to_owned();
    app.call(axum::http::Method::POST, &format!("/v1/videos/{third}/cancel")).await.good();
    for key in app.state.store.garbage(10).await.unwrap() {
        app.state.blob.delete(&key).await.unwrap();
    }
    let reply = remix(&app, &third, json!({"prompt": "a cow"})).await;
    let message = reply.refused(400, "unsupported_reference", Some("video_id"));
    assert_eq!(
        message,
        format!("the references of {third} are not kept any more; make a new video and send them again")
    );
    assert_eq!(app.jobs().await.len(), 2);
}

async fn bytes(app: &TestApp, object: &str) -> Option<Vec<u8>> {
    let key: BlobKey = object.parse().unwrap();
    let opened = app.state.blob.open(&key, None).await.unwrap()?;
    let chunks: Vec<bytes::Bytes> = opened.stream.try_collect().await.unwrap();
    Some(chunks.concat())
}

#[tokio::test]
async fn a_remix_is_made_by_what_is_served_now() {
    let app = TestApp::start().await;
    let fields = json!({"prompt": "a cat", "model": "sora-2", "size": "512x288", "num_inference_steps": 50});
    let old = app.create(fields.clone()).await.good()["id"].as_str().unwrap().to_owned();

    // The same geometry, distilled for a few steps of its own, under another name.
    let base_schedule = Some(vec![0.999, 0.9, 0.6, 0.25, 0.0]);
    let profile = ModelProfile { base_schedule, name: "quick".to_owned(), ..(*app.state.profile).clone() };
    let options = Options { model_aliases: Vec::new(), ..(*app.state.options).clone() };
    let state = AppState { profile: Arc::new(profile), options: Arc::new(options), ..app.state.clone() };
    let app = app.with(state);
    let message =
        remix(&app, &old, json!({"prompt": "a dog"})).await.refused(400, "unsupported_task", Some("video_id"));
    assert_eq!(message, "the video cannot be remixed: it was made in other steps than the model is distilled for");

    let fields = json!({"prompt": "a cat", "size": "512x288", "flow_shift": 7, "audio_flow_shift": 2.5});
    let new = app.create(fields).await.good()["id"].as_str().unwrap().to_owned();
    let made = remix(&app, &new, json!({"prompt": "a dog"})).await.good();
    let (spec, of_original) = (app.job(made["id"].as_str().unwrap()).await.spec, app.job(&new).await.spec);
    let (spec, of_original) = (spec.decode().unwrap(), of_original.decode().unwrap());
    assert_eq!((&spec.video_sigmas, &spec.audio_sigmas), (&of_original.video_sigmas, &of_original.audio_sigmas));

    // Served as before, but for the name that the original was asked for by.
    let profile = ModelProfile { base_schedule: None, ..(*app.state.profile).clone() };
    let state = AppState { profile: Arc::new(profile), ..app.state.clone() };
    let app = app.with(state);
    assert_eq!(remix(&app, &old, json!({"prompt": "a dog"})).await.good()["model"], "quick");
}

#[tokio::test]
async fn what_a_remix_cannot_change_is_refused_by_name() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    for (fields, code, param) in [
        (json!({}), "missing_required_parameter", "prompt"),
        (json!({"prompt": ""}), "missing_required_parameter", "prompt"),
        (json!({"prompt": "x".repeat(7001)}), "string_above_max_length", "prompt"),
        (json!({"prompt": "<|image_pad|>"}), "invalid_value", "prompt"),
        (json!({"prompt": "a dog", "size": "512x288"}), "unsupported_parameter", "size"),
        (json!({"prompt": "a dog", "seconds": 5}), "unsupported_parameter", "seconds"),
        (json!({"prompt": "a dog", "model": "sora-2"}), "unsupported_parameter", "model"),
        (json!({"prompt": "a dog", "seed": "x"}), "invalid_value", "seed"),
        (json!({"prompt": "a dog", "metadata": []}), "invalid_value", "metadata"),
    ] {
        remix(&app, &id, fields).await.refused(400, code, Some(param));
    }
    let form = Form::new().file("input_reference", &files().png);
    let reply = app.post(&format!("/v1/videos/{id}/remix"), crate::media::FORM, form.body()).await;
    reply.refused(400, "unsupported_parameter", Some("input_reference"));
    app.until_spool_is_empty().await;
    assert_eq!(app.jobs().await.len(), 1);
}
