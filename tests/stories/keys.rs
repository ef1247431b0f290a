//! API keys and tenants, from the operator's commands to what a client may do with them.

use std::process::Command;

use serde_json::Value;

use crate::support::{Body, Service, clapboard, short_job, until};

fn operator(service: &Service, arguments: &[&str]) -> Command {
    let mut command = clapboard();
    command.args(arguments).arg("--data").arg(service.data());
    command
}

/// What an operator's command prints, as JSON.
fn told(service: &Service, arguments: &[&str]) -> Value {
    let output = operator(service, arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bearer(key: &Value) -> String {
    format!("authorization: Bearer {}", key["key"].as_str().unwrap())
}

#[test]
fn a_key_opens_what_its_scopes_say_until_it_is_revoked() {
    let service = Service::start_with(&["--auth", "keys"]);
    let reader = told(&service, &["keys", "create", "--tenant", "ann", "--scope", "videos:read", "--name", "phone"]);
    let writer = told(&service, &["keys", "create", "--tenant", "ann", "--scope", "videos:read,videos:write"]);
    let stranger = told(&service, &["keys", "create", "--tenant", "bob"]);
    let job = short_job();
    let ask = |key: &Value, method: &str, path: &str, body| service.request(method, path, &[&bearer(key)], body);

    assert_eq!(service.post(Body::Json(&job)).error().1, "invalid_api_key");
    let refused = ask(&reader, "POST", "/v1/videos", Body::Json(&job));
    assert_eq!((refused.status, refused.error().1.as_str()), (403, "insufficient_scope"));
    let made = ask(&writer, "POST", "/v1/videos", Body::Json(&job));
    assert_eq!(made.status, 200, "{}", made.json());
    let path = format!("/v1/videos/{}", made.json()["id"].as_str().unwrap());
    assert_eq!(ask(&reader, "GET", &path, Body::Nothing).status, 200);
    assert_eq!(ask(&stranger, "GET", &path, Body::Nothing).error().1, "not_found");
    assert_eq!(ask(&writer, "GET", "/v1/webhook_endpoints", Body::Nothing).error().1, "insufficient_scope");
    assert_eq!(ask(&stranger, "GET", "/v1/webhook_endpoints", Body::Nothing).status, 200);

    let listed = told(&service, &["keys", "list", "--tenant", "ann"]);
    let keys = listed["keys"].as_array().unwrap();
    assert_eq!((keys.len(), &keys[0]["name"], &keys[0]["revoked_at"]), (2, &"phone".into(), &Value::Null));
    assert!(!listed.to_string().contains(reader["key"].as_str().unwrap()), "the key itself is told");
    assert!(reader["key"].as_str().unwrap().ends_with(keys[0]["hint"].as_str().unwrap()));
    told(&service, &["keys", "revoke", reader["id"].as_str().unwrap()]);
    until("the key to be forgotten", || (ask(&reader, "GET", &path, Body::Nothing).status == 401).then_some(()));
    let unknown = operator(&service, &["keys", "revoke", "key_00000000000000000000000000000000"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no key key_0000"));
}

#[test]
fn a_rate_of_a_key_holds_for_what_makes_videos_alone() {
    let service = Service::start_with(&["--auth", "keys"]);
    let key = told(&service, &["keys", "create", "--requests-per-minute", "2"]);
    let job = short_job();
    let ask = |method: &str, path: &str, body| service.request(method, path, &[&bearer(&key)], body);
    for left in ["1", "0"] {
        let reply = ask("POST", "/v1/videos", Body::Json(&job));
        assert_eq!((reply.status, reply.header("x-ratelimit-remaining-requests")), (200, Some(left)));
        assert_eq!(reply.header("x-ratelimit-limit-requests"), Some("2"));
    }
    let refused = ask("POST", "/v1/videos", Body::Json(&job));
    assert_eq!((refused.status, refused.error().1.as_str()), (429, "rate_limit_exceeded"));
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    for _ in 0..5 {
        assert_eq!(ask("GET", "/v1/videos", Body::Nothing).status, 200);
    }
}

#[test]
fn a_tenants_bounds_are_set_one_by_one() {
    let service = Service::start_with(&["--auth", "keys"]);
    told(&service, &["tenants", "set", "ann", "--max-queued", "0", "--weight", "2"]);
    let set = told(&service, &["tenants", "set", "ann", "--max-running", "3"]);
    assert_eq!(set, serde_json::json!({ "tenant": "ann", "weight": 2.0, "max_running": 3, "max_queued": 0 }));
    assert_eq!(told(&service, &["tenants", "list"])["tenants"], serde_json::json!([set]));
    let key = told(&service, &["keys", "create", "--tenant", "ann"]);
    let ask = || service.request("POST", "/v1/videos", &[&bearer(&key)], Body::Json(&short_job()));
    assert_eq!(ask().error().1, "queue_full");
    told(&service, &["tenants", "set", "ann", "--max-queued", "none"]);
    assert_eq!(ask().status, 200);
    let nothing = operator(&service, &["tenants", "set", "ann"]).output().unwrap();
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing to set: name --weight"));
}
