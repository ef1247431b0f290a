use clapboard_jobs::{DeliveryState, Endpoint, JobHook, Notice, Outbox, reasons};

use super::*;

async fn listen(store: &SqliteStore, tenant: &Tenant) -> Endpoint {
    let endpoint = Endpoint::new(tenant.clone(), "https://example.org/hooks");
    store.add_endpoint(&endpoint).await.unwrap();
    endpoint
}

/// Ends a job that its own URL hears of as well.
async fn end_one(store: &SqliteStore, tenant: &Tenant) -> JobId {
    let hook = JobHook { url: "https://example.org/job".to_owned(), notices: Notice::ALL.to_vec() };
    let job = store.create(NewJob { tenant: tenant.clone(), hook: Some(hook), ..new_job() }).await.unwrap();
    store.cancel(tenant, job.id).await.unwrap();
    job.id
}

async fn meddle(store: &SqliteStore, statements: &'static str) {
    let mut tx = store.begin("meddling").await.unwrap();
    sqlx::raw_sql(statements).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
}

/// A row that another hand has written is given up, by whatever of it cannot be read, and the others are sent.
#[tokio::test]
async fn a_delivery_that_cannot_be_read_holds_up_nobody() {
    let (_folder, path) = file();
    let store = open(&path).await;
    let mut jobs = Vec::new();
    for name in ["a", "b", "c"] {
        let tenant: Tenant = name.parse().unwrap();
        listen(&store, &tenant).await;
        jobs.push((end_one(&store, &tenant).await, tenant));
    }
    let broken = "update endpoints set secret = 'hunter2' where tenant = 'a';
        delete from hook_secrets where tenant = 'a';
        update deliveries set trace = 'no trace' where tenant = 'b'";
    meddle(&store, broken).await;
    let due = store.take_due(100, 100, 100, Duration::from_secs(20)).await.unwrap();
    assert_eq!(due.iter().map(|due| due.tenant.as_str()).collect::<Vec<_>>(), ["c", "c"]);
    for (job, tenant) in &jobs[..2] {
        let given_up = store.deliveries_of(tenant, *job).await.unwrap();
        assert_eq!(given_up.len(), 2);
        for delivery in given_up {
            assert_eq!((delivery.state, delivery.tries), (DeliveryState::Dead, 0));
            assert_eq!(delivery.last_error.as_deref(), Some(reasons::UNREADABLE));
        }
    }
    assert_eq!(store.take_due(100, 100, 100, Duration::from_secs(20)).await.unwrap(), []);
    // Once it can be read it can be sent.
    meddle(&store, "update deliveries set trace = null where tenant = 'b'").await;
    let (job, tenant) = &jobs[1];
    let again = store.deliveries_of(tenant, *job).await.unwrap()[0].id;
    store.replay(tenant, again).await.unwrap().unwrap();
    assert_eq!(store.take_due(100, 100, 100, Duration::from_secs(20)).await.unwrap()[0].id, again);
}

/// However much was told to an endpoint, it is deleted with all of it.
#[tokio::test]
async fn an_endpoint_is_deleted_with_a_long_history() {
    let (_folder, path) = file();
    let (store, tenant) = (open(&path).await, Tenant::default());
    let (gone, kept) = (listen(&store, &tenant).await, listen(&store, &tenant).await);
    end_one(&store, &tenant).await;
    let told = "insert into deliveries (id, tenant, endpoint_id, job_id, notice, created_at, state, settled_at)
        with recursive n (n) as (select 1 union all select n + 1 from n where n < 2500)
        select randomblob(16), ?, ?, randomblob(16), 'video.failed', n, 'delivered', n from n";
    let mut tx = store.begin("filling").await.unwrap();
    sqlx::query(told).bind(tenant.as_str()).bind(gone.id.0).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert!(store.delete_endpoint(&tenant, gone.id).await.unwrap());
    let left: i64 = sqlx::query_scalar("select count(*) from deliveries").fetch_one(store.readers()).await.unwrap();
    assert_eq!(left, 2);
    assert_eq!(store.endpoint(&tenant, kept.id).await.unwrap().unwrap().disabled, None);
}
