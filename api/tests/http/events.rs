//! Videos that are followed by their events.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{Method, Request, StatusCode};
use clapboard_api::{Options, ServiceState};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::app::TestApp;
use crate::connections::within;

/// An event as it came.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    name: String,
    id: String,
    data: Value,
}

/// A client that follows a video.
struct Follower {
    stream: BodyDataStream,
    unread: String,
}

impl Follower {
    /// Returns the next event; none at the end.
    async fn next(&mut self) -> Option<Seen> {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let mut seen = Seen { name: String::new(), id: String::new(), data: Value::Null };
                for line in event.lines() {
                    match line.split_once(": ") {
                        Some(("event", name)) => seen.name = name.to_owned(),
                        Some(("id", id)) => seen.id = id.to_owned(),
                        Some(("data", data)) => seen.data = serde_json::from_str(data).unwrap(),
                        _ => panic!("{line:?} is no line of an event"),
                    }
                }
                self.unread = rest.to_owned();
                return Some(seen);
            }
            let chunk = within(self.stream.next()).await?.unwrap();
            self.unread.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn all(mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            seen.push(event);
        }
        seen
    }
}

async fn quick() -> TestApp {
    let pause = Duration::from_millis(2);
    TestApp::start_with(Options { event_poll: pause, poll_after: pause, ..Options::default() }).await
}

async fn follow(app: &TestApp, id: &str) -> Follower {
    let request = Request::get(format!("/v1/videos/{id}/events")).body(Body::empty()).unwrap();
    let response = app.answer(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    assert!(response.headers().contains_key("x-request-id"));
    Follower { stream: response.into_body().into_data_stream(), unread: String::new() }
}

/// Reads an id, whose numbers grow one by one.
fn numbers(id: &str) -> Vec<u64> {
    id.split('-').map(|number| number.parse().unwrap()).collect()
}

#[tokio::test]
async fn a_video_is_followed_from_its_queue_to_its_end() {
    let app = quick().await;
    let (before, id) = (app.create_any().await, app.create_any().await);
    let mut follower = follow(&app, &id).await;
    let mut seen = vec![follower.next().await.unwrap()];
    assert_eq!((seen[0].name.as_str(), &seen[0].data["queue_position"]), ("video.progress", &json!(2)));
    app.call(Method::DELETE, &format!("/v1/videos/{before}")).await.good();
    seen.push(follower.next().await.unwrap());
    assert_eq!(seen[1].data["queue_position"], json!(1));
    let worker = app.worker();
    let claimed = worker.begin().await;
    seen.push(follower.next().await.unwrap());
    while seen.last().unwrap().data["status"] != "in_progress" {
        seen.push(follower.next().await.unwrap());
    }
    for (step, percent) in [(3, 20), (4, 25)] {
        worker.step(&claimed, step, percent).await;
        let event = follower.next().await.unwrap();
        assert_eq!((event.name.as_str(), &event.data["progress"]), ("video.progress", &json!(percent)));
        seen.push(event);
    }
    worker.finish(&claimed).await;
    seen.extend(follower.all().await);
    let last = seen.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["status"]), ("video.completed", &json!("completed")));
    assert_eq!(last.data, app.get(&format!("/v1/videos/{id}")).await.good());
    let ids: Vec<Vec<u64>> = seen.iter().map(|event| numbers(&event.id)).collect();
    assert!(ids.is_sorted(), "{ids:?}");
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_is_the_case_and_after_the_end_nothing() {
    let app = quick().await;
    let id = app.create_any().await;
    let first = follow(&app, &id).await.next().await.unwrap();
    app.worker().fail_one().await;
    let path = format!("/v1/videos/{id}/events");
    let resumed = app.get_with(&path, &[("last-event-id", &first.id)]).await;
    let text = String::from_utf8(resumed.body).unwrap();
    assert!(text.contains("event: video.failed\n") && text.ends_with("\n\n"), "{text}");
    let last = follow(&app, &id).await.all().await;
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].data["error"]["code"], "generation_failed");
    assert!(numbers(&last[0].id) > numbers(&first.id));
    let over = app.get_with(&path, &[("last-event-id", &last[0].id)]).await;
    assert_eq!((over.status, over.body.len()), (StatusCode::NO_CONTENT, 0));
}

