//! Requests that come twice.

use std::time::Duration;

use tokio::task::JoinSet;

use super::*;
use crate::store::{ListQuery, StoreError};
use crate::submission::{Resend, Submission};
use crate::tenant::TenantLimits;

const NAMED: Submission = Submission { token: [1; 32], fields: [7; 32], resend: Resend::Named };

fn counted(again: bool, arrived: Duration) -> Submission {
    Submission { token: [2; 32], fields: [7; 32], resend: Resend::Counted { again, arrived } }
}

fn first() -> Submission {
    counted(false, Duration::ZERO)
}

fn again() -> Submission {
    counted(true, Duration::ZERO)
}

async fn send(store: &dyn Store, submission: Submission) -> Result<JobId, StoreError> {
    store.create(NewJob { submission: Some(submission), ..new_job() }).await.map(|job| job.id)
}

async fn made(store: &dyn Store, submission: Submission) -> JobId {
    assert_eq!(known(store, submission).await, None);
    send(store, submission).await.expect("a job is made")
}

async fn known(store: &dyn Store, submission: Submission) -> Option<JobId> {
    store.submitted(&tenant(), &submission).await.expect("the store answers")
}

/// Expects that both ways to ask say that the request has made that job.
async fn assert_resubmitted(store: &dyn Store, submission: Submission, expected: JobId) {
    assert_eq!(known(store, submission).await, Some(expected));
    let answer = send(store, submission).await;
    assert!(matches!(answer, Err(StoreError::Resubmitted { job }) if job == expected), "{answer:?}");
}

async fn jobs(store: &dyn Store) -> usize {
    store
        .list(&tenant(), &ListQuery { limit: 1_000, ..ListQuery::default() })
        .await
        .expect("the store answers")
        .jobs
        .len()
}

/// A create that is sent again while the first is under way is the same create: one makes the job, the others are told that it
/// is there, and none that another request has made it.
pub async fn of_one_create_sent_many_times_one_makes_the_job(harness: &impl StoreHarness) {
    let store = harness.store();
    for round in 0..4u8 {
        let requests =
            [Submission { token: [10 + round; 32], ..NAMED }, Submission { token: [20 + round; 32], ..again() }];
        for submission in requests {
            let new = NewJob { submission: Some(submission), ..new_job() };
            let mut sending = JoinSet::new();
            for _ in 0..4 {
                let (store, new) = (Arc::clone(&store), new.clone());
                sending.spawn(async move { store.create(new).await });
            }
            let (made, others): (Vec<_>, Vec<_>) = sending.join_all().await.into_iter().partition(Result::is_ok);
            assert_eq!(made.len(), 1, "{others:?}");
            for answer in others {
                assert!(matches!(answer, Err(StoreError::Duplicate { id }) if id == new.id), "{answer:?}");
            }
        }
    }
}

/// A name stands for one request of its tenant: the same again is the same job, another is refused.
pub async fn a_named_request_makes_one_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = made(&*store, NAMED).await;
    assert_resubmitted(&*store, NAMED, job).await;
    let other = Submission { fields: [8; 32], ..NAMED };
    let (told, refused) = (store.submitted(&tenant(), &other).await, send(&*store, other).await);
    assert!(matches!(told, Err(StoreError::KeyReused { job: found }) if found == job), "{told:?}");
    assert!(matches!(refused, Err(StoreError::KeyReused { job: found }) if found == job), "{refused:?}");
    assert_eq!(jobs(&*store).await, 1);
    // Another tenant's names are its own, and so is every other token.
    let foreign = NewJob { tenant: named("other"), submission: Some(NAMED), ..new_job() };
    store.create(foreign).await.expect("a job is made");
    made(&*store, Submission { token: [3; 32], ..NAMED }).await;
    // A create that is sent again under its own id is told so, as without a name.
    let twice = store.create(NewJob { id: job, submission: Some(NAMED), ..new_job() }).await;
    assert!(matches!(twice, Err(StoreError::Duplicate { id }) if id == job), "{twice:?}");
}

