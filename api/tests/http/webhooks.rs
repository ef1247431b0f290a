//! Webhook endpoints, what was told to them, and what signs it.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use clapboard_api::{Auth, Options};
use clapboard_jobs::{ApiKey, Due, KeyHash, MAX_TRIES, Secret, Tenant, Tried};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::app::{Reply, TestApp};
use crate::connections::within;

const ENDPOINTS: &str = "/v1/webhook_endpoints";
const DELIVERIES: &str = "/v1/webhook_deliveries";

async fn post(app: &TestApp, path: &str, body: Value) -> Reply {
    app.post(path, "application/json", body.to_string()).await
}

/// Makes an endpoint and returns what the reply says of it.
async fn endpoint(app: &TestApp, url: &str) -> Value {
    let body = json!({"name": "mine", "url": url, "event_types": ["video.completed", "video.failed"]});
    post(app, ENDPOINTS, body).await.good()
}

fn path_of(endpoint: &Value) -> String {
    format!("{ENDPOINTS}/{}", endpoint["id"].as_str().unwrap())
}

/// Takes the only delivery that is due.
async fn take(app: &TestApp) -> Due {
    app.until(async || app.state.store.take_due(1, 1, 1, Duration::from_secs(60)).await.unwrap().pop()).await
}

async fn told(app: &TestApp, due: &Due, tried: Tried) {
    app.state.store.tried(due.id, due.number, &tried).await.unwrap();
}

fn failed(error: &str) -> Tried {
    Tried::Failed { status: None, error: error.to_owned(), after: None }
}

#[tokio::test]
async fn an_endpoint_is_made_shown_changed_and_deleted_in_the_shape_of_openai() {
    let app = TestApp::start().await;
    let made = endpoint(&app, "https://hooks.example/x?y=1").await;
    let secret: Secret = made["signing_secret"].as_str().unwrap().parse().unwrap();
    let hint = made["signing_secret_hint"].as_str().unwrap().to_owned();
    assert!(hint.starts_with("whsec_\u{2026}") && secret.expose().ends_with(&hint["whsec_\u{2026}".len()..]), "{hint}");
    let mut expected = json!({
        "id": made["id"], "object": "webhook_endpoint", "created_at": 1_764_000_000, "updated_at": 1_764_000_000, "name": "mine",
        "url": "https://hooks.example/x?y=1", "event_types": ["video.completed", "video.failed"],
        "signing_secret_hint": hint, "enabled": true, "disabled_at": null, "disabled_reason": null,
    });
    assert_eq!(app.get(&path_of(&made)).await.good(), expected);
    assert!(made["id"].as_str().unwrap().starts_with("we_"));

    app.clock.advance(Duration::from_secs(7));
    let change = json!({"name": "renamed", "event_types": ["video.failed"], "url": "https://other.example/"});
    expected["updated_at"] = json!(1_764_000_007);
    expected["name"] = json!("renamed");
    expected["event_types"] = json!(["video.failed"]);
    expected["url"] = json!("https://other.example/");
    assert_eq!(post(&app, &path_of(&made), change).await.good(), expected);
    app.clock.advance(Duration::from_secs(7));
    assert_eq!(post(&app, &path_of(&made), json!({})).await.good(), expected, "nothing changed");
    let off = post(&app, &path_of(&made), json!({"enabled": false})).await.good();
    assert_eq!((&off["enabled"], off["disabled_at"].is_i64()), (&json!(false), true));
    expected["updated_at"] = off["updated_at"].clone();
    assert_eq!(post(&app, &path_of(&made), json!({"enabled": true})).await.good(), expected);

    let gone = app.call(Method::DELETE, &path_of(&made)).await.good();
    assert_eq!(gone, json!({"id": made["id"], "object": "webhook_endpoint.deleted", "deleted": true}));
    for (method, path) in [
        (Method::GET, path_of(&made)),
        (Method::POST, path_of(&made)),
        (Method::DELETE, path_of(&made)),
        (Method::POST, format!("{}/rotate_secret", path_of(&made))),
        (Method::GET, format!("{ENDPOINTS}/we_nonsense")),
    ] {
        let message = app.call(method.clone(), &path).await.refused(404, "not_found", Some("webhook_endpoint_id"));
        assert_eq!(message, "Webhook endpoint not found", "{method} {path}");
    }
}

