//! What each process of a distributed service tells about itself.

use super::cluster::Cluster;
use super::process::Process;
use crate::support::{Body, Collector, send, short_job, until};

const SETTINGS: [&str; 4] = ["--metrics-listen", "127.0.0.1:0", "--log-format", "json"];

/// Fetches something from where a process shows its metrics; none where it is not shown yet.
fn ask(process: &Process, path: &str) -> Option<(u16, String)> {
    let log = process.log();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let shown = lines.rfind(|line| line["message"] == "metrics and health are shown")?;
    let url = format!("http://{}{path}", shown["address"].as_str().unwrap());
    let reply = send("GET", &url, &[], Body::Nothing)?;
    Some((reply.status, String::from_utf8(reply.body).unwrap()))
}

/// Waits until the metrics of a process hold a line.
fn until_counted(process: &Process, line: &str) -> String {
    until(line, || ask(process, "/metrics").map(|(_, text)| text).filter(|text| text.lines().any(|it| it == line)))
}

#[test]
fn each_process_shows_its_own_metrics_and_health_and_they_make_one_trace() {
    let collector = Collector::start();
    let endpoint = collector.endpoint();
    let settings = [&SETTINGS[..], &["--otlp-endpoint", &endpoint]].concat();
    let mut cluster = Cluster::servers();
    cluster.add_api(&settings);
    cluster.add_scheduler_with(&settings);
    // It waits before there is anybody to run it.
    let id = cluster.create(&short_job());
    let scheduler = &cluster.schedulers[0];
    until_counted(scheduler, "clapboard_job_queue_depth{partition=\"fl2va\",state=\"queued\"} 1");
    cluster.add_worker(&settings);
    let health =
        until("the worker to be well", || ask(&cluster.workers[0], "/health").filter(|(status, _)| *status == 200));
    assert_eq!(health.1, r#"{"status":"ok"}"#);
    cluster.completed(&id);
    let (api, scheduler, worker) = (&cluster.apis[0], &cluster.schedulers[0], &cluster.workers[0]);
    until_counted(scheduler, "clapboard_job_queue_depth{partition=\"fl2va\",state=\"queued\"} 0");
    let completed = "clapboard_jobs_finished_total{partition=\"fl2va\",outcome=\"completed\",reason=\"none\"} 1";
    let of_worker = until_counted(worker, completed);
    let of_api = until_counted(api, "clapboard_jobs_submitted_total{partition=\"fl2va\"} 1");
    let of_scheduler = until_counted(scheduler, "clapboard_lease_expired_total 0");
    for (process, text) in [("api", &of_api), ("worker", &of_worker), ("scheduler", &of_scheduler)] {
        let build =
            format!("clapboard_build_info{{version=\"{}\",process=\"{process}\"}} 1", env!("CARGO_PKG_VERSION"));
        for line in [build.as_str(), "clapboard_db_pool_limit 10", "clapboard_db_pool_waiting 0"] {
            assert!(text.lines().any(|it| it == line), "no {line} of the {process}:\n{text}");
        }
        assert!(text.contains("clapboard_db_pool_in_use "), "{text}");
        assert_eq!(text.contains("clapboard_http_request_seconds"), process == "api");
        assert_eq!(text.contains("clapboard_claims_total"), process == "worker");
        assert_eq!(text.contains("clapboard_webhook_backlog"), process == "scheduler");
    }
    for process in [api, scheduler] {
        assert_eq!(ask(process, "/health").unwrap(), (200, r#"{"status":"ok"}"#.to_owned()));
    }

    for process in [&mut cluster.apis[0], &mut cluster.workers[0], &mut cluster.schedulers[0]] {
        process.terminate();
        assert!(process.wait().success());
    }
    let spans = collector.spans();
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{spans:#?}"));
    let (sent, process) = (of("send fl2va"), of("process fl2va"));
    assert_eq!((sent.service.as_str(), process.service.as_str()), ("clapboard-api", "clapboard-worker"));
    assert_eq!((&process.trace, &process.parent), (&sent.trace, &sent.id));
}

#[test]
fn an_address_that_is_taken_ends_the_start_with_a_sentence() {
    let cluster = Cluster::servers();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = cluster.command("scheduler").args(["--metrics-listen", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!("clapboard: could not listen on {address} for metrics and health: ");
    assert!(said.lines().any(|line| line.starts_with(&expected)), "{said}");
}
