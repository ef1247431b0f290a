use clapboard_jobs::{Delivery, DeliveryState, Endpoint, JobHook, Notice, Outbox, reasons};

use super::*;

async fn listen(store: &PostgresStore, tenant: &Tenant) -> Endpoint {
    let endpoint = Endpoint::new(tenant.clone(), "https://example.org/hooks");
    store.add_endpoint(&endpoint).await.unwrap();
    endpoint
}

/// Ends a job that its own URL hears of as well.
async fn end_one(store: &PostgresStore, tenant: &Tenant) -> JobId {
    let hook = JobHook { url: "https://example.org/job".to_owned(), notices: Notice::ALL.to_vec() };
    let job = store.create(NewJob { tenant: tenant.clone(), hook: Some(hook), ..new_job() }).await.unwrap();
    store.cancel(tenant, job.id).await.unwrap();
    job.id
}

/// A row that a later program or another hand has written is given up, by whatever of it cannot be read, and the others are sent.
#[tokio::test]
async fn a_delivery_that_cannot_be_read_holds_up_nobody() {
    let harness = harness().await;
    let store = &*harness.store;
    let mut jobs = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let tenant: Tenant = name.parse().unwrap();
        listen(store, &tenant).await;
        jobs.push((end_one(store, &tenant).await, tenant));
    }
    harness
        .meddle(
            "alter table deliveries drop constraint deliveries_notice_check;
             update deliveries set notice = 'video.lost' where tenant = 'a' and url is null;
             update endpoints set secret = 'hunter2' where tenant = 'b';
             update hook_secrets set secret = 'hunter2' where tenant = 'a';
             delete from hook_secrets where tenant = 'b';
             update deliveries set trace = 'no trace' where tenant = 'c'",
        )
        .await;
    let due = store.take_due(100, 100, 100, Duration::from_secs(20)).await.unwrap();
    assert_eq!(due.iter().map(|due| due.tenant.as_str()).collect::<Vec<_>>(), ["d", "d"]);
    for (job, tenant) in &jobs[1..3] {
        let given_up: Vec<Delivery> = store.deliveries_of(tenant, *job).await.unwrap();
        assert_eq!(given_up.len(), 2);
        for delivery in given_up {
            assert_eq!((delivery.state, delivery.tries), (DeliveryState::Dead, 0));
            assert_eq!(delivery.last_error.as_deref(), Some(reasons::UNREADABLE));
        }
    }
    assert_eq!(harness.number("select count(*) from deliveries where state = 'dead'").await, 6);
    assert_eq!(store.take_due(100, 100, 100, Duration::from_secs(20)).await.unwrap(), []);
    // Once it can be read it can be sent.
    harness.meddle("update deliveries set trace = null where tenant = 'c'").await;
    let (job, tenant) = &jobs[2];
    let again = store.deliveries_of(tenant, *job).await.unwrap()[0].id;
    store.replay(tenant, again).await.unwrap().unwrap();
    assert_eq!(store.take_due(100, 100, 100, Duration::from_secs(20)).await.unwrap()[0].id, again);
}

/// However much was told to an endpoint, it can be deleted, and no statement deletes much of it.
#[tokio::test]
async fn an_endpoint_is_deleted_with_a_long_history() {
    let harness = harness().await;
    let (store, tenant) = (&*harness.store, Tenant::default());
    let (gone, kept) = (listen(store, &tenant).await, listen(store, &tenant).await);
    end_one(store, &tenant).await;
    let told =
        "insert into deliveries (id, tenant, endpoint, job_id, notice, created_at, state, next_try_at, settled_at)
        select gen_random_uuid(), $1, $2, gen_random_uuid(), 'video.failed', n, 'delivered', null, n
        from generate_series(1, 2500) n";
    sqlx::query(told).bind(tenant.as_str()).bind(gone.id.0).execute(store.pool()).await.unwrap();
    harness
        .meddle(
            "create function refuse_many() returns trigger language plpgsql as $$
             begin
                 if (select count(*) from gone) > 1000 then raise exception 'too many at once'; end if;
                 return null;
             end $$;
             create trigger refuse_many after delete on deliveries
             referencing old table as gone for each statement execute function refuse_many()",
        )
        .await;
    assert!(store.delete_endpoint(&tenant, gone.id).await.unwrap());
    assert_eq!(harness.number("select count(*) from deliveries").await, 2);
    assert_eq!(store.endpoints(&tenant).await.unwrap().len(), 1);
    assert_eq!(store.endpoint(&tenant, kept.id).await.unwrap().unwrap().disabled, None);
}
