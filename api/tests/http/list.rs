//! Lists and their pages.

use serde_json::{Value, json};

use crate::app::TestApp;

async fn ids(app: &TestApp, query: &str) -> (Vec<String>, bool) {
    let page = app.get(&format!("/v1/videos{query}")).await.good();
    let ids: Vec<String> =
        page["data"].as_array().unwrap().iter().map(|video| video["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(page["object"], "list");
    assert_eq!(page["first_id"], ids.first().map_or(Value::Null, |id| json!(id)));
    assert_eq!(page["last_id"], ids.last().map_or(Value::Null, |id| json!(id)));
    (ids, page["has_more"].as_bool().unwrap())
}

#[tokio::test]
async fn pages_follow_each_other_in_both_orders_even_within_one_moment() {
    let app = TestApp::start().await;
    assert_eq!(ids(&app, "").await, (vec![], false));
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(app.create_any().await);
    }
    assert_eq!(ids(&app, "?order=asc").await, (made.clone(), false));
    let mut walked = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let (page, has_more) = ids(&app, &query).await;
        walked.extend(page);
        if !has_more {
            break;
        }
        query = format!("?limit=2&after={}", walked.last().unwrap());
    }
    made.reverse();
    assert_eq!(walked, made);
    assert_eq!(ids(&app, "?limit=0").await.0, Vec::<String>::new());
}

#[tokio::test]
async fn a_list_may_be_of_one_status() {
    let app = TestApp::start().await;
    let done = app.create_any().await;
    app.worker().do_one().await;
    let waiting = app.create_any().await;
    assert_eq!(ids(&app, "?status=completed").await.0, [done]);
    assert_eq!(ids(&app, "?status=queued").await.0, [waiting]);
    assert_eq!(ids(&app, "?status=failed").await.0, Vec::<String>::new());
}

#[tokio::test]
async fn a_page_after_nothing_is_refused() {
    let app = TestApp::start().await;
    for after in ["x", "video_gen_00000000000000000000000000000000"] {
        let reply = app.get(&format!("/v1/videos?after={after}")).await;
        reply.refused(400, "invalid_cursor", Some("after"));
    }
}

#[tokio::test]
async fn a_parameter_is_given_once() {
    let app = TestApp::start().await;
    let reply = app.get("/v1/videos?limit=1&order=asc&limit=2").await;
    assert_eq!(reply.refused(400, "invalid_value", Some("limit")), "limit must be given once");
    // An empty one is none.
    app.get("/v1/videos?limit=&limit=2").await.good();
}

#[tokio::test]
async fn an_unknown_parameter_is_reported_and_refused_only_on_demand() {
    let app = TestApp::start().await;
    let reply = app.get("/v1/videos?limit=2&foo=1&b%0Ar=2").await;
    reply.good();
    assert_eq!(reply.header("x-ignored-fields"), "foo, b\\nr");
    assert_eq!(app.get("/v1/videos?limit=2").await.header("x-ignored-fields"), "");
    let nameless = app.get("/v1/videos?limit=2&=1").await;
    assert_eq!(nameless.refused(400, "invalid_value", None), "each field and parameter must have a name");
    let strict = app.get_with("/v1/videos?foo=1", &[("x-strict", "1")]).await;
    assert_eq!(strict.refused(400, "unknown_parameter", Some("foo")), "foo is not a parameter");
}