#[tokio::test]
async fn endpoints_are_listed_newest_first_page_by_page() {
    let app = TestApp::start().await;
    let empty = app.get(ENDPOINTS).await.good();
    assert_eq!(empty, json!({"object": "list", "data": [], "first_id": null, "last_id": null, "has_more": false}));
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.insert(0, endpoint(&app, &format!("https://a.example/{number}")).await["id"].clone());
        app.clock.advance(Duration::from_secs(1));
    }
    let all = app.get(ENDPOINTS).await.good();
    let listed: Vec<Value> = all["data"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!((&listed, &all["has_more"]), (&ids, &json!(false)));
    assert!(all["data"].as_array().unwrap().iter().all(|one| one.get("signing_secret").is_none()));
    let first = app.get(&format!("{ENDPOINTS}?limit=2")).await.good();
    assert_eq!((&first["first_id"], &first["last_id"], &first["has_more"]), (&ids[0], &ids[1], &json!(true)));
    let after = ids[2].as_str().unwrap();
    let last = app.get(&format!("{ENDPOINTS}?limit=2&after={after}")).await.good();
    assert_eq!((&last["first_id"], &last["last_id"], &last["has_more"]), (&ids[3], &ids[4], &json!(false)));
    app.get(&format!("{ENDPOINTS}?after=we_00000000000000000000000000000000")).await.refused(
        400,
        "invalid_cursor",
        Some("after"),
    );
    app.get(&format!("{ENDPOINTS}?limit=101")).await.refused(400, "invalid_value", Some("limit"));
}

