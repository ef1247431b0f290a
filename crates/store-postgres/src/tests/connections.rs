use super::*;
use crate::Connections;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_connection_is_told_apart_from_who_has_one() {
    let harness = harness().await;
    let options = Options { max_connections: 1, ..harness.options.clone() };
    let store = Arc::new(PostgresStore::connect(&options, Policy::default()).await.unwrap());
    let reached = async |expected: Connections| {
        let looking = async {
            while store.connections() != expected {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), looking).await;
        assert!(in_time.is_ok(), "{:?} instead of {expected:?}", store.connections());
    };
    reached(Connections { limit: 1, in_use: 0, waiting: 0 }).await;
    let taken = store.pool().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.now().await }
    });
    // A connection is held for a verb, and here for none: of two that wait one is taken for its holder.
    let another = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.now().await }
    });
    reached(Connections { limit: 1, in_use: 1, waiting: 1 }).await;
    drop(taken);
    waiting.await.unwrap().unwrap();
    another.await.unwrap().unwrap();
    reached(Connections { limit: 1, in_use: 0, waiting: 0 }).await;
}
