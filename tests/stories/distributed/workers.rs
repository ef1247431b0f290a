//! Workers that die, freeze, drain and lie about the time.

use std::process::{Child, Stdio};

use clapboard_jobs::{AttemptEnd, FailureCode, JobState, Phase, Tenant};
use rustix::io::ioctl_fionread;

use super::cluster::Cluster;
use super::process::Process;
use crate::support::{long_job, short_job, until};

fn ends(cluster: &Cluster, id: &str) -> Vec<Option<AttemptEnd>> {
    let attempts = cluster.truth.attempts(&Tenant::default(), id);
    attempts.into_iter().map(|attempt| attempt.ended.map(|(_, end)| end)).collect()
}

/// Waits until the claim of that fence denoises, and returns the step that it is first seen at.
fn first_step_of(cluster: &Cluster, id: &str, fence: i64) -> u32 {
    until("the next attempt to denoise", || {
        let job = cluster.truth.job(&Tenant::default(), id);
        assert!(!job.state.is_final(), "too late: {job:?}");
        // A phase begins a moment before its first step is told, where there are no steps yet to count.
        let denoises = job.progress.phase == Phase::Denoise && job.progress.total_steps > 0;
        (job.fence.0 == fence && denoises).then_some(job.progress.step)
    })
}

#[test]
fn a_job_whose_worker_was_killed_goes_on_elsewhere_and_ends_bit_for_bit_the_same() {
    let mut cluster = Cluster::start();
    let expected = cluster.generated(&long_job());
    let id = cluster.create(&long_job());
    let stored = cluster.checkpointed(&id);
    cluster.workers[0].kill();
    cluster.add_worker(&[]);
    let seen = first_step_of(&cluster, &id, 2);
    assert!(seen >= stored, "the second attempt began at step {seen}, although step {stored} was stored");

    let video = cluster.completed(&id);
    assert_eq!(video["attempt"], 2);
    assert!(cluster.download(&id) == expected, "the resumed video differs");
    assert_eq!(ends(&cluster, &id), [Some(AttemptEnd::LeaseLost), Some(AttemptEnd::Completed)]);
    let named = cluster.truth.named_keys(&[(Tenant::default(), id)]);
    assert_eq!(named.len(), 3, "a video and its two pictures, and no checkpoint: {named:?}");
    cluster.objects_become(&named);
}

#[test]
fn a_frozen_worker_that_wakes_after_its_lease_changes_nothing() {
    let mut cluster = Cluster::start();
    let id = cluster.create(&long_job());
    cluster.checkpointed(&id);
    cluster.workers[0].freeze();
    cluster.add_worker(&[]);
    let video = cluster.completed(&id);
    let file = cluster.download(&id);
    let row = cluster.truth.job(&Tenant::default(), &id);

    cluster.workers[0].thaw();
    // It is a worker like any other again once it has heard that its lease is lost.
    let next = cluster.create(&short_job());
    cluster.workers[1].terminate();
    cluster.workers[1].wait();
    cluster.completed(&next);
    assert_eq!(cluster.video(&id), video);
    assert_eq!(cluster.truth.job(&Tenant::default(), &id), row);
    assert!(cluster.download(&id) == file);
    assert_eq!(ends(&cluster, &id), [Some(AttemptEnd::LeaseLost), Some(AttemptEnd::Completed)]);
    cluster.objects_become(&cluster.truth.named_keys(&[(Tenant::default(), id), (Tenant::default(), next)]));
}

#[test]
fn a_drained_worker_stores_its_state_and_the_attempt_does_not_count() {
    let mut cluster = Cluster::start();
    let expected = cluster.generated(&long_job());
    let id = cluster.create(&long_job());
    cluster.checkpointed(&id);
    cluster.workers[0].terminate();
    let status = cluster.workers[0].wait();
    assert!(status.success(), "{status}");
    let waiting = cluster.truth.job(&Tenant::default(), &id);
    assert_eq!((waiting.state, waiting.attempt), (JobState::Queued, 0));
    let stored = waiting.checkpoint.expect("the drain keeps the state").step;

    cluster.add_worker(&[]);
    assert!(first_step_of(&cluster, &id, 2) >= stored);
    assert_eq!(cluster.completed(&id)["attempt"], 1);
    assert!(cluster.download(&id) == expected, "the resumed video differs");
    assert_eq!(ends(&cluster, &id), [Some(AttemptEnd::Drained), Some(AttemptEnd::Completed)]);
}

