use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use super::*;

#[test]
fn names_and_labels_are_as_prometheus_wants_them() {
    let names: BTreeSet<&str> = names::ALL.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), names::ALL.len(), "two metrics of one name");
    for row in names::ALL {
        let Row { name, kind, help, labels, buckets, processes } = *row;
        assert!(name.starts_with("clapboard_"), "{name}");
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        assert!(kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
        assert_eq!(!buckets.is_empty(), kind == Kind::Histogram, "{name}");
        assert!(buckets.is_sorted() && buckets.iter().all(|bound| *bound > 0.0), "{name}");
        assert!(help.ends_with('.') && !processes.is_empty(), "{name}");
        for label in labels {
            assert!(
                !["job", "job_id", "tenant", "key", "le", "instance"].contains(&label.name),
                "{name}: {}",
                label.name
            );
        }
    }
}

#[test]
fn the_page_holds_every_metric_and_no_other() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/telemetry.md")).unwrap();
    let told: Vec<&str> = page.lines().filter(|line| line.starts_with("| `clapboard_")).collect();
    let expected: Vec<String> = names::ALL.iter().map(line).collect();
    assert_eq!(told, expected, "the table should be\n{}", expected.join("\n"));
}

/// A metric's line in the page.
fn line(row: &Row) -> String {
    let labels: Vec<String> = row.labels.iter().map(|label| format!("`{}`", label.name)).collect();
    let processes: Vec<&str> = row.processes.iter().map(|process| process.as_str()).collect();
    format!(
        "| `{}` | {} | {} | {} | {} |",
        row.name,
        row.kind.as_str(),
        labels.join(" "),
        processes.join(", "),
        row.help
    )
}

#[test]
fn what_is_counted_is_rendered_and_known_counters_begin_at_nothing() {
    // Nothing is counted before.
    names::LEASE_EXPIRED.increment([]);
    let metrics = install("scheduler", "1.2.3", &[Process::Scheduler]).unwrap();
    assert!(matches!(install("api", "1", &[]), Err(InstallError::AlreadySet)));
    names::JOB_QUEUE_DEPTH.set(7.0, ["fl2va", "queued"]);
    names::WEBHOOK_ATTEMPTS.add(2, ["5xx"]);
    names::JOB_RUN_SECONDS.record(Duration::from_secs(45), ["ref2va"]);
    let text = metrics.render();
    for line in [
        "clapboard_build_info{version=\"1.2.3\",process=\"scheduler\"} 1",
        "# TYPE clapboard_lease_expired_total counter",
        "clapboard_lease_expired_total 0",
        "clapboard_job_queue_depth{partition=\"fl2va\",state=\"queued\"} 7",
        "clapboard_webhook_attempts_total{code_class=\"5xx\"} 2",
        "clapboard_webhook_attempts_total{code_class=\"none\"} 0",
        "clapboard_job_run_seconds_bucket{partition=\"ref2va\",le=\"30\"} 0",
        "clapboard_job_run_seconds_bucket{partition=\"ref2va\",le=\"60\"} 1",
        "clapboard_job_run_seconds_count{partition=\"ref2va\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    assert!(!text.contains("clapboard_claims_total"), "a scheduler claims nothing:\n{text}");
}
