//! The workers, and what they leave to each other.

use std::time::Duration;

use super::*;
use crate::fleet::{Orders, WorkerCard, WorkerRecord, WorkerState};
use crate::store::WORKER_MEMORY;

fn card(state: WorkerState) -> WorkerCard {
    WorkerCard {
        id: WorkerId::new(),
        host: "gpu-1.example.org".to_owned(),
        version: "0.1.0".to_owned(),
        partitions: vec![Partition::Fl2va],
        spec_versions: GenerationSpec::KNOWN_VERSIONS.to_vec(),
        max_rows: Some(5_000),
        state,
    }
}

async fn announce(store: &dyn Store, card: &WorkerCard) -> Orders {
    store.announce(card).await.expect("the store answers")
}

async fn workers(store: &dyn Store) -> Vec<WorkerRecord> {
    store.workers().await.expect("the store answers")
}

fn cards(workers: Vec<WorkerRecord>) -> Vec<WorkerCard> {
    workers.into_iter().map(|worker| worker.card).collect()
}

/// A card is kept as it was said last, until its worker takes its leave.
pub async fn a_worker_is_known_by_its_card(harness: &impl StoreHarness) {
    let store = harness.store();
    let first = card(WorkerState::Idle);
    assert_eq!(announce(&*store, &first).await, Orders { drain: false });
    harness.advance(Duration::from_secs(10)).await;
    let second = WorkerCard {
        max_rows: None,
        partitions: Partition::ALL.to_vec(),
        spec_versions: vec![1, 7],
        ..card(WorkerState::Unwell)
    };
    announce(&*store, &second).await;
    let changed = WorkerCard { state: WorkerState::Busy, max_rows: None, ..first.clone() };
    announce(&*store, &changed).await;

    let known = workers(&*store).await;
    assert_eq!(cards(known.clone()), [changed, second.clone()]);
    assert!(known[0].seen_at.since(known[0].started_at) >= Duration::from_secs(10), "{known:?}");
    assert_eq!(known[1].seen_at, known[1].started_at);
    assert!(known.iter().all(|worker| !worker.drain_requested));
    for _ in 0..2 {
        store.retire(first.id).await.expect("the store answers");
        assert_eq!(cards(workers(&*store).await), std::slice::from_ref(&second));
    }
}

/// A worker that says nothing for a while is no longer counted, and is there again when it speaks.
pub async fn a_silent_worker_is_not_listed(harness: &impl StoreHarness) {
    let store = harness.store();
    let silent = card(WorkerState::Idle);
    announce(&*store, &silent).await;
    harness.advance(WORKER_MEMORY - Duration::from_secs(10)).await;
    let speaking = card(WorkerState::Idle);
    announce(&*store, &speaking).await;
    assert_eq!(workers(&*store).await.len(), 2);
    harness.advance(Duration::from_secs(11)).await;
    assert_eq!(cards(workers(&*store).await), std::slice::from_ref(&speaking));
    announce(&*store, &silent).await;
    assert_eq!(cards(workers(&*store).await), [silent, speaking]);
}

/// The order to drain waits for the worker's next card and stays given.
pub async fn a_worker_is_asked_to_drain(harness: &impl StoreHarness) {
    let store = harness.store();
    let (asked, other) = (card(WorkerState::Busy), card(WorkerState::Busy));
    assert!(!store.ask_drain(asked.id).await.expect("the store answers"));
    announce(&*store, &asked).await;
    announce(&*store, &other).await;
    assert!(store.ask_drain(asked.id).await.expect("the store answers"));
    assert!(workers(&*store).await.iter().all(|worker| worker.drain_requested == (worker.card.id == asked.id)));
    for _ in 0..2 {
        assert_eq!(announce(&*store, &asked).await, Orders { drain: true });
        assert_eq!(announce(&*store, &other).await, Orders { drain: false });
    }
    store.retire(asked.id).await.expect("the store answers");
    assert!(!store.ask_drain(asked.id).await.expect("the store answers"));
}

