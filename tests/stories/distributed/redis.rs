//! Redis that forgets, and Redis that is not there.

use clapboard_jobs::Tenant;
use clapboard_testkit::Redis;

use super::cluster::Cluster;
use crate::support::{Body, long_job, short_job};

#[test]
fn flushed_hints_come_back() {
    let mut cluster = Cluster::servers();
    cluster.add_api(&[]);
    let waiting: Vec<String> = (0..5).map(|_| cluster.create(&short_job())).collect();
    cluster.redis.flush();
    cluster.add_scheduler();
    cluster.add_worker(&[]);
    for id in waiting {
        assert_eq!(cluster.completed(&id)["attempt"], 1);
    }
}

#[test]
fn without_redis_jobs_are_accepted_and_run_all_the_same() {
    let mut cluster = Cluster::start();
    cluster.redis.kill();
    let reply = cluster.request(0, "GET", "/ready", &[], Body::Nothing).expect("the API answers");
    assert_eq!(reply.status, 200, "a dispatcher that is away does not make the API unready");
    let id = cluster.create(&short_job());
    cluster.completed(&id);
    cluster.redis.start_again();
    let id = cluster.create(&short_job());
    cluster.completed(&id);
}

#[test]
fn a_service_starts_without_redis() {
    let mut cluster = Cluster::servers();
    cluster.redis.kill();
    cluster.add_api(&[]);
    cluster.add_scheduler();
    cluster.add_worker(&[]);
    let id = cluster.create(&short_job());
    cluster.completed(&id);
}

#[test]
fn hints_of_an_old_snapshot_run_nothing_twice() {
    let mut cluster = Cluster::with_redis(Redis::with_snapshots());
    cluster.add_api(&[]);
    let ids: Vec<String> = (0..3).map(|_| cluster.create(&short_job())).collect();
    cluster.redis.save();
    cluster.add_scheduler();
    cluster.add_worker(&[]);
    for id in &ids {
        cluster.completed(id);
    }
    let running = cluster.create(&long_job());
    cluster.checkpointed(&running);
    cluster.redis.kill();
    cluster.redis.start_again();
    let next = cluster.create(&short_job());
    cluster.completed(&running);
    cluster.completed(&next);
    for id in ids.iter().chain([&running, &next]) {
        let attempts = cluster.truth.attempts(&Tenant::default(), id);
        // One that was claimed ahead and given back has not begun.
        let runs = attempts.iter().filter(|attempt| attempt.begun_at.is_some()).count();
        assert_eq!(runs, 1, "{id} ran more than once: {attempts:?}");
    }
}
