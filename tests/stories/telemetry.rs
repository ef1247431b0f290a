//! What a service tells about itself: traces, metrics, health and log lines, and what none of them says.

use std::collections::BTreeSet;

use crate::support::{Body, Collector, Receiver, Reply, Service, Traced, long_job, send, short_job, until};

const CLIENT_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";
/// What is in the prompt, the key and the URL of the story's job, and may be told to nobody.
const TELLING: [&str; 3] = ["xylophone-of-the-emperor", "hunter2-is-the-key", "sig-of-the-url"];

/// Where the metrics of a service are shown, from its log.
fn monitor(log: &str) -> String {
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let shown = lines.rfind(|line| line["message"] == "metrics and health are shown");
    format!("http://{}", shown.expect("the address is logged")["address"].as_str().unwrap())
}

fn get(url: &str, path: &str) -> Reply {
    send("GET", &format!("{url}{path}"), &[], Body::Nothing).expect("the monitor answers")
}

fn text(reply: Reply) -> String {
    String::from_utf8(reply.body).unwrap()
}

/// The value of a sample, which begins its line.
fn value(metrics: &str, sample: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

fn find<'a>(spans: &'a [Traced], name: &str) -> &'a Traced {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

/// Starts a service that tells everything it can.
fn start(collector: &Collector) -> Service {
    let endpoint: &'static str = collector.endpoint().leak();
    let settings = vec![
        "--metrics-listen",
        "127.0.0.1:0",
        "--otlp-endpoint",
        endpoint,
        "--log-format",
        "json",
        "--allow-http-webhook-host",
        "127.0.0.1",
        "--requests-per-minute",
        "1",
    ];
    Service::start_with(settings.leak())
}

#[test]
fn a_job_is_one_trace_is_counted_and_tells_nothing_of_what_its_client_wrote() {
    let (collector, receiver) = (Collector::start(), Receiver::start());
    let mut service = start(&collector);
    let monitor = monitor(&service.log());
    let mut job = short_job();
    job["prompt"] = format!("A paper boat and a {}", TELLING[0]).into();
    job["webhook_url"] = receiver.url(&format!("/job?signature={}", TELLING[2])).into();
    let trace = format!("traceparent: 00-{CLIENT_TRACE}-{CLIENT_SPAN}-01");
    let key = format!("authorization: Bearer {}", TELLING[1]);
    let reply = service.request("POST", "/v1/videos", &[&trace, &key], Body::Json(&job));
    assert_eq!(reply.status, 200, "{}", reply.json());
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    service.completed(&id);
    let refused = service.post(Body::Json(&short_job()));
    assert_eq!(refused.status, 429, "{}", refused.json());
    let path = format!("/job?signature={}", TELLING[2]);
    let told = until("the webhook", || receiver.heard(&path).pop());
    let shown = until("what has been counted", || {
        let shown = text(get(&monitor, "/metrics"));
        (value(&shown, "clapboard_webhook_attempts_total{code_class=\"2xx\"}") == Some(1.0)).then_some(shown)
    });
    counted(&shown);
    let health = get(&monitor, "/health");
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));

    service.terminate();
    assert!(service.wait().success());
    let spans = collector.spans();
    let ours: Vec<Traced> = spans.iter().filter(|span| span.trace == CLIENT_TRACE).cloned().collect();
    is_one_trace(&ours, &id);
    let webhook = find(&ours, "webhook");
    assert_eq!(told.header("traceparent"), format!("00-{CLIENT_TRACE}-{}-01", webhook.id));

    let log = service.log();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        if line["message"] == "stored the video" {
            for name in ["job_id", "fence", "attempt", "partition", "worker_id", "trace_id", "span_id"] {
                assert!(!line[name].is_null(), "no {name} in {line}");
            }
            assert_eq!((&line["job_id"], &line["trace_id"]), (&id.as_str().into(), &CLIENT_TRACE.into()));
        }
    }
    assert!(log.contains("stored the video"), "{log}");
    let sent = String::from_utf8_lossy(&collector.bytes()).into_owned();
    for secret in TELLING {
        for (place, text) in [("the log", &log), ("a trace", &sent), ("a metric", &shown)] {
            assert!(!text.contains(secret), "{secret} is in {place}");
        }
    }
    assert!(!shown.contains(&id), "a job's id is in a metric");
}

/// Checks the tree of the spans of one job.
fn is_one_trace(spans: &[Traced], id: &str) {
    let (post, sent, process) =
        (find(spans, "POST /v1/videos"), find(spans, "send fl2va"), find(spans, "process fl2va"));
    assert_eq!(post.parent, CLIENT_SPAN);
    assert_eq!(post.attributes["http.response.status_code"], "200");
    assert_eq!((&sent.parent, &process.parent), (&post.id, &sent.id));
    for span in [sent, process] {
        assert_eq!(span.attributes["messaging.system"], "clapboard");
        assert_eq!(span.attributes["messaging.destination.name"], "fl2va");
        assert_eq!(span.attributes["messaging.message.id"], id);
        assert_eq!(span.service, "clapboard-serve");
    }
    assert_eq!(process.attributes["clapboard.attempt"], "1");
    for stage in ["prepare", "text_encode", "denoise", "decode_audio", "decode_video", "encode", "upload"] {
        assert_eq!(find(spans, stage).parent, process.id, "{stage}");
    }
    let steps = find(spans, "denoise").events.iter().filter(|event| *event == "step").count();
    assert!(steps >= 2, "{steps} steps");
    assert_eq!(find(spans, "webhook").parent, sent.id);
}