#[test]
fn a_worker_that_drains_by_finishing_completes_its_job_and_takes_no_other() {
    let mut cluster = Cluster::servers();
    cluster.add_api(&[]);
    cluster.add_scheduler();
    cluster.add_worker(&["--drain", "finish"]);
    let (running, waiting) = (cluster.create(&long_job()), cluster.create(&short_job()));
    cluster.checkpointed(&running);
    cluster.workers[0].terminate();
    let status = cluster.workers[0].wait();
    assert!(status.success(), "{status}");
    assert_eq!(cluster.truth.job(&Tenant::default(), &running).state, JobState::Completed);
    assert_eq!(cluster.truth.job(&Tenant::default(), &waiting).state, JobState::Queued);
    assert_eq!(ends(&cluster, &running), [Some(AttemptEnd::Completed)]);
}

#[test]
fn a_job_that_takes_every_worker_down_fails_with_its_history_and_can_be_retried() {
    let mut cluster = Cluster::start();
    let id = cluster.create(&long_job());
    for attempt in 1..=3 {
        until("the attempt to begin", || {
            let job = cluster.truth.job(&Tenant::default(), &id);
            (job.state == JobState::Running && job.attempt == attempt && job.begun_at.is_some()).then_some(())
        });
        if attempt < 3 {
            cluster.replace_worker(0, &[]);
        } else {
            cluster.workers[0].kill();
        }
    }
    let failed = until("the job to fail", || {
        let job = cluster.truth.job(&Tenant::default(), &id);
        (job.state == JobState::Failed).then_some(job)
    });
    assert_eq!(failed.error.unwrap().code, FailureCode::WorkerLost);
    assert_eq!(ends(&cluster, &id), [Some(AttemptEnd::LeaseLost); 3]);
    cluster.objects_become(&[].into());

    let retried = cluster.command("jobs").args(["retry", &id]).output().unwrap();
    assert!(retried.status.success(), "{}", String::from_utf8_lossy(&retried.stderr));
    cluster.add_worker(&[]);
    assert_eq!(cluster.completed(&id)["attempt"], 1);
    assert_eq!(ends(&cluster, &id).len(), 4, "the history is kept");
}

#[test]
fn a_running_job_that_is_cancelled_stops_and_leaves_nothing() {
    let cluster = Cluster::start();
    let id = cluster.create(&long_job());
    cluster.checkpointed(&id);
    let cancelled = cluster.command("jobs").args(["cancel", &id]).output().unwrap();
    assert!(cancelled.status.success(), "{}", String::from_utf8_lossy(&cancelled.stderr));
    until("the cancel", || (cluster.truth.job(&Tenant::default(), &id).state == JobState::Cancelled).then_some(()));
    let video = cluster.video(&id);
    assert_eq!((video["status"].as_str(), video["error"]["code"].as_str()), (Some("failed"), Some("cancelled")));
    cluster.objects_become(&[].into());
    // The worker is free again.
    let next = cluster.create(&short_job());
    cluster.completed(&next);
}

#[test]
fn a_worker_whose_clock_is_a_day_off_works_like_any_other() {
    let mut cluster = Cluster::servers();
    cluster.add_api(&[]);
    cluster.add_scheduler();
    cluster.add_skewed_worker("+1d");
    let id = cluster.create(&long_job());
    cluster.checkpointed(&id);
    let job = cluster.truth.job(&Tenant::default(), &id);
    let lease = job.lease_expires_at.expect("a running job has a lease");
    let now = cluster.truth.must(async |store| store.now().await);
    assert!(lease.since(now).as_secs() <= 3, "the lease lasts by the worker's clock: {lease}, now {now}");
    assert_eq!(cluster.completed(&id)["attempt"], 1);
}

#[test]
fn a_worker_whose_key_may_only_read_says_so_and_ends_before_it_loads_its_engine() {
    let cluster = Cluster::servers();
    cluster.s3.set_read_only(true);
    let folder = tempfile::tempdir().unwrap();
    let command = cluster.worker_command(&folder.path().join("scratch"), &[]);
    let mut worker = Process::spawn(folder.path(), "read-only-worker", command);
    assert_eq!(worker.wait().code(), Some(1));
    let told = worker.log();
    let why = "the media store does not permit storing an object: the server answered 403 AccessDenied";
    let expected = format!("clapboard: the media store did not take an object and give it up again: {why}");
    assert!(told.contains(&expected), "{told}");
    assert!(!told.contains("loading the engine"), "{told}");
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_worker_whose_log_nobody_reads_keeps_its_lease() {
    let mut cluster = Cluster::servers();
    cluster.add_api(&[]);
    cluster.add_scheduler();
    let folder = tempfile::tempdir().unwrap();
    let mut command = cluster.worker_command(&folder.path().join("scratch"), &["--log", "trace"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let worker = Killed(command.spawn().unwrap());
    let log = worker.0.stderr.as_ref().unwrap();
    // A pipe holds 64 KiB.
    until("the pipe to be full", || (ioctl_fionread(log).unwrap() > 60_000).then_some(()));
    let id = cluster.create(&long_job());
    assert_eq!(cluster.completed(&id)["attempt"], 1);
    assert_eq!(ends(&cluster, &id), [Some(AttemptEnd::Completed)]);
}
