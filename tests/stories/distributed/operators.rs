//! What operators ask and order.

use std::process::Output;

use clapboard_jobs::{JobState, Tenant, WorkerState};
use serde_json::Value;

use super::cluster::Cluster;
use crate::support::{long_job, short_job, until};

fn run(cluster: &Cluster, subcommand: &str, arguments: &[&str]) -> Output {
    cluster.command(subcommand).args(arguments).output().unwrap()
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn jobs_are_listed_and_shown_with_their_attempts() {
    let cluster = Cluster::start();
    let id = cluster.create(&short_job());
    cluster.completed(&id);
    let listed: Value = serde_json::from_str(&told(&run(&cluster, "jobs", &["list", "--json"]))).unwrap();
    assert!(listed.to_string().contains(&id), "{listed}");
    let shown = told(&run(&cluster, "jobs", &["show", &id]));
    assert!(shown.contains("completed"), "{shown}");
    let usage = told(&run(&cluster, "jobs", &["usage"]));
    assert!(usage.contains("default"), "{usage}");
    let unknown = run(&cluster, "jobs", &["show", "video_gen_00000000000000000000000000000000"]);
    assert_eq!(unknown.status.code(), Some(1));
}

#[test]
fn a_worker_drains_by_order_and_is_gone_from_the_list() {
    let mut cluster = Cluster::start();
    let id = cluster.create(&long_job());
    cluster.checkpointed(&id);
    let worker = until("the worker to be busy", || {
        cluster.truth.workers().into_iter().find(|worker| worker.card.state == WorkerState::Busy)
    });
    let listed = told(&run(&cluster, "workers", &["list"]));
    assert!(listed.contains(&worker.card.id.to_string()), "{listed}");
    told(&run(&cluster, "workers", &["drain", &worker.card.id.to_string()]));
    let status = cluster.workers[0].wait();
    assert!(status.success(), "{status}");
    assert!(cluster.truth.workers().is_empty());
    let job = cluster.truth.job(&Tenant::default(), &id);
    assert_eq!((job.state, job.attempt), (JobState::Queued, 0));
}

#[test]
fn a_paused_partition_runs_nothing_until_it_goes_on() {
    let cluster = Cluster::start();
    told(&run(&cluster, "workers", &["pause", "fl2va"]));
    let id = cluster.create(&short_job());
    // The worker has asked for a job more than once since.
    let seen = |cluster: &Cluster| cluster.truth.workers().first().map(|worker| worker.seen_at);
    let first = until("the worker to be heard of", || seen(&cluster));
    until("the worker to be heard of again", || {
        seen(&cluster).is_some_and(|now| now.since(first).as_secs() >= 2).then_some(())
    });
    assert_eq!(cluster.truth.job(&Tenant::default(), &id).state, JobState::Queued);
    told(&run(&cluster, "workers", &["resume", "fl2va"]));
    cluster.completed(&id);
}