/// A name is kept for a day, whatever becomes of the job.
pub async fn a_name_outlives_its_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = made(&*store, NAMED).await;
    store.delete(&tenant(), job).await.expect("the store answers");
    assert_resubmitted(&*store, NAMED, job).await;
    harness.advance(Resend::Named.memory() - Duration::from_secs(60)).await;
    assert_resubmitted(&*store, NAMED, job).await;
    harness.advance(Duration::from_secs(60)).await;
    let next = made(&*store, NAMED).await;
    assert_resubmitted(&*store, NAMED, next).await;
}

/// A library that says that it tries again gets its job, within a minute, while that is there.
pub async fn a_counted_try_finds_its_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = made(&*store, first()).await;
    assert_resubmitted(&*store, again(), job).await;
    harness.advance(again().resend.memory()).await;
    let job = made(&*store, again()).await;
    assert_resubmitted(&*store, again(), job).await;
    store.delete(&tenant(), job).await.expect("the store answers");
    made(&*store, again()).await;
}

/// The same request once more, not as a retry, is a second video.
pub async fn a_first_try_makes_a_job_of_its_own(harness: &impl StoreHarness) {
    let store = harness.store();
    let one = made(&*store, first()).await;
    let two = made(&*store, first()).await;
    assert_ne!(one, two);
    assert_resubmitted(&*store, again(), two).await;
    assert_eq!(jobs(&*store).await, 2);
}

/// A first try that is still on its way when its own second try has made the job makes no other.
pub async fn a_first_try_that_was_overtaken_finds_the_job(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = made(&*store, again()).await;
    harness.advance(Duration::from_secs(10)).await;
    assert_resubmitted(&*store, counted(false, Duration::from_secs(20)), job).await;
    // One that began to arrive later is another request.
    let next = made(&*store, counted(false, Duration::from_secs(5))).await;
    assert_resubmitted(&*store, again(), next).await;
}

/// Many at once, under one name or as retries of one another, make one job.
pub async fn of_many_requests_at_once_one_makes_the_job(harness: &impl StoreHarness) {
    let store = harness.store();
    for submission in [NAMED, again()] {
        let before = jobs(&*store).await;
        let mut sending = JoinSet::new();
        for _ in 0..12 {
            let store = Arc::clone(&store);
            sending.spawn(async move { send(&*store, submission).await });
        }
        let (mut made, mut told) = (Vec::new(), Vec::new());
        for answer in sending.join_all().await {
            match answer {
                Ok(job) => made.push(job),
                Err(StoreError::Resubmitted { job }) => told.push(job),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((made.len(), told.len()), (1, 11), "{made:?}");
        assert!(told.iter().all(|job| *job == made[0]));
        assert_eq!(jobs(&*store).await, before + 1);
    }
}

/// A request whose job is not made leaves nothing behind: its next try is a first one.
pub async fn a_refused_request_is_not_remembered(harness: &impl StoreHarness) {
    let store = harness.store();
    let closed = TenantLimits { max_queued: Some(0), ..TenantLimits::default() };
    store.set_tenant(&tenant(), &closed).await.expect("the store answers");
    let full = send(&*store, NAMED).await;
    assert!(matches!(full, Err(StoreError::QueueFull { .. })), "{full:?}");
    store.set_tenant(&tenant(), &TenantLimits::default()).await.expect("the store answers");
    let key = BlobKey::input(&tenant(), JobId::new(), 0, "5eed");
    let gone = store.create(NewJob { inputs: vec![key], submission: Some(NAMED), ..new_job() }).await;
    assert!(matches!(gone, Err(StoreError::InputsGone { .. })), "{gone:?}");
    let job = made(&*store, NAMED).await;
    // Who asks again is told of the job, not that the queue is full of it.
    store.set_tenant(&tenant(), &closed).await.expect("the store answers");
    assert_resubmitted(&*store, NAMED, job).await;
}

/// What is known no more is swept away, and nothing else.
pub async fn requests_are_forgotten_after_their_time(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = made(&*store, NAMED).await;
    for token in 0..3 {
        made(&*store, Submission { token: [10 + token; 32], ..first() }).await;
    }
    let forget = async |limit| store.forget_deleted(limit).await.expect("the store answers");
    assert_eq!(forget(100).await, 0);
    harness.advance(first().resend.memory()).await;
    assert_eq!((forget(2).await, forget(2).await, forget(2).await), (2, 1, 0));
    assert_resubmitted(&*store, NAMED, job).await;
}
