//! What is kept, and for how long.

use std::time::Duration;

use super::*;
use crate::fleet::{WorkerCard, WorkerState};
use crate::state::{JobState, Status};
use crate::store::{ListQuery, StoreError};

const RESULT_LIFE: Duration = Duration::from_secs(1_000);
const RECORD_LIFE: Duration = Duration::from_secs(5_000);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn expiring(harness: &impl StoreHarness) -> Arc<dyn Store> {
    harness.store_with(Policy { result_life: Some(RESULT_LIFE), ..Policy::default() }).await
}

async fn forgetful(harness: &impl StoreHarness) -> Arc<dyn Store> {
    harness.store_with(Policy { record_life: Some(RECORD_LIFE), ..Policy::default() }).await
}

async fn expire(store: &dyn Store) -> Vec<JobId> {
    store.expire_results(100).await.expect("the store answers")
}

async fn purge(store: &dyn Store) -> Vec<JobId> {
    store.purge_records(100).await.expect("the store answers")
}

async fn forget(store: &dyn Store, limit: u32) -> usize {
    store.forget_deleted(limit).await.expect("the store answers")
}

async fn done(store: &dyn Store) -> Lease {
    let lease = running(store).await;
    store.finish(&lease, completed(&lease)).await.expect("the lease holds");
    lease
}

/// Nothing is given up by a policy that says nothing of it.
pub async fn by_default_everything_is_kept(harness: &impl StoreHarness) {
    let store = harness.store();
    let lease = done(&*store).await;
    let job = get(&*store, lease.job).await;
    assert_eq!(job.result_expires_at, None);
    harness.advance(400 * DAY).await;
    assert_eq!((expire(&*store).await, purge(&*store).await), (vec![], vec![]));
    assert_eq!(get(&*store, lease.job).await.result, job.result);
    assert_eq!(garbage(&*store).await, []);
}

/// The video goes, the record says that there was one and until when.
pub async fn a_result_is_given_up_and_its_job_stays(harness: &impl StoreHarness) {
    let store = expiring(harness).await;
    let lease = done(&*store).await;
    let before = get(&*store, lease.job).await;
    let expires_at = before.finished_at.map(|at| at.plus(RESULT_LIFE));
    assert_eq!(before.result_expires_at, expires_at);
    let broken = running(&*store).await;
    store.finish(&broken, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    assert_eq!(get(&*store, broken.job).await.result_expires_at, None);
    store.forget_garbage(&[broken.result_key()]).await.expect("the store answers");

    harness.advance(RESULT_LIFE - Duration::from_secs(10)).await;
    assert_eq!(expire(&*store).await, []);
    harness.advance(Duration::from_secs(10)).await;
    assert_eq!(expire(&*store).await, [lease.job]);
    assert_eq!(expire(&*store).await, []);
    let job = get(&*store, lease.job).await;
    assert_eq!((job.state, job.status(), job.progress.percent), (JobState::Completed, Status::Completed, 100));
    assert_eq!((&job.result, job.result_expires_at.is_some()), (&None, true));
    assert_eq!((&job.report, &job.error), (&before.report, &None));
    assert_eq!(garbage(&*store).await, [lease.result_key()]);
    // The moment was fixed when the job was completed: another policy changes it for later jobs only.
    let kept = done(&*harness.store()).await;
    harness.advance(RESULT_LIFE).await;
    assert_eq!(expire(&*store).await, []);
    assert!(get(&*store, kept.job).await.result.is_some());
}

/// No more than were asked for, none twice.
pub async fn results_are_given_up_up_to_the_limit(harness: &impl StoreHarness) {
    let store = expiring(harness).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(done(&*store).await.job);
        harness.advance(Duration::from_secs(1)).await;
    }
    harness.advance(RESULT_LIFE).await;
    assert_eq!(store.expire_results(2).await.expect("the store answers"), made[..2]);
    assert_eq!(expire(&*store).await, made[2..]);
}

/// A record goes with its history and its objects, however the job ended; a job that has not ended stays.
pub async fn an_ended_job_is_deleted_after_its_time(harness: &impl StoreHarness) {
    let store = forgetful(harness).await;
    let waiting = make(&*store, |new| new.partition = Partition::Ref2va).await;
    let completed = done(&*store).await;
    harness.advance(Duration::from_secs(1)).await;
    let broken = running(&*store).await;
    store.finish(&broken, Outcome::Failed(failed("broken"))).await.expect("the lease holds");
    harness.advance(Duration::from_secs(1)).await;
    let cancelled = create(&*store).await.id;
    store.cancel(&tenant(), cancelled).await.expect("the store answers");
    store.forget_garbage(&[broken.result_key()]).await.expect("the store answers");

    harness.advance(RECORD_LIFE - Duration::from_secs(30)).await;
    assert_eq!(purge(&*store).await, []);
    harness.advance(Duration::from_secs(30)).await;
    assert_eq!(store.purge_records(1).await.expect("the store answers"), [completed.job]);
    assert_eq!(purge(&*store).await, [broken.job, cancelled]);
    assert_eq!(purge(&*store).await, []);
    for id in [completed.job, broken.job, cancelled] {
        assert_eq!(store.get(&tenant(), id).await.expect("the store answers"), None);
        assert_eq!(history(&*store, id).await, []);
    }
    assert_eq!(garbage(&*store).await, [completed.result_key()]);
    assert_eq!(get(&*store, waiting.id).await.state, JobState::Queued);
}

