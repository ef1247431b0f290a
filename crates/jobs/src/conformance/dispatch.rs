//! The suite of [`Dispatch`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clapboard_h3::Partition;
use tokio::task::JoinSet;

use crate::capacity::CapacityClass;
use crate::dispatch::{Dispatch, Hint, Queue};
use crate::id::JobId;

/// Longer than anything here takes; only a failure waits for it.
const LONG: Duration = Duration::from_secs(60);

/// How many hints a queue of the dispatcher under test keeps.
pub const WINDOW: usize = 100;

const FIRST: Queue = Queue::of(Partition::Fl2va, CapacityClass::SMALLEST);
const SECOND: Queue = Queue::of(Partition::Ref2va, CapacityClass::SMALLEST);

fn hint(queue: Queue, rank: f64) -> Hint {
    Hint { queue, rank, job: JobId::new() }
}

async fn push(dispatch: &Arc<dyn Dispatch>, hints: &[Hint]) {
    dispatch.push(hints).await.expect("hints are pushed");
}

async fn pop(dispatch: &Arc<dyn Dispatch>, queues: &[Queue]) -> Option<Hint> {
    dispatch.pop(queues, Duration::ZERO).await.expect("the dispatcher answers")
}

async fn len(dispatch: &Arc<dyn Dispatch>, queue: Queue) -> u64 {
    dispatch.len(queue).await.expect("the dispatcher counts")
}

/// Three hints pushed out of order are popped by rank.
pub async fn the_lowest_rank_comes_first(dispatch: Arc<dyn Dispatch>) {
    let hints = [hint(FIRST, 2.5), hint(FIRST, -1.0), hint(FIRST, 1e12)];
    push(&dispatch, &hints).await;
    assert_eq!(len(&dispatch, FIRST).await, 3);
    for expected in [hints[1], hints[0], hints[2]] {
        assert_eq!(pop(&dispatch, &[FIRST]).await, Some(expected));
    }
    assert_eq!(pop(&dispatch, &[FIRST]).await, None);
    assert_eq!(len(&dispatch, FIRST).await, 0);
}

/// A push tells how many hints were not there before.
pub async fn only_what_was_not_there_is_counted(dispatch: Arc<dyn Dispatch>) {
    let hints = [hint(FIRST, 1.0), hint(FIRST, 2.0), hint(SECOND, 3.0)];
    let push = async |hints: &[Hint]| dispatch.push(hints).await.expect("hints are pushed");
    assert_eq!(push(&hints[..1]).await, 1);
    assert_eq!(push(&hints).await, 2);
    assert_eq!(push(&hints).await, 0);
    assert_eq!(pop(&dispatch, &[FIRST]).await, Some(hints[0]));
    assert_eq!(push(&hints).await, 1);
}

/// Hints of one rank are popped oldest job first.
pub async fn equal_ranks_come_in_the_order_of_their_ids(dispatch: Arc<dyn Dispatch>) {
    let hints: Vec<Hint> = (0..20).map(|_| hint(FIRST, 7.0)).collect();
    let backwards: Vec<Hint> = hints.iter().rev().copied().collect();
    push(&dispatch, &backwards).await;
    for expected in hints {
        assert_eq!(pop(&dispatch, &[FIRST]).await, Some(expected));
    }
}

/// A sweep may push what is there already.
pub async fn a_hint_pushed_again_is_not_doubled(dispatch: Arc<dyn Dispatch>) {
    let hint = hint(FIRST, 1.0);
    push(&dispatch, &[hint, hint]).await;
    push(&dispatch, &[hint]).await;
    assert_eq!(len(&dispatch, FIRST).await, 1);
    assert_eq!(pop(&dispatch, &[FIRST]).await, Some(hint));
    assert_eq!(pop(&dispatch, &[FIRST]).await, None);
}

/// A hint pushed with another rank moves.
pub async fn the_rank_pushed_last_counts(dispatch: Arc<dyn Dispatch>) {
    let (moved, other) = (hint(FIRST, 1.0), hint(FIRST, 2.0));
    let later = Hint { rank: 3.0, ..moved };
    push(&dispatch, &[moved, other]).await;
    push(&dispatch, &[later]).await;
    assert_eq!(len(&dispatch, FIRST).await, 2);
    assert_eq!(pop(&dispatch, &[FIRST]).await, Some(other));
    assert_eq!(pop(&dispatch, &[FIRST]).await, Some(later));
}

