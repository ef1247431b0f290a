use clapboard_jobs::BlobKey;

use super::*;
use crate::objects;

/// A create that began in time may commit long after: the sweep must not have taken its inputs meanwhile.
#[tokio::test]
async fn no_sweep_collects_what_a_create_is_taking() {
    let life = Duration::from_secs(60);
    let harness = harness().await;
    let id = JobId::new();
    let keys = [BlobKey::input(&Tenant::default(), id, 0, "5eed")];
    harness.store.expect_inputs(id, &keys, life).await.unwrap();
    let mut tx = harness.store.begin("testing").await.unwrap();
    assert!(objects::take_inputs(&mut tx, id, &keys, harness.store.now().0, "testing").await.unwrap());
    harness.advance(life).await;
    // One connection is left to read by, in the order of asking: what was read there after the sweep has asked would not be
    // read before the sweep had its answer, if that came from a reader.
    let readers = harness.store.readers();
    let mut held = Vec::new();
    for _ in 1..readers.options().get_max_connections() {
        held.push(readers.acquire().await.unwrap());
    }
    let mut sweep = Box::pin(harness.store.garbage(9));
    tokio::select! {
        biased;
        swept = &mut sweep => panic!("the sweep did not wait for the create: {swept:?}"),
        read = harness.store.unnamed(&keys) => assert_eq!(read.unwrap(), []),
    }
    tx.commit().await.unwrap();
    assert_eq!(sweep.await.unwrap(), []);
    assert_eq!(harness.store.unnamed(&keys).await.unwrap(), []);
}