/// What is left of a deleted job is enough to go on with a list, and is forgotten like a record.
pub async fn a_list_goes_on_after_a_deleted_job_only_so_long(harness: &impl StoreHarness) {
    let store = forgetful(harness).await;
    let deleted = create(&*store).await.id;
    store.delete(&tenant(), deleted).await.expect("the store answers");
    let after = ListQuery { after: Some(deleted), ..ListQuery::default() };
    harness.advance(RECORD_LIFE - Duration::from_secs(30)).await;
    assert_eq!(forget(&*store, 100).await, 0);
    assert!(store.list(&tenant(), &after).await.is_ok());
    harness.advance(Duration::from_secs(30)).await;
    assert_eq!(forget(&*harness.store(), 100).await, 0);
    assert!(store.list(&tenant(), &after).await.is_ok());
    assert_eq!(forget(&*store, 100).await, 1);
    let refused = store.list(&tenant(), &after).await;
    assert!(matches!(refused, Err(StoreError::UnknownCursor { after }) if after == deleted), "{refused:?}");
}

/// However many are deleted in a minute: a sweep learns that there are more to forget, and when the next one is.
pub async fn deleted_jobs_are_forgotten_up_to_the_limit(harness: &impl StoreHarness) {
    let store = forgetful(harness).await;
    for _ in 0..5 {
        let id = create(&*store).await.id;
        store.delete(&tenant(), id).await.expect("the store answers");
    }
    let now = store.now().await.expect("the store answers");
    let due = store.next_due(now).await.expect("the store answers").expect("they are to be forgotten");
    assert!(
        due <= now.plus(RECORD_LIFE) && due.since(now) > RECORD_LIFE - Duration::from_secs(30),
        "{due} after {now}"
    );
    harness.advance(RECORD_LIFE).await;
    let mut pages = Vec::new();
    for _ in 0..4 {
        pages.push(forget(&*store, 2).await);
    }
    assert_eq!(pages, [2, 2, 1, 0]);
    let now = store.now().await.expect("the store answers");
    assert_eq!(store.next_due(now).await.expect("the store answers"), None);
}

/// The dead take no leave, so somebody has to forget them.
pub async fn a_worker_not_heard_of_for_a_day_is_forgotten(harness: &impl StoreHarness) {
    let store = harness.store();
    let card = WorkerCard {
        id: WorkerId::new(),
        host: "gpu-1.example.org".to_owned(),
        version: "0.1.0".to_owned(),
        partitions: vec![Partition::Fl2va],
        spec_versions: vec![1],
        max_rows: None,
        state: WorkerState::Idle,
    };
    store.announce(&card).await.expect("the store answers");
    harness.advance(DAY - Duration::from_secs(60)).await;
    purge(&*store).await;
    assert!(store.ask_drain(card.id).await.expect("the store answers"));
    harness.advance(Duration::from_secs(61)).await;
    purge(&*store).await;
    assert!(!store.ask_drain(card.id).await.expect("the store answers"));
}

/// A sweep that sleeps until the next moment wakes for the end of a result and for the end of a record.
pub async fn the_next_moment_may_be_the_end_of_a_result_or_a_record(harness: &impl StoreHarness) {
    let policy = Policy { result_life: Some(RESULT_LIFE), record_life: Some(RECORD_LIFE), ..Policy::default() };
    let store = harness.store_with(policy).await;
    let lease = done(&*store).await;
    let job = get(&*store, lease.job).await;
    let finished_at = job.finished_at.expect("it has ended");
    let now = store.now().await.expect("the store answers");
    let due = async |after| store.next_due(after).await.expect("the store answers");
    assert_eq!(due(now).await, job.result_expires_at);
    assert_eq!(due(finished_at.plus(RESULT_LIFE)).await, Some(finished_at.plus(RECORD_LIFE)));
    assert_eq!(due(finished_at.plus(RECORD_LIFE)).await, None);
    harness.advance(RESULT_LIFE).await;
    assert_eq!(expire(&*store).await, [lease.job]);
    store.forget_garbage(&[lease.result_key()]).await.expect("the store answers");
    let (now, job) = (store.now().await.expect("the store answers"), get(&*store, lease.job).await);
    assert_eq!(due(now).await, job.finished_at.map(|at| at.plus(RECORD_LIFE)));
}

/// A client may have its video go earlier, never later.
pub async fn a_job_may_shorten_the_life_of_its_result(harness: &impl StoreHarness) {
    let (limited, unlimited) = (expiring(harness).await, harness.store());
    let shorter = RESULT_LIFE / 2;
    for (store, asked, kept) in [
        (&limited, Some(shorter), Some(shorter)),
        (&limited, Some(RESULT_LIFE * 2), Some(RESULT_LIFE)),
        (&limited, None, Some(RESULT_LIFE)),
        (&unlimited, Some(shorter), Some(shorter)),
        (&unlimited, None, None),
    ] {
        let id = make(&**store, |new| new.result_life = asked).await.id;
        let lease = claim(&**store, id).await.lease;
        store.finish(&lease, completed(&lease)).await.expect("the lease holds");
        let job = get(&**store, id).await;
        let expected = kept.and_then(|life| job.finished_at.map(|at| at.plus(life)));
        assert_eq!(job.result_expires_at, expected, "{asked:?}");
    }
}