#[tokio::test]
async fn what_is_no_endpoint_is_refused_by_its_field() {
    let app = TestApp::start().await;
    let good = json!({"name": "x", "url": "https://a.example/", "event_types": ["video.failed"]});
    for (field, value, code, param) in [
        ("url", json!(null), "missing_required_parameter", "url"),
        ("name", json!("a\0b"), "invalid_value", "name"),
        ("url", json!(""), "missing_required_parameter", "url"),
        ("url", json!(7), "invalid_value", "url"),
        ("url", json!("http://a.example/"), "invalid_webhook_url", "url"),
        ("url", json!("nonsense"), "invalid_webhook_url", "url"),
        ("url", json!("https://me:secret@a.example/"), "invalid_webhook_url", "url"),
        ("url", json!("https://127.0.0.1/"), "webhook_url_forbidden", "url"),
        ("url", json!("https://[::ffff:169.254.169.254]/"), "webhook_url_forbidden", "url"),
        ("url", json!("https://a.example:22/"), "webhook_url_forbidden", "url"),
        ("name", json!(null), "missing_required_parameter", "name"),
        ("name", json!("x".repeat(257)), "string_above_max_length", "name"),
        ("event_types", json!(null), "missing_required_parameter", "event_types"),
        ("event_types", json!([]), "invalid_value", "event_types"),
        ("event_types", json!("batch.completed"), "invalid_value", "event_types"),
        ("event_types", json!(["video.failed", "batch.completed"]), "invalid_value", "event_types"),
        ("event_types", json!("[\"video.failed\""), "invalid_json", "event_types"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let message = post(&app, ENDPOINTS, body.clone()).await.refused(400, code, Some(param));
        assert!(!message.contains("secret"), "{message}");
    }
    let made = post(&app, ENDPOINTS, good.clone()).await.good();
    for (field, value) in [("url", json!("http://a.example/")), ("event_types", json!([])), ("enabled", json!("soon"))]
    {
        assert_eq!(post(&app, &path_of(&made), json!({field: value})).await.status, StatusCode::BAD_REQUEST, "{field}");
    }
    let mut strange = good.clone();
    strange["colour"] = json!("red");
    assert_eq!(post(&app, ENDPOINTS, strange.clone()).await.header("x-ignored-fields"), "colour");
    let strict = Request::post(ENDPOINTS).header("content-type", "application/json").header("x-strict", "1");
    let reply = app.send(strict.body(Body::from(strange.to_string())).unwrap()).await;
    reply.refused(400, "unknown_parameter", Some("colour"));
    assert_eq!(app.get(ENDPOINTS).await.good()["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn only_so_many_endpoints_may_there_be() {
    let app = TestApp::start().await;
    for number in 0..32 {
        endpoint(&app, &format!("https://a.example/{number}")).await;
    }
    let body = json!({"name": "mine", "url": "https://a.example/", "event_types": ["video.completed"]});
    let message = post(&app, ENDPOINTS, body).await.refused(400, "invalid_value", None);
    assert_eq!(message, "there may be at most 32 webhook endpoints");
}

#[tokio::test]
async fn as_many_endpoints_as_there_may_be_are_made_however_many_ask_at_once() {
    let app = TestApp::start().await;
    let body = json!({"name": "mine", "url": "https://a.example/", "event_types": ["video.completed"]});
    let asked = (0..40).map(|_| post(&app, ENDPOINTS, body.clone()));
    let replies = futures_util::future::join_all(asked).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == StatusCode::OK).count(), 32);
    assert_eq!(app.get(&format!("{ENDPOINTS}?limit=100")).await.good()["data"].as_array().unwrap().len(), 32);
}

#[tokio::test]
async fn the_fields_of_an_endpoint_come_in_every_encoding() {
    const FORM: &str = "application/x-www-form-urlencoded";
    let app = TestApp::start().await;
    let both = json!(["video.completed", "video.failed"]);
    for (event_types, expected) in [
        ("event_types=video.failed", json!(["video.failed"])),
        ("event_types[]=video.failed", json!(["video.failed"])),
        ("event_types=video.completed&event_types=video.failed", both.clone()),
        ("event_types=[\"video.completed\", \"video.failed\"]", both),
    ] {
        let form = format!("name=x&url=https://a.example/&{event_types}");
        assert_eq!(app.post(ENDPOINTS, FORM, form).await.good()["event_types"], expected, "{event_types}");
    }
    let made = post(&app, ENDPOINTS, json!({"name": "x", "url": "https://a.example/", "event_types": "video.failed"}));
    let made = made.await.good();
    assert_eq!(made["event_types"], json!(["video.failed"]));
    for (word, enabled) in [("off", false), ("on", true), ("0", false), ("yes", true), ("no", false), ("1", true)] {
        let changed = app.post(&path_of(&made), FORM, format!("enabled={word}")).await.good();
        assert_eq!(changed["enabled"], json!(enabled), "{word}");
    }
    assert_eq!(post(&app, &path_of(&made), json!({"enabled": 0})).await.good()["enabled"], json!(false));
}

#[tokio::test]
async fn an_unknown_parameter_of_a_list_is_reported_and_refused_only_on_demand() {
    let app = TestApp::start().await;
    for path in [ENDPOINTS, DELIVERIES] {
        let reply = app.get(&format!("{path}?state=dead&limit=2")).await;
        reply.good();
        assert_eq!(reply.header("x-ignored-fields"), "state");
        assert_eq!(app.get(&format!("{path}?limit=2")).await.header("x-ignored-fields"), "");
        let strict = app.get_with(&format!("{path}?state=dead"), &[("x-strict", "1")]).await;
        assert_eq!(strict.refused(400, "unknown_parameter", Some("state")), "state is not a parameter");
    }
}

#[tokio::test]
async fn a_host_that_the_operator_names_may_be_at_home() {
    let hosts = vec!["nas.home".to_owned(), "192.168.1.2".to_owned()];
    let app = TestApp::start_with(Options { allow_http_webhook_hosts: hosts, ..Options::default() }).await;
    for url in ["http://nas.home:9000/x", "http://192.168.1.2/", "https://nas.home/"] {
        assert_eq!(endpoint(&app, url).await["url"], url);
    }
    let body = json!({"name": "x", "url": "http://192.168.1.3/", "event_types": ["video.failed"]});
    post(&app, ENDPOINTS, body).await.refused(400, "webhook_url_forbidden", Some("url"));
}

#[tokio::test]
async fn a_secret_is_replaced_at_once_or_kept_for_a_day() {
    let app = TestApp::start().await;
    let made = endpoint(&app, "https://a.example/").await;
    let path = format!("{}/rotate_secret", path_of(&made));
    let kept = post(&app, &path, json!({"keep_old_secret_active_for_24_hours": true})).await.good();
    assert_ne!(kept["signing_secret"], made["signing_secret"]);
    assert_eq!(kept["id"], made["id"]);
    post(&app, &format!("{}/test", path_of(&made)), json!({"event_type": "batch.completed"})).await.refused(
        400,
        "invalid_value",
        Some("event_type"),
    );
    app.create_any().await;
    app.worker().do_one().await;
    let due = take(&app).await;
    let signing: Vec<String> = due.secrets.iter().map(Secret::expose).collect();
    assert_eq!(signing, [kept["signing_secret"].as_str().unwrap(), made["signing_secret"].as_str().unwrap()]);
    // Without a body at all, too.
    let replaced = app.call(Method::POST, &path).await.good();
    let stored = app.state.store.endpoints(&Tenant::default()).await.unwrap().pop().unwrap();
    assert_eq!(stored.secret.expose(), replaced["signing_secret"].as_str().unwrap());
    assert_eq!(stored.old_secret, None);
    post(&app, &path, json!({"keep_old_secret_active_for_24_hours": "perhaps"})).await.refused(
        400,
        "invalid_value",
        Some("keep_old_secret_active_for_24_hours"),
    );
}

#[tokio::test]
async fn the_test_of_an_endpoint_tells_how_it_answered() {
    let app = TestApp::start().await;
    let made = endpoint(&app, "https://a.example/").await;
    let path = format!("{}/test", path_of(&made));
    for (tried, status) in [
        (Tried::Delivered { status: 202 }, 202),
        (
            Tried::Failed { status: Some(500), error: "the receiver answered with status 500".to_owned(), after: None },
            500,
        ),
    ] {
        let courier = async {
            let due = take(&app).await;
            told(&app, &due, tried).await;
        };
        let (reply, ()) =
            within(async { tokio::join!(post(&app, &path, json!({"event_type": "video.failed"})), courier) }).await;
        let expected = json!({
            "object": "webhook_endpoint.test", "event_type": "video.failed", "status_code": status, "success": true,
            "webhook_endpoint_id": made["id"],
        });
        assert_eq!(reply.good(), expected);
    }
}

#[tokio::test]
async fn a_test_without_an_answer_is_told_why() {
    let app =
        TestApp::start_with(Options { webhook_test_wait: Duration::from_millis(500), ..Options::default() }).await;
    let made = endpoint(&app, "https://a.example/").await;
    let path = format!("{}/test", path_of(&made));
    let sample = json!({"event_type": "video.completed"});
    let message = post(&app, &path, sample.clone()).await.refused(400, "webhook_test_failed", None);
    let listed = app.get(DELIVERIES).await.good();
    assert_eq!(listed["data"][0]["sample"], json!(true));
    let delivery = listed["first_id"].as_str().unwrap().to_owned();
    let told_by = format!("GET /v1/webhook_deliveries tells what came of {delivery}");
    let untested = "the endpoint could not be tested";
    assert_eq!(message, format!("{untested}: nobody has tried it yet, and somebody may still; {told_by}"));
    // One that somebody has is another matter; and while it is pending, there is no second.
    let due = take(&app).await;
    let reply = post(&app, &path, sample.clone()).await;
    let message = reply.refused(429, "concurrency_limit", None);
    assert_eq!(message, format!("a test of {} is pending", made["id"].as_str().unwrap()));
    assert_eq!(reply.header("retry-after"), "5");
    told(&app, &due, failed("the host is not known")).await;
    let courier = async { (take(&app).await, app.get(DELIVERIES).await.good()["first_id"].clone()) };
    let (reply, (due, delivery)) = within(async { tokio::join!(post(&app, &path, sample.clone()), courier) }).await;
    let message = reply.refused(400, "webhook_test_failed", None);
    let told_by = format!("GET /v1/webhook_deliveries tells what came of {}", delivery.as_str().unwrap());
    assert_eq!(message, format!("{untested}: it has not answered yet, and is waited for still; {told_by}"));
    told(&app, &due, failed("the host is not known")).await;
    post(&app, &path_of(&made), json!({"enabled": false})).await.good();
    let message = post(&app, &path, sample).await.refused(400, "webhook_test_failed", None);
    assert_eq!(message, "the endpoint could not be tested: the endpoint is disabled");
    post(&app, &path, json!({})).await.refused(400, "missing_required_parameter", Some("event_type"));

    let app = TestApp::start().await;
    let made = endpoint(&app, "https://a.example/").await;
    let path = format!("{}/test", path_of(&made));
    let courier = async {
        let due = take(&app).await;
        told(&app, &due, failed("the host is not known")).await;
    };
    let (reply, ()) =
        within(async { tokio::join!(post(&app, &path, json!({"event_type": "video.failed"})), courier) }).await;
    let message = reply.refused(400, "webhook_test_failed", None);
    assert_eq!(message, "the endpoint could not be tested: the host is not known");
}

#[tokio::test]
async fn deliveries_are_listed_and_replayed() {
    let app = TestApp::start().await;
    let first = endpoint(&app, "https://a.example/").await;
    let video = app.create_any().await;
    app.worker().do_one().await;
    let second = endpoint(&app, "https://b.example/").await;
    app.clock.advance(Duration::from_secs(1));
    app.create_any().await;
    app.worker().do_one().await;
    let all = app.get(DELIVERIES).await.good();
    assert_eq!((all["data"].as_array().unwrap().len(), &all["has_more"]), (3, &json!(false)));
    for name in ["endpoint_id", "endpoint"] {
        let of_second = app.get(&format!("{DELIVERIES}?{name}={}", second["id"].as_str().unwrap())).await.good();
        assert_eq!(of_second["data"].as_array().unwrap().len(), 1, "{name}");
    }
    let page = app.get(&format!("{DELIVERIES}?limit=2")).await.good();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (2, &json!(true)));
    let rest = app.get(&format!("{DELIVERIES}?after={}", page["last_id"].as_str().unwrap())).await.good();
    let delivery = &rest["data"][0];
    let expected = json!({
        "id": delivery["id"], "object": "webhook_delivery", "created_at": 1_764_000_000, "event_type": "video.completed",
        "video_id": video, "sample": false, "endpoint_id": first["id"], "url": null, "status": "pending", "tries": 0,
        "next_try_at": 1_764_000_000, "delivered_at": null, "last_status_code": null, "last_error": null,
    });
    assert_eq!((delivery, &rest["has_more"]), (&expected, &json!(false)));

    // It dies of its tries.
    let replay = format!("{DELIVERIES}/{}/replay", delivery["id"].as_str().unwrap());
    let of_first = async || {
        let due = app.state.store.take_due(9, 9, 9, Duration::from_secs(60)).await.unwrap();
        due.into_iter().find(|due| due.id.to_string() == delivery["id"])
    };
    for _ in 0..MAX_TRIES {
        let due = app.until(of_first).await;
        told(&app, &due, failed("the host could not be reached")).await;
        app.clock.advance(Duration::from_secs(30 * 3600));
    }
    let dead = app.get(&format!("{DELIVERIES}?status=dead")).await.good();
    assert_eq!((dead["data"].as_array().unwrap().len(), &dead["data"][0]["id"]), (1, &delivery["id"]));
    assert_eq!(dead["data"][0]["last_error"], "the host could not be reached");
    let disabled = app.get(&path_of(&first)).await.good();
    assert!(disabled["enabled"] == json!(false) && disabled["disabled_reason"].is_string(), "{disabled}");

    // Nothing would come of a replay until the endpoint is enabled, and nothing is changed by one.
    let reply = app.call(Method::POST, &replay).await;
    let message = reply.refused(409, "webhook_endpoint_disabled", Some("webhook_delivery_id"));
    let id = first["id"].as_str().unwrap();
    assert_eq!(message, format!("the endpoint {id} is disabled, so that nothing is sent to it: enable it first"));
    assert_eq!(reply.header("x-should-retry"), "false");
    assert_eq!(app.get(&format!("{DELIVERIES}?status=dead")).await.good(), dead);
    post(&app, &path_of(&first), json!({"enabled": true})).await.good();
    let again = app.call(Method::POST, &replay).await.good();
    assert_eq!((&again["status"], &again["id"]), (&json!("pending"), &delivery["id"]));
    assert_eq!(again["tries"], json!(0));

    // One that waits is due at once, and its tries count on.
    let due = app.until(of_first).await;
    told(&app, &due, failed("the host could not be reached")).await;
    assert!(of_first().await.is_none());
    let waiting = app.call(Method::POST, &replay).await.good();
    assert_eq!((&waiting["status"], &waiting["tries"]), (&json!("pending"), &json!(1)));
    assert_eq!(of_first().await.unwrap().number, 2);
    // One that is being tried stays as it is.
    let tried = app.call(Method::POST, &replay).await.good();
    assert_eq!((&tried["status"], &tried["tries"]), (&json!("pending"), &json!(2)));
    assert!(of_first().await.is_none());

    for (query, code, param) in [
        ("endpoint=x", "invalid_value", "endpoint"),
        ("endpoint_id=x", "invalid_value", "endpoint_id"),
        (&format!("endpoint_id={id}&endpoint={id}"), "invalid_value", "endpoint_id"),
        ("video_id=x", "invalid_value", "video_id"),
        ("tries=3", "unsupported_parameter", "tries"),
        ("status=late", "invalid_value", "status"),
        ("limit=-1", "invalid_value", "limit"),
        ("after=x", "invalid_cursor", "after"),
        ("after=evt_00000000000000000000000000000000", "invalid_cursor", "after"),
    ] {
        app.get(&format!("{DELIVERIES}?{query}")).await.refused(400, code, Some(param));
    }
    for id in ["x", "evt_00000000000000000000000000000000"] {
        let reply = app.call(Method::POST, &format!("{DELIVERIES}/{id}/replay")).await;
        reply.refused(404, "not_found", Some("webhook_delivery_id"));
    }
}