async fn claimed_by_hint(store: &dyn Store, id: JobId, claimant: &Claimant) -> bool {
    store.claim(id, claimant).await.expect("the store answers").is_some()
}

/// A busy worker that claims ahead gets nothing while an idle one could run it at once.
pub async fn a_busy_worker_leaves_jobs_to_an_idle_one(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = create(&*store).await;
    let busy = Claimant { ahead: true, ..worker() };
    let idle = card(WorkerState::Idle);
    announce(&*store, &WorkerCard { id: busy.worker, ..card(WorkerState::Busy) }).await;
    announce(&*store, &idle).await;
    assert!(!claimed_by_hint(&*store, job.id, &busy).await);
    assert_eq!(next(&*store, &busy).await, None);
    assert_eq!(store.ready(9).await.expect("the store answers").len(), 1);
    // Who is idle itself asks nobody, and one that may run any size can run this one.
    announce(&*store, &WorkerCard { max_rows: None, ..idle.clone() }).await;
    assert_eq!(next(&*store, &busy).await, None);
    let own = Claimant::new(idle.id, vec![Partition::Fl2va]);
    assert_eq!(next(&*store, &own).await, Some(job.id));
}

/// Other weights, too little room, another job, another trouble: then nobody waits for that worker.
pub async fn a_busy_worker_takes_what_no_idle_one_can_run(harness: &impl StoreHarness) {
    let store = harness.store();
    let busy = Claimant { ahead: true, ..worker() };
    let idle = card(WorkerState::Idle);
    for other in [
        WorkerCard { partitions: vec![Partition::Ref2va], ..idle.clone() },
        WorkerCard { max_rows: Some(999), ..idle.clone() },
        card(WorkerState::Busy),
        card(WorkerState::Unwell),
        card(WorkerState::Draining),
        // A card that is older than its worker's new job.
        WorkerCard { id: busy.worker, ..idle.clone() },
    ] {
        announce(&*store, &other).await;
        let hinted = create(&*store).await.id;
        assert!(claimed_by_hint(&*store, hinted, &busy).await, "{other:?}");
        let id = create(&*store).await.id;
        assert_eq!(next(&*store, &busy).await, Some(id), "{other:?}");
        store.retire(other.id).await.expect("the store answers");
    }

    // What the idle one can hold is its; what it cannot is taken, though it comes later.
    announce(&*store, &idle).await;
    let small = make(&*store, |new| new.rows = 5_000).await.id;
    let large = make(&*store, |new| new.rows = 5_001).await.id;
    assert_eq!(next(&*store, &busy).await, Some(large));
    assert_eq!(next(&*store, &busy).await, None);
    store.retire(idle.id).await.expect("the store answers");
    assert_eq!(next(&*store, &busy).await, Some(small));
}

/// An idle worker that was killed is waited for only as long as it is remembered.
pub async fn a_silent_worker_keeps_no_job_from_others(harness: &impl StoreHarness) {
    let store = harness.store();
    let job = create(&*store).await;
    let busy = Claimant { ahead: true, ..worker() };
    announce(&*store, &card(WorkerState::Idle)).await;
    harness.advance(WORKER_MEMORY - Duration::from_secs(10)).await;
    assert_eq!(next(&*store, &busy).await, None);
    harness.advance(Duration::from_secs(11)).await;
    assert_eq!(next(&*store, &busy).await, Some(job.id));
}

/// An idle worker that is asked to drain will not claim any more, though its next card has yet to say so.
pub async fn an_idle_worker_that_drains_keeps_no_job_from_others(harness: &impl StoreHarness) {
    let store = harness.store();
    let (hinted, waiting) = (create(&*store).await, create(&*store).await);
    let busy = Claimant { ahead: true, ..worker() };
    let idle = card(WorkerState::Idle);
    announce(&*store, &idle).await;
    assert!(!claimed_by_hint(&*store, hinted.id, &busy).await);
    store.ask_drain(idle.id).await.expect("the store answers");
    assert!(claimed_by_hint(&*store, hinted.id, &busy).await);
    assert_eq!(next(&*store, &busy).await, Some(waiting.id));
}

