//! Being told of the end of a job.

use serde_json::{Value, json};

use crate::support::{Body, Receiver, Service, short_job, until};

const TO_THIS_MACHINE: [&str; 2] = ["--allow-http-webhook-host", "127.0.0.1"];

fn register(service: &Service, url: &str) -> Value {
    let endpoint = json!({ "name": "test", "url": url, "event_types": ["video.completed", "video.failed"] });
    let reply = service.request("POST", "/v1/webhook_endpoints", &[], Body::Json(&endpoint));
    assert_eq!(reply.status, 200, "{}", reply.json());
    reply.json()
}

#[test]
fn the_end_of_a_job_is_told_to_endpoints_and_to_its_own_url() {
    let service = Service::start_with(&TO_THIS_MACHINE);
    let receiver = Receiver::start();
    let endpoint = register(&service, &receiver.url("/endpoint"));
    assert!(endpoint["signing_secret"].as_str().unwrap().starts_with("whsec_"));
    let mut job = short_job();
    job["webhook_url"] = receiver.url("/job").into();
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let id = service.request("POST", "/v1/videos", &[trace], Body::Json(&job)).json()["id"].clone();
    for path in ["/endpoint", "/job"] {
        let heard = until("the webhook", || receiver.heard(path).pop());
        assert_eq!((&heard.body["type"], &heard.body["data"]["id"]), (&"video.completed".into(), &id));
        assert_eq!(heard.body["id"].as_str(), Some(heard.header("webhook-id")));
        assert!(heard.header("webhook-signature").starts_with("v1,"));
        assert!(heard.header("traceparent").contains("4bf92f3577b34da6a3ce929d0e0e4736"));
    }
    assert_eq!(service.video(id.as_str().unwrap())["status"], "completed");
    assert_eq!(receiver.heard("/endpoint").len() + receiver.heard("/job").len(), 2);
}

#[test]
fn a_receiver_that_never_answers_delays_no_job_and_no_other_receiver() {
    let service = Service::start_with(&TO_THIS_MACHINE);
    let receiver = Receiver::start();
    register(&service, &receiver.url("/hang"));
    register(&service, &receiver.url("/endpoint"));
    for count in 1..=3 {
        let id = service.create(&short_job());
        service.completed(&id);
        until("the other receiver to hear", || (receiver.heard("/endpoint").len() == count).then_some(()));
    }
    assert!(!receiver.heard("/hang").is_empty());
}

#[test]
fn a_delivery_that_failed_is_listed_and_can_be_asked_for_again() {
    let service = Service::start_with(&TO_THIS_MACHINE);
    let receiver = Receiver::start();
    let endpoint = register(&service, &receiver.url("/410"));
    let id = service.create(&short_job());
    service.completed(&id);
    let path = format!("/v1/webhook_deliveries?endpoint={}&status=dead", endpoint["id"].as_str().unwrap());
    let dead = until("the delivery to be given up", || service.get(&path).json()["data"].as_array()?.first().cloned());
    assert_eq!(receiver.heard("/410").len(), 1);
    let (endpoint, delivery) = (endpoint["id"].as_str().unwrap(), dead["id"].as_str().unwrap());
    let moved = json!({ "url": receiver.url("/endpoint"), "enabled": true });
    let reply = service.request("POST", &format!("/v1/webhook_endpoints/{endpoint}"), &[], Body::Json(&moved));
    assert_eq!(reply.status, 200, "{}", reply.json());
    let replay = format!("/v1/webhook_deliveries/{delivery}/replay");
    assert_eq!(service.request("POST", &replay, &[], Body::Nothing).status, 200);
    let heard = until("the webhook", || receiver.heard("/endpoint").pop());
    assert_eq!(heard.header("webhook-id"), delivery);
}