#[tokio::test]
async fn a_video_that_is_cancelled_or_deleted_ends_its_stream() {
    let app = quick().await;
    let (cancelled, deleted) = (app.create_any().await, app.create_any().await);
    let followers = [follow(&app, &cancelled).await, follow(&app, &deleted).await];
    app.call(Method::POST, &format!("/v1/videos/{cancelled}/cancel")).await.good();
    app.call(Method::DELETE, &format!("/v1/videos/{deleted}")).await.good();
    let [first, second] = followers;
    let last = first.all().await.pop().unwrap();
    assert_eq!((last.name.as_str(), &last.data["error"]["code"]), ("video.failed", &json!("cancelled")));
    let last = second.all().await.pop().unwrap();
    let gone = json!({"id": deleted, "object": "video.deleted", "deleted": true});
    assert_eq!((last.name.as_str(), last.data), ("video.deleted", gone));
}

#[tokio::test]
async fn a_service_that_stops_ends_the_streams() {
    let app = quick().await;
    let id = app.create_any().await;
    let mut follower = follow(&app, &id).await;
    follower.next().await.unwrap();
    app.state.readiness.set(ServiceState::Draining);
    assert_eq!(follower.all().await, []);
}

#[tokio::test]
async fn only_so_many_streams_are_open_at_once() {
    let pause = Duration::from_millis(2);
    let options = Options { max_streams_per_tenant: 1, event_poll: pause, ..Options::default() };
    let app = TestApp::start_with(options).await;
    let id = app.create_any().await;
    let path = format!("/v1/videos/{id}/events");
    let open = follow(&app, &id).await;
    let reply = app.get(&path).await;
    assert_eq!(reply.refused(429, "concurrency_limit", None), "as many streams of events are open as may: 1");
    assert_eq!(reply.header("retry-after"), "5");
    drop(open);
    app.worker().do_one().await;
    assert_eq!(app.get(&path).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_place_back_at_once() {
    let app = TestApp::start_with(Options { max_streams_per_tenant: 1, ..Options::default() }).await;
    let id = app.create_any().await;
    let path = format!("/v1/videos/{id}/events");
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("event: video.progress") {
        assert_ne!(within(client.read_buf(&mut answer)).await.unwrap(), 0);
    }
    app.get(&path).await.refused(429, "concurrency_limit", None);
    drop(client);
    // Long before anything is written to it again.
    let is_open = async || {
        let request = Request::get(&path).body(Body::empty()).unwrap();
        (app.answer(request).await.status() == StatusCode::OK).then_some(())
    };
    timeout(Duration::from_secs(10), app.until(is_open)).await.expect("the place comes back");
}

#[tokio::test]
async fn a_video_that_is_not_there_has_no_events() {
    let app = quick().await;
    for id in ["x", "video_gen_00000000000000000000000000000000"] {
        app.get(&format!("/v1/videos/{id}/events")).await.refused(404, "not_found", Some("video_id"));
    }
}

#[tokio::test]
async fn a_store_that_is_away_for_a_while_does_not_end_a_stream() {
    let app = quick().await;
    let id = app.create_any().await;
    let (app, store) = app.over_faulty();
    let mut follower = follow(&app, &id).await;
    follower.next().await.unwrap();
    store.go_away();
    app.get(&format!("/v1/videos/{id}")).await.refused(503, "no_capacity", None);
    store.come_back();
    app.worker().do_one().await;
    let last = follower.all().await.pop().unwrap();
    assert_eq!(last.name, "video.completed");
}
