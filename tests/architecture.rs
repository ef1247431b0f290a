//! Which room may use which: the direction of dependency, read from cargo itself.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The rooms that each room's own code may use.
const ROOMS: [(&str, &[&str]); 15] = [
    ("h3", &[]),
    ("telemetry", &[]),
    ("outbound", &[]),
    ("media", &["h3"]),
    ("engine", &["h3"]),
    ("jobs", &["h3"]),
    ("store-sqlite", &["h3", "jobs"]),
    ("store-postgres", &["h3", "jobs"]),
    ("dispatch", &["jobs"]),
    ("blob", &["jobs"]),
    // Servers for tests: no room's own code may use it.
    ("testkit", &[]),
    ("api", &["h3", "jobs", "media", "outbound", "telemetry"]),
    ("scheduler", &["jobs", "outbound", "telemetry"]),
    ("worker", &["h3", "jobs", "engine", "media", "telemetry"]),
    (
        "",
        &[
            "h3",
            "telemetry",
            "media",
            "engine",
            "jobs",
            "store-sqlite",
            "store-postgres",
            "dispatch",
            "blob",
            "outbound",
            "api",
            "scheduler",
            "worker",
        ],
    ),
];

/// The rooms that each room's tests may use besides: real stores and servers instead of fakes, specs to fill jobs with.
const TESTS: [(&str, &[&str]); 7] = [
    ("store-postgres", &["testkit"]),
    ("dispatch", &["h3", "testkit"]),
    ("blob", &["testkit"]),
    ("api", &["store-sqlite", "store-postgres", "dispatch", "blob", "testkit"]),
    ("scheduler", &["h3", "store-sqlite", "store-postgres", "dispatch", "blob", "testkit"]),
    ("worker", &["store-sqlite", "store-postgres", "dispatch", "blob", "testkit"]),
    ("", &["testkit"]),
];

/// Libraries that only some rooms touch.
const LIBRARIES: [(&str, &[&str]); 12] = [
    ("sqlx", &["store-sqlite", "store-postgres"]),
    ("redis", &["dispatch"]),
    ("aws-sdk-s3", &["blob"]),
    ("candle-core", &["engine"]),
    ("safetensors", &["engine"]),
    ("tokenizers", &["engine"]),
    ("axum", &["api", "telemetry"]),
    ("metrics", &["telemetry"]),
    ("opentelemetry", &["telemetry"]),
    ("opentelemetry_sdk", &["telemetry"]),
    ("tracing-opentelemetry", &["telemetry"]),
    ("clap", &[""]),
];

/// A room's name from its package's: the part after `clapboard-`, nothing for the binary.
fn room(package: &str) -> Option<&str> {
    if package == "clapboard" { Some("") } else { package.strip_prefix("clapboard-") }
}

/// The packages of the workspace.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Every edge from a room to a package, as `(room, package, whether only tests have it)`.
fn edges(packages: &[Value]) -> Vec<(String, String, bool)> {
    let mut edges = Vec::new();
    for package in packages {
        let from = room(package["name"].as_str().unwrap()).expect("every package is a room").to_owned();
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = dependency["name"].as_str().unwrap().to_owned();
            edges.push((from.clone(), to, dependency["kind"] == "dev"));
        }
    }
    edges
}

fn table(rows: &[(&'static str, &'static [&'static str])]) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    rows.iter().map(|(name, others)| (*name, others.iter().copied().collect())).collect()
}

#[test]
fn every_room_is_in_the_table() {
    let packages = packages();
    let found: BTreeSet<&str> =
        packages.iter().map(|package| room(package["name"].as_str().unwrap()).unwrap()).collect();
    let known: BTreeSet<&str> = ROOMS.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, known, "say in tests/architecture.rs what a new room may use");
}

#[test]
fn no_room_uses_one_that_it_should_not_know() {
    let (own, tests) = (table(&ROOMS), table(&TESTS));
    let mut wrong = Vec::new();
    for (from, to, in_tests) in edges(&packages()) {
        let Some(to) = room(&to) else { continue };
        let allowed = own[from.as_str()].contains(to)
            || (in_tests && tests.get(from.as_str()).is_some_and(|rooms| rooms.contains(to)));
        if !allowed {
            let place = if in_tests { " in its tests" } else { "" };
            wrong.push(format!("{from} uses {to}{place}"));
        }
    }
    assert!(wrong.is_empty(), "new edges between rooms: {wrong:#?}");
}

#[test]
fn libraries_stay_in_their_rooms() {
    let rooms = table(&LIBRARIES);
    let mut wrong = Vec::new();
    for (from, to, in_tests) in edges(&packages()) {
        if let Some(allowed) = rooms.get(to.as_str())
            && !in_tests
            && !allowed.contains(from.as_str())
        {
            wrong.push(format!("{from} uses {to}"));
        }
    }
    assert!(wrong.is_empty(), "libraries outside their rooms: {wrong:#?}");
}