#[tokio::test]
async fn the_deliveries_about_one_video_are_listed_also_when_it_is_deleted() {
    let app = TestApp::start().await;
    let (first, second) = (endpoint(&app, "https://a.example/").await, endpoint(&app, "https://b.example/").await);
    let mut videos = Vec::new();
    for _ in 0..2 {
        videos.push(app.create_any().await);
        app.worker().do_one().await;
        app.clock.advance(Duration::from_secs(1));
    }
    let newest = app.get(DELIVERIES).await.good();
    assert_eq!(newest["data"].as_array().unwrap().len(), 4);
    let about = async |video: &str, query: &str| {
        let page = app.get(&format!("{DELIVERIES}?video_id={video}{query}")).await.good();
        let ids: Vec<Value> = page["data"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        assert!(page["data"].as_array().unwrap().iter().all(|one| one["video_id"] == video), "{page}");
        (ids, page["has_more"].as_bool().unwrap())
    };
    let expected = |from: usize| [newest["data"][from]["id"].clone(), newest["data"][from + 1]["id"].clone()];
    for (video, ids) in [(&videos[1], expected(0)), (&videos[0], expected(2))] {
        assert_eq!(about(video, "").await, (ids.to_vec(), false));
        assert_eq!(about(video, "&limit=1").await, (ids[..1].to_vec(), true));
        let after = ids[0].as_str().unwrap();
        assert_eq!(about(video, &format!("&after={after}&limit=1")).await, (ids[1..].to_vec(), false));
    }
    for one in [&first, &second] {
        let (ids, _) = about(&videos[0], &format!("&endpoint_id={}", one["id"].as_str().unwrap())).await;
        let found = newest["data"].as_array().unwrap().iter().find(|delivery| delivery["id"] == ids[0]).unwrap();
        assert_eq!((ids.len(), &found["endpoint_id"]), (1, &one["id"]));
    }
    assert_eq!(about(&videos[0], "&status=dead").await, (vec![], false));
    assert_eq!(about(&videos[0], "&status=pending&limit=0").await, (vec![], true));

    app.call(Method::DELETE, &format!("/v1/videos/{}", videos[0])).await.good();
    assert_eq!(about(&videos[0], "").await, (expected(2).to_vec(), false));
    assert_eq!(about("video_gen_00000000000000000000000000000000", "").await, (vec![], false));
    // One about another video is no place to go on from.
    let other = format!("{DELIVERIES}?video_id={}&after={}", videos[0], expected(0)[0].as_str().unwrap());
    app.get(&other).await.refused(400, "invalid_cursor", Some("after"));
}

#[tokio::test]
async fn no_list_answers_a_filter_that_it_does_not_have_with_everything() {
    let app = TestApp::start().await;
    for (path, field) in [
        (ENDPOINTS, "url"),
        (ENDPOINTS, "enabled"),
        (DELIVERIES, "event_type"),
        (DELIVERIES, "next_try_at"),
        ("/v1/videos", "user"),
        ("/v1/videos", "task"),
    ] {
        let message =
            app.get(&format!("{path}?limit=2&{field}=x")).await.refused(400, "unsupported_parameter", Some(field));
        assert_eq!(message, format!("the list cannot be filtered by {field}"));
    }
}

#[tokio::test]
async fn a_url_is_told_back_as_it_will_be_asked() {
    let app = TestApp::start().await;
    for (given, told) in [
        ("HTTPS://Hooks.EXAMPLE", "https://hooks.example/"),
        ("https://8.526344/x", "https://8.8.8.8/x"),
        ("https://ex%61mple.com:443/a/../b?x=1", "https://example.com/b?x=1"),
        ("https://b\u{fc}cher.example/", "https://xn--bcher-kva.example/"),
    ] {
        let made = endpoint(&app, given).await;
        assert_eq!(made["url"], told);
        assert_eq!(app.get(&path_of(&made)).await.good()["url"], told);
        let plain = endpoint(&app, "https://a.example/").await;
        assert_eq!(post(&app, &path_of(&plain), json!({"url": given})).await.good()["url"], told);
    }
    for odd in ["https:///a.example/", "https:a.example", "https://a.example\\@8.8.8.8/", "https://@a.example/"] {
        let body = json!({"name": "x", "url": odd, "event_types": ["video.failed"]});
        let message = post(&app, ENDPOINTS, body).await.refused(400, "invalid_webhook_url", Some("url"));
        assert_eq!(message, "the URL of a webhook must begin with https:// and its host, and with nothing else");
        let video = json!({"prompt": "a cat", "size": "512x288", "webhook_url": odd});
        app.create(video).await.refused(400, "invalid_webhook_url", Some("webhook_url"));
    }
}

#[tokio::test]
async fn the_url_of_a_single_video_is_written_down_with_it() {
    let app = TestApp::start().await;
    let body = json!({"prompt": "a cat", "size": "512x288", "webhook_url": "https://a.example/x"});
    let id = app.create(body.clone()).await.good()["id"].as_str().unwrap().to_owned();
    app.worker().do_one().await;
    let listed = app.get(DELIVERIES).await.good();
    let delivery = &listed["data"][0];
    assert_eq!((&delivery["url"], &delivery["endpoint_id"]), (&json!("https://a.example/x"), &json!(null)));
    assert_eq!(delivery["video_id"], id);
    let secret = app.get("/v1/webhook_secret").await.good();
    assert_eq!(
        (&secret["object"], app.get("/v1/webhook_secret").await.good()),
        (&json!("webhook_secret"), secret.clone())
    );
    assert_eq!(take(&app).await.secrets[0].expose(), secret["signing_secret"].as_str().unwrap());
    for (url, code) in [("http://a.example/", "invalid_webhook_url"), ("https://10.0.0.1/", "webhook_url_forbidden")] {
        let mut wrong = body.clone();
        wrong["webhook_url"] = json!(url);
        app.create(wrong).await.refused(400, code, Some("webhook_url"));
    }
}

#[tokio::test]
async fn event_types_are_listed() {
    let app = TestApp::start().await;
    let types = app.get("/v1/webhook_event_types").await.good();
    assert_eq!(types, json!({"object": "list", "data": ["video.completed", "video.failed"]}));
}

#[tokio::test]
async fn a_tenant_sees_nothing_of_others() {
    let app = TestApp::start_with(Options { auth: Auth::Keys, ..Options::default() }).await;
    for name in ["ann", "bob"] {
        let key = ApiKey::new(name.parse().unwrap(), name);
        app.state.store.add_key(&KeyHash(Sha256::digest(name).into()), &key).await.unwrap();
    }
    let call = async |key: &str, method: Method, path: &str, body: Value| {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {key}"));
        app.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    let body = json!({"name": "x", "url": "https://a.example/", "event_types": ["video.failed"]});
    let made = call("ann", Method::POST, ENDPOINTS, body).await.good();
    let video = json!({"prompt": "a cat", "size": "512x288"});
    let id = call("ann", Method::POST, "/v1/videos", video).await.good()["id"].as_str().unwrap().to_owned();
    app.state.store.cancel(&"ann".parse().unwrap(), id.parse().unwrap()).await.unwrap();
    let deliveries = call("ann", Method::GET, DELIVERIES, json!({})).await.good();
    let delivery = deliveries["first_id"].as_str().unwrap();
    for (method, path, param) in [
        (Method::GET, path_of(&made), "webhook_endpoint_id"),
        (Method::POST, path_of(&made), "webhook_endpoint_id"),
        (Method::DELETE, path_of(&made), "webhook_endpoint_id"),
        (Method::POST, format!("{}/rotate_secret", path_of(&made)), "webhook_endpoint_id"),
        (Method::POST, format!("{DELIVERIES}/{delivery}/replay"), "webhook_delivery_id"),
    ] {
        call("bob", method, &path, json!({})).await.refused(404, "not_found", Some(param));
    }
    let test = format!("{}/test", path_of(&made));
    let reply = call("bob", Method::POST, &test, json!({"event_type": "video.failed"})).await;
    reply.refused(404, "not_found", Some("webhook_endpoint_id"));
    for path in [ENDPOINTS, DELIVERIES] {
        assert_eq!(call("bob", Method::GET, path, json!({})).await.good()["data"], json!([]));
    }
    let secret = call("ann", Method::GET, "/v1/webhook_secret", json!({})).await.good();
    assert_ne!(call("bob", Method::GET, "/v1/webhook_secret", json!({})).await.good(), secret);
    call("ann", Method::GET, &path_of(&made), json!({})).await.good();
}

#[tokio::test]
async fn a_store_that_is_away_is_told_of() {
    let (app, store) = TestApp::start_faulty().await;
    store.go_away();
    for path in [ENDPOINTS, DELIVERIES, "/v1/webhook_secret"] {
        app.get(path).await.refused(503, "no_capacity", None);
    }
    store.come_back();
    app.get(ENDPOINTS).await.good();
}