/// While a service is being replaced, some workers cannot read the newest jobs: nobody waits for them.
pub async fn an_idle_worker_that_cannot_read_a_job_keeps_it_from_nobody(harness: &impl StoreHarness) {
    let store = harness.store();
    let newer = GenerationSpec::VERSION_WITH_INPUTS + 1;
    let made = async || make(&*store, |new| new.spec.version = newer).await.id;
    let (hinted, waiting) = (made().await, made().await);
    let busy = Claimant { ahead: true, spec_versions: vec![GenerationSpec::VERSION, newer], ..worker() };
    let older = card(WorkerState::Idle);
    announce(&*store, &older).await;
    assert!(claimed_by_hint(&*store, hinted, &busy).await);
    assert_eq!(next(&*store, &busy).await, Some(waiting));
    // One that can read them all keeps them, as any other.
    let (hinted, waiting) = (made().await, made().await);
    let replaced = WorkerCard { spec_versions: busy.spec_versions.clone(), ..card(WorkerState::Idle) };
    announce(&*store, &replaced).await;
    assert!(!claimed_by_hint(&*store, hinted, &busy).await);
    assert_eq!(next(&*store, &busy).await, None);
    store.retire(replaced.id).await.expect("the store answers");
    assert!(claimed_by_hint(&*store, waiting, &busy).await);
}

/// Jobs of a version that nobody there can read do not fill the window before others. Where nobody is there at all, whoever
/// comes first finds all of them.
pub async fn hints_are_of_jobs_that_some_worker_can_read(harness: &impl StoreHarness) {
    const NEWER: u32 = GenerationSpec::VERSION_WITH_INPUTS + 1;
    // Of the second class.
    const ROWS: u64 = 10_000;
    let store = harness.store();
    let mut newer = Vec::new();
    for _ in 0..3 {
        let new = |new: &mut NewJob| (new.spec.version, new.rows) = (NEWER, ROWS);
        newer.push(make(&*store, new).await.id);
    }
    let known = [make(&*store, |new| new.rows = ROWS).await.id, make(&*store, |new| new.rows = ROWS).await.id];
    let hinted = async |limit| -> Vec<JobId> {
        store.ready(limit).await.expect("the store answers").into_iter().map(|hint| hint.job).collect()
    };
    assert_eq!(hinted(2).await, newer[..2]);

    let old = WorkerCard { max_rows: None, ..card(WorkerState::Busy) };
    announce(&*store, &old).await;
    assert_eq!(hinted(2).await, known);
    assert_eq!(hinted(1).await, known[..1]);
    // These know the version, but could run none of the queue's jobs.
    let reader = WorkerCard { spec_versions: vec![NEWER], max_rows: None, ..card(WorkerState::Idle) };
    announce(&*store, &WorkerCard { id: WorkerId::new(), max_rows: Some(8_192), ..reader.clone() }).await;
    let elsewhere = vec![Partition::Ref2va];
    announce(&*store, &WorkerCard { id: WorkerId::new(), partitions: elsewhere, ..reader.clone() }).await;
    assert_eq!(hinted(9).await, known);

    announce(&*store, &reader).await;
    assert_eq!(hinted(4).await, [&newer[..], &known[..1]].concat());
    harness.advance(WORKER_MEMORY - Duration::from_secs(10)).await;
    announce(&*store, &old).await;
    harness.advance(Duration::from_secs(11)).await;
    assert_eq!(hinted(9).await, known);
    harness.advance(WORKER_MEMORY).await;
    assert_eq!(hinted(9).await, [&newer[..], &known].concat());
}
