//! What the sweeps do to a real store, dispatcher and media store.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod courier;
mod courier_faults;
mod house;
mod media;
mod receivers;

use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::fixtures::{FaultyStore, small_spec};
use clapboard_jobs::{FailureCode, JobId, JobState, NewJob, Policy, Tenant, TenantLimits};
use clapboard_scheduler::{Deadlines, Options, Retention, Sweep, Swept, take_back_from_dead};
use tokio_util::sync::CancellationToken;

use crate::house::House;

const LIFE: Duration = Duration::from_secs(3600);
const NOTHING: Swept = Swept { done: 0, more: false };

#[tokio::test]
async fn lost_hints_come_back_and_are_not_doubled() {
    let house = House::new().await;
    let (first, second) = (house.submit().await, house.submit().await);
    let queue = first.queue();
    let refill = house.refill(&Options::default());
    assert_eq!(refill.sweep_once().await.unwrap(), Swept { done: 2, more: false });
    refill.sweep_once().await.unwrap();
    assert_eq!(house.dispatch.len(queue).await.unwrap(), 2);
    for expected in [first.id, second.id] {
        let hint = house.dispatch.pop(&[queue], Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(hint.job, expected);
    }
    assert_eq!(house.claim().await.job.id, first.id);
    assert_eq!(refill.sweep_once().await.unwrap().done, 1);
}

#[tokio::test]
async fn the_window_holds_the_heads_of_a_long_queue() {
    let house = House::new().await;
    for _ in 0..5 {
        house.submit().await;
    }
    let options = Options { refill_window: 3, ..Options::default() };
    assert_eq!(house.refill(&options).sweep_once().await.unwrap(), Swept { done: 3, more: false });
}

#[tokio::test]
async fn the_reaper_takes_back_what_a_dead_worker_held_and_ends_it_in_the_end() {
    let house = House::new().await;
    let job = house.submit().await;
    let reaper = house.reaper(&Options::default());
    for attempt in 1..=house.policy.max_attempts {
        let claimed = house.claim().await;
        assert_eq!(claimed.job.attempt, attempt);
        house.store.begin(&claimed.lease).await.unwrap();
        assert_eq!(reaper.sweep_once().await.unwrap(), NOTHING);
        house.clock.advance(house.policy.lease);
        assert_eq!(reaper.sweep_once().await.unwrap(), Swept { done: 1, more: false });
        // Nobody has to look for a job that waits again.
        let waits = u64::from(attempt < house.policy.max_attempts);
        assert_eq!(house.dispatch.len(job.queue()).await.unwrap(), waits);
        house.dispatch.pop(&[job.queue()], Duration::ZERO).await.unwrap();
    }
    let job = house.store.get(&house.tenant, job.id).await.unwrap().unwrap();
    assert_eq!(job.state, JobState::Failed);
}

#[tokio::test]
async fn a_full_batch_says_that_there_may_be_more() {
    let house = House::new().await;
    for _ in 0..3 {
        house.submit().await;
        house.claim().await;
    }
    house.clock.advance(house.policy.lease);
    let reaper = house.reaper(&Options { batch: 2, ..Options::default() });
    assert_eq!(reaper.sweep_once().await.unwrap(), Swept { done: 2, more: true });
    assert_eq!(reaper.sweep_once().await.unwrap(), Swept { done: 1, more: false });
}

#[tokio::test]
async fn what_is_left_of_deleted_jobs_is_forgotten_page_by_page() {
    let policy = Policy { record_life: Some(LIFE), ..Policy::default() };
    let house = House::under(policy).await;
    for _ in 0..3 {
        let job = house.submit().await;
        house.store.delete(&house.tenant, job.id).await.unwrap();
    }
    let retention = Retention::new(Arc::clone(&house.store), &Options { batch: 2, ..Options::default() });
    assert_eq!(retention.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(LIFE);
    assert_eq!(retention.sweep_once().await.unwrap(), Swept { done: 2, more: true });
    assert_eq!(retention.sweep_once().await.unwrap(), Swept { done: 1, more: false });
    assert_eq!(retention.sweep_once().await.unwrap(), NOTHING);
}

#[tokio::test]
async fn a_service_that_starts_takes_back_what_ran_when_it_died() {
    let house = House::new().await;
    let job = house.submit().await;
    let living = house.claim().await.lease.worker;
    assert!(take_back_from_dead(&*house.store, &[living]).await.unwrap().is_empty());
    let reclaimed = take_back_from_dead(&*house.store, &[]).await.unwrap();
    assert_eq!(reclaimed.requeued, [job.id]);
}

#[tokio::test]
async fn the_running_scheduler_fills_the_queue_and_ends_when_told() {
    let house = House::new().await;
    let job = house.submit().await;
    let shutdown = CancellationToken::new();
    let running = house.schedule(Arc::clone(&house.store), Options::default(), &shutdown);
    let hint = house.dispatch.pop(&[job.queue()], Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(hint.job, job.id);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn the_backlog_of_a_capped_tenant_does_not_fill_the_window() {
    let house = House::new().await;
    let capped: Tenant = "capped".parse().unwrap();
    let limits = TenantLimits { max_running: Some(1), ..TenantLimits::default() };
    house.store.set_tenant(&capped, &limits).await.unwrap();
    let mut heads = Vec::new();
    for tenant in [&capped, &capped, &capped, &house.tenant] {
        let job = NewJob::new(tenant.clone(), "h3", &small_spec());
        heads.push(house.store.create(job).await.unwrap());
    }
    let queue = heads[0].queue();
    let refill = house.refill(&Options { refill_window: 2, ..Options::default() });
    assert_eq!(refill.sweep_once().await.unwrap(), Swept { done: 2, more: false });
    let mut hinted = Vec::new();
    while let Some(hint) = house.dispatch.pop(&[queue], Duration::ZERO).await.unwrap() {
        hinted.push(hint.job);
    }
    hinted.sort_unstable();
    assert_eq!(hinted, [heads[0].id, heads[3].id]);
}

#[tokio::test]
async fn a_job_that_did_not_begin_in_time_fails_and_one_that_did_goes_on() {
    let house = House::new().await;
    let patience = Duration::from_secs(90);
    let urgent = NewJob { start_within: Some(patience), ..house.new_job() };
    let begun = house.store.create(NewJob { id: JobId::new(), ..urgent.clone() }).await.unwrap();
    house.store.begin(&house.claim().await.lease).await.unwrap();
    let claimed = house.store.create(NewJob { id: JobId::new(), ..urgent.clone() }).await.unwrap();
    house.claim().await;
    let waits = house.store.create(urgent).await.unwrap();
    let patient = house.submit().await;
    let deadlines = Deadlines::new(Arc::clone(&house.store), &Options::default());
    assert_eq!(deadlines.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(patience + Duration::from_secs(1));
    assert_eq!(deadlines.sweep_once().await.unwrap(), Swept { done: 2, more: false });
    assert_eq!(deadlines.sweep_once().await.unwrap(), NOTHING);
    for id in [waits.id, claimed.id] {
        let failed = house.job(id).await.unwrap();
        assert_eq!((failed.state, failed.begun_at), (JobState::Failed, None));
        assert_eq!(failed.error.unwrap().code, FailureCode::StartDeadlineExceeded);
    }
    assert_eq!(house.job(begun.id).await.unwrap().state, JobState::Running);
    assert_eq!(house.job(patient.id).await.unwrap().state, JobState::Queued);
}

#[tokio::test]
async fn results_and_then_records_go_when_they_were_kept_long_enough_and_the_objects_with_them() {
    let policy = Policy { result_life: Some(LIFE), record_life: Some(3 * LIFE), ..Policy::default() };
    let house = House::under(policy).await;
    let options = Options { batch: 1, ..Options::default() };
    let retention = Retention::new(Arc::clone(&house.store), &options);
    let garbage = house.garbage(&Options::default());
    let mut jobs = Vec::new();
    for _ in 0..2 {
        jobs.push(house.submit().await.id);
        house.complete_one().await;
    }
    assert_eq!(retention.sweep_once().await.unwrap(), NOTHING);
    house.clock.advance(LIFE);
    for _ in &jobs {
        assert_eq!(retention.sweep_once().await.unwrap(), Swept { done: 1, more: true });
    }
    assert_eq!(retention.sweep_once().await.unwrap(), NOTHING);
    assert_eq!(garbage.sweep_once().await.unwrap(), Swept { done: 2, more: false });
    assert_eq!(house.objects().await, []);
    for job in &jobs {
        let job = house.job(*job).await.unwrap();
        assert_eq!((job.state, job.result), (JobState::Completed, None));
    }
    house.clock.advance(2 * LIFE);
    for _ in &jobs {
        assert_eq!(retention.sweep_once().await.unwrap(), Swept { done: 1, more: true });
    }
    assert_eq!(retention.sweep_once().await.unwrap(), NOTHING);
    for job in jobs {
        assert_eq!(house.job(job).await, None);
    }
}

#[tokio::test]
async fn the_reaper_looks_every_other_second_whatever_it_is_told() {
    let house = House::new().await;
    for asked in [Duration::from_secs(1), Duration::from_secs(3600)] {
        let options = Options { reaper_interval: asked, ..Options::default() };
        let reaper = house.reaper(&options);
        assert!(reaper.interval() < Duration::from_secs(2));
    }
}

#[tokio::test]
async fn jobs_of_dead_workers_are_found_while_nobody_says_what_falls_due() {
    let house = House::new().await;
    let store = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    store.hang_dues();
    let shutdown = CancellationToken::new();
    let running = house.schedule(store, Options::default(), &shutdown);
    for _ in 0..2 {
        let job = house.submit().await;
        house.claim().await;
        house.clock.advance(house.policy.lease);
        house.until(async || house.job(job.id).await.filter(|job| job.state == JobState::Queued)).await;
        house.store.delete(&house.tenant, job.id).await.unwrap();
    }
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_scheduler_outlasts_its_store() {
    let house = House::new().await;
    let store = Arc::new(FaultyStore::over(Arc::clone(&house.store)));
    store.go_away();
    let shutdown = CancellationToken::new();
    let running = house.schedule(Arc::clone(&store) as _, Options::default(), &shutdown);
    let job = house.submit().await;
    let hint = house.dispatch.pop(&[job.queue()], Duration::from_millis(300)).await.unwrap();
    assert_eq!(hint, None);
    house.claim().await;
    house.clock.advance(house.policy.lease);
    store.come_back();
    house.until(async || house.job(job.id).await.filter(|job| job.state == JobState::Queued)).await;
    assert!(!running.is_finished());
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schedulers_side_by_side_do_everything_once() {
    const EACH: usize = 8;
    let policy = Policy { result_life: Some(LIFE), ..Policy::default() };
    let house = House::under(policy).await;
    let shutdown = CancellationToken::new();
    // The clock is moved while the sweeps rest by another one, so they must not rest for long.
    let soon = Duration::from_millis(200);
    let options = Options {
        batch: 2,
        reaper_interval: soon,
        deadline_interval: soon,
        retention_interval: soon,
        garbage_interval: soon,
        orphan_interval: soon,
        ..Options::default()
    };
    let running = [(); 2].map(|()| house.schedule(Arc::clone(&house.store), options.clone(), &shutdown));

    let mut finished = Vec::new();
    for _ in 0..EACH {
        finished.push(house.submit().await.id);
        house.complete_one().await;
    }
    let mut lost = Vec::new();
    for _ in 0..EACH {
        lost.push(house.submit().await.id);
        let lease = house.claim().await.lease;
        house.store.begin(&lease).await.unwrap();
        house.keep_checkpoint(&lease, 1).await;
    }
    let mut late = Vec::new();
    for _ in 0..EACH {
        let job = NewJob { start_within: Some(LIFE / 2), ..house.new_job() };
        late.push(house.store.create(job).await.unwrap().id);
    }
    house.clock.advance(LIFE);

    for id in &finished {
        let job = house.until(async || house.job(*id).await.filter(|job| job.result.is_none())).await;
        assert_eq!(job.state, JobState::Completed);
    }
    for id in &lost {
        let job = house.until(async || house.job(*id).await.filter(|job| job.state == JobState::Queued)).await;
        assert_eq!((job.attempt, job.fence.0), (1, 1));
        let attempts = house.store.attempts(&house.tenant, *id).await.unwrap();
        assert_eq!(attempts.len(), 1);
        assert!(attempts[0].ended.is_some());
    }
    for id in &late {
        let job = house.until(async || house.job(*id).await.filter(|job| job.state.is_final())).await;
        assert_eq!(job.error.unwrap().code, FailureCode::StartDeadlineExceeded);
    }
    // The expired results go, the denoising states of the jobs that wait stay.
    house.until(async || (house.objects().await.len() == EACH).then_some(())).await;
    let mut kept: Vec<JobId> = Vec::new();
    for id in &lost {
        let checkpoint = house.job(*id).await.unwrap().checkpoint.unwrap();
        assert!(house.objects().await.contains(&checkpoint.key));
        kept.push(*id);
    }
    assert_eq!(kept, lost);
    shutdown.cancel();
    for scheduler in running {
        scheduler.await.unwrap();
    }
}