/// A worker gets nothing from a queue it did not name.
pub async fn queues_are_apart(dispatch: Arc<dyn Dispatch>) {
    let hint = hint(FIRST, 1.0);
    push(&dispatch, &[hint]).await;
    assert_eq!(len(&dispatch, SECOND).await, 0);
    assert_eq!(pop(&dispatch, &[SECOND]).await, None);
    assert_eq!(pop(&dispatch, &[]).await, None);
    assert_eq!(pop(&dispatch, &[FIRST]).await, Some(hint));
}

/// A worker of several queues is served by rank over all of them, whatever their order.
pub async fn the_lowest_rank_of_all_queues_is_served(dispatch: Arc<dyn Dispatch>) {
    let larger = Queue::of(Partition::Fl2va, CapacityClass::of_rows(u64::MAX));
    let hints = [hint(SECOND, 1.0), hint(FIRST, 2.0), hint(larger, 3.0), hint(SECOND, 4.0)];
    push(&dispatch, &[hints[3], hints[2], hints[1], hints[0]]).await;
    for expected in hints {
        assert_eq!(pop(&dispatch, &[FIRST, larger, SECOND]).await, Some(expected));
    }
}

/// A queue keeps the lowest ranks and no more than its window.
pub async fn a_full_window_drops_the_highest_ranks(dispatch: Arc<dyn Dispatch>) {
    let hints: Vec<Hint> = (0..WINDOW + 50).rev().map(|rank| hint(FIRST, rank as f64)).collect();
    push(&dispatch, &hints[..WINDOW]).await;
    push(&dispatch, &hints[WINDOW..]).await;
    assert_eq!(len(&dispatch, FIRST).await, WINDOW as u64);
    for rank in 0..WINDOW {
        let popped = pop(&dispatch, &[FIRST]).await.expect("the window is full");
        assert_eq!(popped.rank, rank as f64);
    }
    assert_eq!(pop(&dispatch, &[FIRST]).await, None);
}

/// A pop that finds nothing waits for the next push.
pub async fn a_waiting_pop_hears_a_push(dispatch: Arc<dyn Dispatch>) {
    let expected = hint(SECOND, 1.0);
    let waiting = {
        let dispatch = Arc::clone(&dispatch);
        tokio::spawn(async move { dispatch.pop(&[FIRST, SECOND], LONG).await })
    };
    // Whether the push comes before or after the pop has begun to wait, the pop must have it.
    tokio::task::yield_now().await;
    push(&dispatch, &[expected]).await;
    let popped = waiting.await.expect("the pop does not panic").expect("the dispatcher answers");
    assert_eq!(popped, Some(expected));
}

/// A pop returns without a hint once its wait is over.
pub async fn a_pop_that_waits_for_nothing_ends(dispatch: Arc<dyn Dispatch>) {
    let popped = dispatch.pop(&[FIRST], Duration::from_millis(5)).await.expect("the dispatcher answers");
    assert_eq!(popped, None);
}

/// A worker that stops while it waits loses no hint.
pub async fn a_dropped_pop_takes_nothing(dispatch: Arc<dyn Dispatch>) {
    let waiting = {
        let dispatch = Arc::clone(&dispatch);
        tokio::spawn(async move { dispatch.pop(&[FIRST], LONG).await })
    };
    tokio::task::yield_now().await;
    waiting.abort();
    assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
    let expected = hint(FIRST, 1.0);
    push(&dispatch, &[expected]).await;
    assert_eq!(pop(&dispatch, &[FIRST]).await, Some(expected));
}

/// Many workers that wait at once get each hint once.
pub async fn every_hint_goes_to_one_of_many(dispatch: Arc<dyn Dispatch>) {
    let hints: Vec<Hint> = (0..64_u32).map(|rank| hint(FIRST, f64::from(rank))).collect();
    let mut waiting = JoinSet::new();
    for _ in 0..hints.len() {
        let dispatch = Arc::clone(&dispatch);
        waiting.spawn(async move { dispatch.pop(&[FIRST], LONG).await });
    }
    for half in hints.chunks(32) {
        push(&dispatch, half).await;
    }
    let popped: BTreeSet<JobId> = waiting
        .join_all()
        .await
        .into_iter()
        .map(|popped| popped.expect("the dispatcher answers").expect("there is a hint for everybody").job)
        .collect();
    assert_eq!(popped, hints.iter().map(|hint| hint.job).collect::<BTreeSet<JobId>>());
}