/// Checks what stands in the metrics after a job.
fn counted(shown: &str) {
    let expect = |sample: &str, expected: f64| assert_eq!(value(shown, sample), Some(expected), "{sample}\n{shown}");
    expect("clapboard_jobs_submitted_total{partition=\"fl2va\"}", 1.0);
    expect("clapboard_jobs_finished_total{partition=\"fl2va\",outcome=\"completed\",reason=\"none\"}", 1.0);
    expect("clapboard_job_attempts_total{partition=\"fl2va\",outcome=\"ok\"}", 1.0);
    expect("clapboard_lease_expired_total", 0.0);
    expect("clapboard_stale_completions_rejected_total", 0.0);
    expect("clapboard_job_queue_wait_seconds_count{partition=\"fl2va\"}", 1.0);
    expect("clapboard_s3_upload_seconds_count", 1.0);
    expect("clapboard_model_load_seconds_count{partition=\"fl2va\"}", 1.0);
    for phase in ["prepare", "text_encode", "denoise", "decode_audio", "decode_video", "encode", "upload"] {
        expect(&format!("clapboard_job_phase_seconds_count{{partition=\"fl2va\",phase=\"{phase}\"}}"), 1.0);
    }
    let request = "clapboard_http_request_seconds_count{method=\"POST\",route=\"/v1/videos\",status_class=\"2xx\"}";
    expect(request, 1.0);
    expect("clapboard_limits_hit_total{limit=\"rate\"}", 1.0);
    let claims = ["redis", "poll", "ahead"].map(|source| {
        value(shown, &format!("clapboard_claims_total{{partition=\"fl2va\",source=\"{source}\"}}")).unwrap()
    });
    assert_eq!(claims.iter().sum::<f64>(), 1.0, "{shown}");
    let states = ["idle", "busy", "unwell", "draining"].map(|state| {
        value(shown, &format!("clapboard_worker_state{{partition=\"fl2va\",state=\"{state}\"}}")).unwrap()
    });
    assert_eq!(states.iter().sum::<f64>(), 1.0, "{shown}");
    assert!(value(shown, "clapboard_heartbeat_age_seconds").unwrap() < 60.0, "{shown}");

    // Of those that are documented only what needs Postgres, or a cancel, is not there.
    let names: BTreeSet<&str> =
        shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/telemetry.md")).unwrap();
    let documented: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let documented = documented.into_iter().filter(|name| name.starts_with("clapboard_"));
    let missing: Vec<&str> = documented.filter(|name| !names.contains(name)).collect();
    let elsewhere = [
        "clapboard_cancel_latency_seconds",
        "clapboard_db_pool_in_use",
        "clapboard_db_pool_limit",
        "clapboard_db_pool_waiting",
    ];
    assert_eq!(missing, elsewhere, "{shown}");
}

#[test]
fn a_cancel_is_timed_and_a_later_attempt_is_a_trace_of_its_own_that_links_to_the_first() {
    let collector = Collector::start();
    let mut service = start(&collector);
    let trace = format!("traceparent: 00-{CLIENT_TRACE}-{CLIENT_SPAN}-01");
    let reply = service.request("POST", "/v1/videos", &[&trace], Body::Json(&long_job()));
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    service.in_its_middle(&id);
    // It hands the job back, which goes on after the next start.
    service.terminate();
    assert!(service.wait().success());
    service.restart();
    service.in_its_middle(&id);
    let monitor = monitor(&service.log());
    service.request("POST", &format!("/v1/videos/{id}/cancel"), &[], Body::Nothing);
    until("the cancel", || {
        let shown = text(get(&monitor, "/metrics"));
        let timed = value(&shown, "clapboard_cancel_latency_seconds_count") == Some(1.0);
        let counted = value(&shown, "clapboard_job_attempts_total{partition=\"fl2va\",outcome=\"cancelled\"}");
        (timed && counted == Some(1.0)).then_some(())
    });
    service.terminate();
    assert!(service.wait().success());
    let spans = collector.spans();
    let sent = find(&spans, "send fl2va");
    let attempts: Vec<&Traced> = spans.iter().filter(|span| span.name == "process fl2va").collect();
    let [first, second] = attempts[..] else { panic!("{attempts:#?}") };
    assert_eq!((&first.trace, &first.parent), (&sent.trace, &sent.id));
    assert_eq!(first.attributes["error.type"], "drained");
    assert_ne!(second.trace, sent.trace);
    assert_eq!(second.links, [(sent.trace.clone(), sent.id.clone())]);
}

#[test]
fn a_collector_that_is_away_holds_nothing_up_and_is_told_of_once() {
    let settings = ["--otlp-endpoint", "http://127.0.0.1:9", "--log-format", "json"];
    let mut service = Service::start_with(Box::leak(Box::new(settings)));
    let id = service.create(&short_job());
    service.completed(&id);
    service.terminate();
    assert!(service.wait().success());
    let told = service.log().matches("spans could not be sent and are lost").count();
    assert_eq!(told, 1, "{}", service.log());
}
