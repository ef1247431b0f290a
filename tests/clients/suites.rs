//! The official clients against a service in either mode.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::round_robin::RoundRobin;
use crate::support::{Service, clapboard};

/// How a service runs that the suites know.
pub(crate) const KNOWN_BY_KEYS: &[&str] = &["--auth", "keys", "--allow-http-webhook-host", "127.0.0.1"];

/// Makes an API key by an operator's command.
pub(crate) fn key(mut command: Command, options: &[&str]) -> String {
    let output = command.args(["create", "--json"]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    told["key"].as_str().unwrap().to_owned()
}

/// The operator's command for the keys of a standalone service.
pub(crate) fn keys_of(service: &Service) -> Command {
    let mut command = clapboard();
    // An option before the subcommand would belong to another one.
    command.env("CLAPBOARD_DATA", service.data()).arg("keys");
    command
}

/// Runs a suite, which is installed already, against a service; `log` tells what that has to say when it fails.
pub(crate) fn run(suite: &str, url: &str, keys: &[(&str, String)], log: impl FnOnce() -> String) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is a folder of the target folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/client-tests");
    let mut command = Command::new(script);
    command.arg(suite).env("CARGO_TARGET_DIR", target).env("CLAPBOARD_TEST_URL", url);
    for (name, key) in keys {
        command.env(format!("CLAPBOARD_TEST_{name}"), key);
    }
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{told}\n--- what the service warned of\n{}", warnings(&log()));
}

/// What is wrong by the word of a log: the lines that warn or tell of errors.
fn warnings(log: &str) -> String {
    let warns = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    log.lines().filter(warns).collect::<Vec<_>>().join("\n")
}

/// Makes the keys of a tenant that a suite has to itself.
fn keys(suite: &str, command: impl Fn() -> Command) -> Vec<(&'static str, String)> {
    let stranger = format!("not-{suite}");
    let all: [(&str, &str, &[&str]); 4] = [
        ("KEY", suite, &[]),
        ("READER_KEY", suite, &["--scope", "videos:read"]),
        ("LIMITED_KEY", suite, &["--requests-per-minute", "1"]),
        ("STRANGER_KEY", &stranger, &[]),
    ];
    all.map(|(name, tenant, more)| (name, key(command(), &[&["--tenant", tenant], more].concat()))).into()
}

fn standalone(suite: &str) {
    let service = Service::start_with(KNOWN_BY_KEYS);
    run(suite, service.url(), &keys(suite, || keys_of(&service)), || service.log());
}

fn distributed(suite: &str) {
    let mut cluster = Cluster::servers();
    let apis = [cluster.add_api(KNOWN_BY_KEYS), cluster.add_api(KNOWN_BY_KEYS)];
    cluster.add_scheduler();
    cluster.add_worker(&[]);
    let address = |url: String| url.strip_prefix("http://").unwrap().parse().unwrap();
    let turns = RoundRobin::start(apis.map(|api| address(cluster.apis[api].says("clapboard listens on "))).into());
    let log = || cluster.apis.iter().map(|api| api.log()).collect();
    run(suite, &turns.url(), &keys(suite, || cluster.command("keys")), log);
    assert!(turns.served().iter().all(|&count| count > 10), "both APIs were asked: {:?}", turns.served());
}

#[test]
fn the_python_client_works_with_a_standalone_service() {
    standalone("python");
}

#[test]
fn the_node_client_works_with_a_standalone_service() {
    standalone("node");
}

#[test]
fn the_python_client_works_with_two_apis_that_take_turns() {
    distributed("python");
}

#[test]
fn the_node_client_works_with_two_apis_that_take_turns() {
    distributed("node");
}
