//! Who can hold which job.

use super::*;
use crate::capacity::CapacityClass;
use crate::dispatch::Queue;

async fn of_rows(store: &dyn Store, rows: u64) -> Job {
    make(store, |new| new.rows = rows).await
}

fn holding(max_rows: u64) -> Claimant {
    Claimant { max_rows: Some(max_rows), ..worker() }
}

/// To the row, at the border of a class and within it.
pub async fn rows_are_compared_exactly(harness: &impl StoreHarness) {
    let store = harness.store();
    for rows in [1, 8_191, 8_192, 8_193, 12_000, 16_384, 4_194_304] {
        let job = of_rows(&*store, rows).await;
        assert_eq!(job.rows, rows);
        let (small, just) = (holding(rows - 1), holding(rows));
        assert_eq!(store.claim(job.id, &small).await.expect("the store answers"), None, "{rows}");
        assert_eq!(next(&*store, &small).await, None, "{rows}");
        let by_hint = store.claim(job.id, &just).await.expect("the store answers").expect("it fits");
        store.finish(&by_hint.lease, completed(&by_hint.lease)).await.expect("the lease holds");
        let job = of_rows(&*store, rows).await;
        assert_eq!(next(&*store, &just).await, Some(job.id), "{rows}");
    }
}

/// A job that a worker cannot hold is no wall before those it can, in its own class and in smaller ones.
pub async fn a_large_job_does_not_hide_smaller_ones(harness: &impl StoreHarness) {
    let store = harness.store();
    let huge = of_rows(&*store, 1_000_000).await;
    let too_large = of_rows(&*store, 15_001).await;
    let fits = of_rows(&*store, 15_000).await;
    let small = of_rows(&*store, 10).await;
    let limited = holding(15_000);
    assert_eq!(next(&*store, &limited).await, Some(fits.id));
    assert_eq!(next(&*store, &limited).await, Some(small.id));
    assert_eq!(next(&*store, &limited).await, None);
    assert_eq!([next(&*store, &worker()).await, next(&*store, &worker()).await], [Some(huge.id), Some(too_large.id)]);
}

/// However many stand before it that do not fit, of however many sizes, the one that fits is found, and in its turn.
pub async fn a_long_backlog_of_large_jobs_hides_no_smaller_one(harness: &impl StoreHarness) {
    let store = harness.store();
    for number in 0..150 {
        of_rows(&*store, 15_001 + number % 40).await;
    }
    let sizes = [15_000, 9_000, 12_000, 9_000, 15_000];
    let mut fitting = Vec::new();
    for rows in sizes {
        fitting.push(of_rows(&*store, rows).await.id);
    }
    for number in 0..150 {
        of_rows(&*store, 15_001 + number % 40).await;
    }
    let limited = holding(15_000);
    for expected in fitting {
        assert_eq!(next(&*store, &limited).await, Some(expected));
    }
    assert_eq!(next(&*store, &limited).await, None);
    assert!(next(&*store, &worker()).await.is_some());
}

/// Hints name the class, the limit counts in each, and so does a place in the queue.
pub async fn each_class_is_a_queue_of_its_own(harness: &impl StoreHarness) {
    let store = harness.store();
    let mut made = Vec::new();
    for rows in [100, 8_193, 200, 16_384, 300] {
        made.push(of_rows(&*store, rows).await);
    }
    let class = |rows| Queue::of(Partition::Fl2va, CapacityClass::of_rows(rows));
    let hints = store.ready(2).await.expect("the store answers");
    let hinted =
        |queue| -> Vec<JobId> { hints.iter().filter(|hint| hint.queue == queue).map(|hint| hint.job).collect() };
    assert_eq!(hints.len(), 4);
    assert_eq!(hinted(class(100)), [made[0].id, made[2].id]);
    assert_eq!(hinted(class(8_193)), [made[1].id, made[3].id]);
    for (job, place) in made.iter().zip([1, 1, 2, 2, 3]) {
        let found = store.queue_position(&tenant(), job.id).await.expect("the store answers");
        assert_eq!((job.queue(), found), (class(job.rows), Some(place)));
    }
    // All classes are one order for who can hold them all.
    for job in made {
        assert_eq!(next(&*store, &worker()).await, Some(job.id));
    }
}

/// A job beyond every class belongs to the largest.
pub async fn an_unlimited_worker_holds_whatever_there_is(harness: &impl StoreHarness) {
    let store = harness.store();
    let beyond = of_rows(&*store, 1 << 40).await;
    assert_eq!(next(&*store, &holding(4_194_304)).await, None);
    assert_eq!(next(&*store, &Claimant { max_rows: Some(u64::MAX), ..worker() }).await, Some(beyond.id));
}
