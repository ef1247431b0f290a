use clapboard_jobs::{BlobKey, StoreError};

use super::*;
use crate::inputs;

const LIFE: Duration = Duration::from_secs(60);

async fn noted(harness: &Harness) -> NewJob {
    let new = new_job();
    let inputs: Vec<BlobKey> = (0..3).map(|index| BlobKey::input(&new.tenant, new.id, index, "5eed")).collect();
    harness.store.expect_inputs(new.id, &inputs, LIFE).await.unwrap();
    NewJob { inputs, ..new }
}

/// A create that began in time may commit long after: the sweep must not have taken its inputs meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sweep_collects_what_a_create_is_taking() {
    let harness = harness().await;
    let new = noted(&harness).await;
    let mut tx = harness.store.pool().begin().await.unwrap();
    assert!(inputs::take(&mut tx, new.id, &new.inputs, "testing").await.unwrap());
    harness.advance(LIFE).await;
    assert_eq!(harness.store.garbage(9).await.unwrap(), []);
    tx.commit().await.unwrap();
    assert_eq!(harness.store.garbage(9).await.unwrap(), []);
    assert_eq!(harness.store.unnamed(&new.inputs).await.unwrap(), []);
}

/// A create that waits for the rows looks at the clock once it has them: they may be the sweep's by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_was_held_up_does_not_take_what_a_sweep_has_seen() {
    let harness = harness().await;
    let new = noted(&harness).await;
    let mut holder = harness.store.pool().begin().await.unwrap();
    sqlx::query("select from objects for update").execute(&mut *holder).await.unwrap();
    let (store, late) = (harness.store(), new.clone());
    let create = tokio::spawn(async move { store.create(late).await });
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    let waiting = async { while harness.number(waits).await == 0 {} };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("the create waits for the rows");
    harness.advance(LIFE).await;
    holder.rollback().await.unwrap();
    let refused = create.await.unwrap();
    assert!(matches!(refused, Err(StoreError::InputsGone { id }) if id == new.id), "{refused:?}");
    assert_eq!(harness.store.garbage(9).await.unwrap().len(), 3);
}
