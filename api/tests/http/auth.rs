//! Keys, and the tenants that they stand for.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use clapboard_api::{Auth, Options};
use clapboard_jobs::{ApiKey, KeyHash, Scope, Tenant, TenantLimits};
use futures_util::StreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::{Reply, TestApp};
use crate::connections::within;
use crate::warnings::Warnings;

const ANN: &str = "sk-ann";
const BOB: &str = "sk-bob";

fn hash(key: &str) -> KeyHash {
    KeyHash(Sha256::digest(key).into())
}

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

/// A service that asks for keys and knows those of two tenants.
async fn guarded() -> TestApp {
    let app = TestApp::start_with(Options { auth: Auth::Keys, ..Options::default() }).await;
    for (key, name) in [(ANN, "ann"), (BOB, "bob")] {
        app.state.store.add_key(&hash(key), &ApiKey::new(tenant(name), "test")).await.unwrap();
    }
    app
}

async fn call_as(app: &TestApp, key: &str, method: Method, path: &str) -> Reply {
    let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {key}"));
    app.send(request.body(Body::empty()).unwrap()).await
}

async fn create_as(app: &TestApp, key: &str) -> Reply {
    let request = Request::post("/v1/videos")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {key}"));
    app.send(request.body(Body::from(r#"{"prompt": "a cat", "size": "512x288"}"#)).unwrap()).await
}

#[tokio::test]
async fn nothing_under_v1_is_to_be_had_without_a_key() {
    let app = guarded().await;
    for (method, path) in [
        (Method::GET, "/v1/videos"),
        (Method::POST, "/v1/videos"),
        (Method::POST, "/v1/videos/sync"),
        (Method::GET, "/v1/videos/video_gen_00000000000000000000000000000000"),
        (Method::DELETE, "/v1/videos/video_gen_00000000000000000000000000000000"),
        (Method::GET, "/v1/videos/video_gen_00000000000000000000000000000000/content"),
        (Method::PUT, "/v1/videos"),
        (Method::GET, "/v1/models"),
        (Method::GET, "/v1/webhook_endpoints"),
        (Method::GET, "/v1/webhook_secret"),
        (Method::GET, "/v1/nowhere"),
        (Method::GET, "/v1"),
    ] {
        let reply = app.call(method.clone(), path).await;
        let message = reply.refused(401, "invalid_api_key", None);
        assert_eq!(message, "an API key is needed: Authorization: Bearer KEY", "{method} {path}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        let message = call_as(&app, "sk-other", method, path).await.refused(401, "invalid_api_key", None);
        assert_eq!(message, "the API key is not known here");
    }
    let head = app.call(Method::HEAD, "/v1/videos/x/content").await;
    assert_eq!(head.status, StatusCode::UNAUTHORIZED);
    for path in ["/health", "/ready", "/openapi.json"] {
        assert_eq!(app.get(path).await.status, StatusCode::OK, "{path}");
    }
    app.get("/nowhere").await.refused(404, "not_found", None);
}

#[tokio::test]
async fn a_key_opens_what_is_its_tenants_and_nothing_else() {
    let app = guarded().await;
    let id = create_as(&app, ANN).await.good()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/videos/{id}");
    assert_eq!(call_as(&app, ANN, Method::GET, &path).await.good()["id"], id);
    assert_eq!(call_as(&app, ANN, Method::GET, "/v1/videos").await.good()["first_id"], id);
    for (method, path) in
        [(Method::GET, path.clone()), (Method::DELETE, path.clone()), (Method::GET, format!("{path}/content"))]
    {
        call_as(&app, BOB, method, &path).await.refused(404, "not_found", Some("video_id"));
    }
    assert_eq!(call_as(&app, BOB, Method::GET, "/v1/videos").await.good()["data"], json!([]));
    let after = call_as(&app, BOB, Method::GET, &format!("/v1/videos?after={id}")).await;
    after.refused(400, "invalid_cursor", Some("after"));
    let job = app.state.store.get(&tenant("ann"), id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(job.tenant, tenant("ann"));

    app.worker().do_one().await;
    call_as(&app, BOB, Method::GET, &format!("{path}/content")).await.refused(404, "not_found", Some("video_id"));
    assert_eq!(call_as(&app, ANN, Method::GET, &format!("{path}/content")).await.status, StatusCode::OK);
    call_as(&app, ANN, Method::DELETE, &path).await.good();
}

#[tokio::test]
async fn a_synchronous_request_waits_for_the_video_of_its_tenant() {
    let app = guarded().await;
    let request = Request::post("/v1/videos/sync")
        .header("content-type", "application/json")
        .header("authorization", format!("bearer {ANN}"));
    let request = request.body(Body::from(r#"{"prompt": "a cat", "size": "512x288"}"#)).unwrap();
    let worker = app.worker();
    let work = async {
        let query = clapboard_jobs::ListQuery::default();
        app.until(async || app.state.store.list(&tenant("ann"), &query).await.unwrap().jobs.pop()).await;
        worker.do_one().await;
    };
    let (reply, ()) = within(async { tokio::join!(app.send(request), work) }).await;
    assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "video/mp4"));
}

#[tokio::test]
async fn a_known_key_is_not_looked_up_every_time_and_a_new_one_works_at_once() {
    let app = guarded().await;
    let id = create_as(&app, ANN).await.good()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/videos/{id}");
    call_as(&app, "sk-new", Method::GET, &path).await.refused(401, "invalid_api_key", None);
    let key = ApiKey::new(tenant("ann"), "test");
    app.state.store.add_key(&hash("sk-new"), &key).await.unwrap();
    assert_eq!(call_as(&app, "sk-new", Method::GET, &path).await.good()["id"], id);

    app.state.store.revoke_key(key.id).await.unwrap().unwrap();
    assert_eq!(call_as(&app, "sk-new", Method::GET, &path).await.good()["id"], id, "it is remembered for a moment");
}

#[tokio::test]
async fn keys_that_cannot_be_looked_up_are_not_wrong_ones() {
    let (app, store) = guarded().await.over_faulty();
    store.go_away();
    let reply = call_as(&app, ANN, Method::GET, "/v1/videos").await;
    assert_eq!(reply.refused(503, "no_capacity", None), "the job store could not be reached");
    assert_eq!(reply.header("retry-after"), "5");
    store.come_back();
    call_as(&app, ANN, Method::GET, "/v1/videos").await.good();
}

#[tokio::test]
async fn a_service_that_asks_for_no_keys_does_not_look_at_them() {
    let app = TestApp::start().await;
    let id = create_as(&app, ANN).await.good()["id"].as_str().unwrap().to_owned();
    for value in ["Bearer sk-anything", "Basic x", ""] {
        let reply = app.get_with(&format!("/v1/videos/{id}"), &[("authorization", value)]).await;
        assert_eq!(reply.status, StatusCode::OK, "{value:?}");
    }
    assert_eq!(app.job(&id).await.tenant, Tenant::default());
}

#[tokio::test]
async fn a_tenant_with_a_full_queue_is_told_to_come_back_and_others_are_not() {
    let app = guarded().await;
    let limits = TenantLimits { max_queued: Some(1), ..TenantLimits::default() };
    app.state.store.set_tenant(&tenant("ann"), &limits).await.unwrap();
    create_as(&app, ANN).await.good();
    let reply = create_as(&app, ANN).await;
    assert_eq!(reply.refused(429, "queue_full", None), "as many videos are waiting as may: 1");
    assert_eq!(reply.header("retry-after"), "30");
    create_as(&app, BOB).await.good();
    app.worker().begin().await;
    app.worker().begin().await;
    create_as(&app, ANN).await.good();
}

#[tokio::test]
async fn who_is_refused_in_the_middle_of_sending_gets_to_read_why() {
    let app = guarded().await;
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    let body = vec![b' '; 4 << 20];
    let head = format!(
        "POST /v1/videos HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    within(client.write_all(&body)).await.unwrap();
    let mut answer = String::new();
    within(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("invalid_api_key"), "{answer}");
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_its_streams_of_events() {
    let pause = Duration::from_millis(2);
    let options = Options { auth: Auth::Keys, key_memory: pause, event_poll: pause, ..Options::default() };
    let app = TestApp::start_with(options).await;
    let (key, other) = (ApiKey::new(tenant("ann"), "old"), ApiKey::new(tenant("ann"), "other"));
    app.state.store.add_key(&hash(ANN), &key).await.unwrap();
    app.state.store.add_key(&hash(BOB), &other).await.unwrap();
    let id = create_as(&app, ANN).await.good()["id"].as_str().unwrap().to_owned();
    let request = |key: &str| {
        let request = Request::get(format!("/v1/videos/{id}/events")).header("authorization", format!("Bearer {key}"));
        request.body(Body::empty()).unwrap()
    };
    let mut kept = app.answer(request(BOB)).await.into_body().into_data_stream();
    let mut lost = app.answer(request(ANN)).await.into_body().into_data_stream();
    for stream in [&mut kept, &mut lost] {
        assert!(within(stream.next()).await.unwrap().unwrap().starts_with(b"event: video.progress"));
    }
    app.state.store.revoke_key(key.id).await.unwrap().unwrap();
    assert!(within(lost.next()).await.is_none(), "the queued video has changed nothing");
    app.worker().do_one().await;
    let mut last = Vec::new();
    while let Some(event) = within(kept.next()).await {
        last = event.unwrap().to_vec();
    }
    assert!(last.starts_with(b"event: video.completed"), "the other key's goes on to the end");
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_the_wait_for_a_video_which_goes_on() {
    let pause = Duration::from_millis(2);
    let options = Options { auth: Auth::Keys, key_memory: pause, sync_poll: pause, ..Options::default() };
    let app = TestApp::start_with(options).await;
    let (key, other) = (ApiKey::new(tenant("ann"), "old"), ApiKey::new(tenant("ann"), "other"));
    app.state.store.add_key(&hash(ANN), &key).await.unwrap();
    app.state.store.add_key(&hash(BOB), &other).await.unwrap();
    let request = |key: &str| {
        let request = Request::post("/v1/videos/sync")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {key}"));
        app.send(request.body(Body::from(r#"{"prompt": "a cat", "size": "512x288"}"#)).unwrap())
    };
    let waiting = async || {
        let query = clapboard_jobs::ListQuery::default();
        app.state.store.list(&tenant("ann"), &query).await.unwrap().jobs
    };
    let revoke = async {
        app.until(async || (waiting().await.len() == 1).then_some(())).await;
        app.state.store.revoke_key(key.id).await.unwrap().unwrap();
    };
    let (lost, ()) = within(async { tokio::join!(request(ANN), revoke) }).await;
    let id = waiting().await[0].id.to_string();
    let message = lost.refused(401, "invalid_api_key", None);
    assert_eq!(message, format!("the API key was taken away before the video was finished, which goes on as {id}"));
    assert_eq!((lost.header("x-video-id"), lost.header("www-authenticate")), (id.as_str(), "Bearer"));
    app.state.tasks.close();
    app.state.tasks.wait().await;
    assert_eq!(call_as(&app, BOB, Method::GET, &format!("/v1/videos/{id}")).await.good()["status"], "queued");

    let worker = app.worker();
    let work = async {
        app.until(async || (waiting().await.len() == 2).then_some(())).await;
        worker.do_one().await;
        worker.do_one().await;
    };
    let (kept, ()) = within(async { tokio::join!(request(BOB), work) }).await;
    assert_eq!((kept.status, kept.header("content-type")), (StatusCode::OK, "video/mp4"));
}

#[tokio::test]
async fn an_outage_while_a_client_waits_is_told_once_a_look_and_takes_no_key_away() {
    let pause = Duration::from_millis(2);
    let options = Options { auth: Auth::Keys, key_memory: pause, sync_poll: pause, ..Options::default() };
    let (app, store) = TestApp::start_with(options).await.over_faulty();
    app.state.store.add_key(&hash(ANN), &ApiKey::new(tenant("ann"), "ann")).await.unwrap();
    let request = Request::post("/v1/videos/sync")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {ANN}"));
    let request = app.send(request.body(Body::from(r#"{"prompt": "a cat", "size": "512x288"}"#)).unwrap());
    let (warnings, _guard) = Warnings::keep();
    let query = clapboard_jobs::ListQuery::default();
    let outage = async {
        app.until(async || app.state.store.list(&tenant("ann"), &query).await.unwrap().jobs.pop()).await;
        store.go_away();
        app.until(async || (warnings.all().len() >= 6).then_some(())).await;
        store.come_back();
        app.worker().do_one().await;
    };
    let (reply, ()) = within(async { tokio::join!(request, outage) }).await;
    assert_eq!((reply.status, reply.header("content-type")), (StatusCode::OK, "video/mp4"));
    let told = warnings.all();
    assert!(told.iter().all(|message| message == "could not look at a job"), "{told:?}");
}

#[tokio::test]
async fn a_key_is_good_for_its_scopes_alone() {
    let app = guarded().await;
    let (nowhere, video) = ("/v1/videos/video_gen_00000000000000000000000000000000", "/v1/videos");
    for (name, scope) in [("read", Scope::Read), ("write", Scope::Write), ("hooks", Scope::Webhooks)] {
        let key = ApiKey { scopes: [scope].into(), ..ApiKey::new(tenant("ann"), name) };
        app.state.store.add_key(&hash(name), &key).await.unwrap();
        for (method, path, needed) in [
            (Method::GET, video, Scope::Read),
            (Method::GET, nowhere, Scope::Read),
            (Method::DELETE, nowhere, Scope::Write),
            (Method::POST, video, Scope::Write),
            (Method::GET, "/v1/webhook_endpoints", Scope::Webhooks),
            (Method::GET, "/v1/webhook_secret", Scope::Webhooks),
        ] {
            let reply = call_as(&app, name, method.clone(), path).await;
            if scope == needed {
                assert_ne!(reply.status, StatusCode::FORBIDDEN, "{name} {method} {path}");
            } else {
                let message = reply.refused(403, "insufficient_scope", None);
                assert_eq!(message, format!("the API key is not good for this: it lacks the scope {needed}"));
            }
        }
        call_as(&app, name, Method::GET, "/v1/models").await.good();
    }
    assert!(app.state.store.list(&tenant("ann"), &clapboard_jobs::ListQuery::default()).await.unwrap().jobs.is_empty());
}

#[tokio::test]
async fn a_revoked_key_is_good_for_nothing() {
    let app = guarded().await;
    let key = ApiKey::new(tenant("ann"), "old");
    app.state.store.add_key(&hash("sk-old"), &key).await.unwrap();
    app.state.store.revoke_key(key.id).await.unwrap().unwrap();
    let message = call_as(&app, "sk-old", Method::GET, "/v1/videos").await.refused(401, "invalid_api_key", None);
    assert_eq!(message, "the API key is not known here");
    call_as(&app, ANN, Method::GET, "/v1/videos").await.good();
}
