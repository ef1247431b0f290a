//! How much waits.

use std::time::Duration;

use super::*;
use crate::backlog::{Backlog, Depth, Waiting};
use crate::outbox::Endpoint;
use crate::time::Micros;

async fn backlog(store: &dyn Store) -> Backlog {
    store.backlog().await.expect("the store answers")
}

fn depth(backlog: &Backlog, partition: Partition) -> (u64, Option<Micros>, u64) {
    let depth = backlog.depths.iter().find(|depth| depth.partition == partition).expect("every partition is told of");
    let Depth { queued: Waiting { count, oldest }, running, .. } = *depth;
    (count, oldest, running)
}

/// What waits and what runs is told of each partition, with the age of what has waited longest.
pub async fn what_waits_and_runs_is_counted(harness: &impl StoreHarness) {
    let store = harness.store();
    let empty = backlog(&*store).await;
    assert_eq!(empty.deliveries, Waiting::default());
    for partition in Partition::ALL {
        assert_eq!(depth(&empty, partition), (0, None, 0));
    }

    let first = make(&*store, |_| ()).await;
    harness.advance(Duration::from_secs(30)).await;
    let second = make(&*store, |_| ()).await;
    make(&*store, |new| new.partition = Partition::Ref2va).await;
    let now = backlog(&*store).await;
    let (count, oldest, running) = depth(&now, Partition::Fl2va);
    assert_eq!((count, running), (2, 0));
    let age = now.at.since(oldest.expect("something waits"));
    assert!((Duration::from_secs(30)..Duration::from_secs(90)).contains(&age), "{age:?}");
    assert_eq!(depth(&now, Partition::Ref2va).0, 1);

    let claimed = store.claim(first.id, &worker()).await.expect("the store answers").expect("it waits");
    let now = backlog(&*store).await;
    assert_eq!(depth(&now, Partition::Fl2va), (1, Some(second.created_at), 1));
    store.finish(&claimed.lease, completed(&claimed.lease)).await.expect("the lease holds");
    assert_eq!(depth(&backlog(&*store).await, Partition::Fl2va), (1, Some(second.created_at), 0));
}

/// What is to be told is counted until somebody has got it.
pub async fn what_is_to_be_told_is_counted(harness: &impl StoreHarness) {
    let store = harness.store();
    store.add_endpoint(&Endpoint::new(tenant(), "https://example.org/hooks")).await.expect("the store answers");
    for _ in 0..2 {
        let id = make(&*store, |_| ()).await.id;
        store.cancel(&tenant(), id).await.expect("the store answers");
        harness.advance(Duration::from_secs(10)).await;
    }
    let before = backlog(&*store).await;
    assert_eq!(before.deliveries.count, 2);
    let age = before.at.since(before.deliveries.oldest.expect("two wait"));
    assert!((Duration::from_secs(20)..Duration::from_secs(80)).contains(&age), "{age:?}");
    let due = store.take_due(1, 10, 10, Duration::from_secs(20)).await.expect("the store answers").remove(0);
    assert_eq!(backlog(&*store).await.deliveries.count, 2, "one that is being tried waits too");
    store.tried(due.id, due.number, &crate::outbox::Tried::Delivered { status: 200 }).await.expect("the store answers");
    assert_eq!(backlog(&*store).await.deliveries.count, 1);
}
