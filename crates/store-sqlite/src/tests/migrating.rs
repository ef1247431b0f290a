use clapboard_jobs::fixtures::small_spec;
use clapboard_jobs::{
    AttemptEnd, BlobKey, CapacityClass, Claimant, DeliveryQuery, DeliveryState, Job, JobState, KeyHash, Keyring,
    ListQuery, Notice, Order, Outbox, Scope, WorkerId,
};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::*;
use crate::open::MIGRATOR;

/// Jobs in every state as the first tables held them, with attempts, objects and clocks. Ids end in 01 to 05.
const ROWS: &str = "
    insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rank, created_at, run_at, max_attempts)
    values
        (x'00000000000070008000000000000001', 'alpha', 'm', 'fl2va', 1, '$SPEC', 10.0, 10.0, 1, 1, 3),
        (x'00000000000070008000000000000002', 'alpha', 'm', 'fl2va', 1, '{}', 10.0, 20.0, 2, 2, 3),
        (x'00000000000070008000000000000003', 'alpha', 'm', 'fl2va', 1, '{}', 10.0, 30.0, 3, 3, 3),
        (x'00000000000070008000000000000004', 'beta', 'm', 'fl2va', 1, '{}', 10.0, 10.0, 4, 4, 3),
        (x'00000000000070008000000000000005', 'beta', 'm', 'fl2va', 1, '{}', 10.0, 20.0, 5, 5, 3);
    update jobs set state = 'running', fence = 1, attempt = 1, claim_token = zeroblob(16), worker = zeroblob(16),
        lease_expires_at = 100
    where tenant = 'alpha' and created_at > 1 or tenant = 'beta' and created_at = 4;
    update jobs set begun_at = 20 where created_at in (2, 3);
    update jobs set state = 'completed', finished_at = 3000020, percent = 100, result_key = 'v1/alpha/2.mp4',
        result_size_bytes = 9, result_sha256 = printf('%064d', 0), report = '{}',
        claim_token = null, worker = null, lease_expires_at = null
    where created_at = 2;
    update jobs set state = 'failed', finished_at = 1000020, error_code = 'generation_failed', error_message = 'broken',
        claim_token = null, worker = null, lease_expires_at = null
    where created_at = 3;
    update jobs set state = 'cancelled', finished_at = 50, error_code = 'cancelled', error_message = 'the job was cancelled',
        cancel_requested_at = 50
    where created_at = 5;
    insert into job_attempts (job_id, fence, number, worker, claimed_at, begun_at, ended_at, ending, error_code, error_message)
    values
        (x'00000000000070008000000000000002', 1, 1, zeroblob(16), 10, 20, 3000020, 'completed', null, null),
        (x'00000000000070008000000000000003', 1, 1, zeroblob(16), 10, 20, 1000020, 'failed', 'generation_failed', 'broken'),
        (x'00000000000070008000000000000004', 1, 1, zeroblob(16), 10, null, null, null, null, null);
    insert into objects (key, job_id, standing)
    values ('v1/alpha/2.mp4', x'00000000000070008000000000000002', 'named');
    insert into objects (key, job_id, standing, collect_after)
    values ('v1/alpha/3.mp4', x'00000000000070008000000000000003', 'garbage', 70);
    insert into queue_clocks (partition, virtual_time) values ('fl2va', 20.0);
    insert into tenant_clocks (partition, tenant, finish) values ('fl2va', 'alpha', 30.0), ('fl2va', 'beta', 20.0);
    insert into deleted_jobs (id, tenant, created_at, deleted_at)
    values (x'00000000000070008000000000000009', 'alpha', 0, 60);
";

/// A file with the tables of the first migration and [`ROWS`] in them.
async fn written_by_the_first_program(path: &Path) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true).foreign_keys(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    MIGRATOR.run_to(1, &pool).await.unwrap();
    let rows = ROWS.replace("$SPEC", &SpecRecord::encode(&small_spec()).json);
    sqlx::raw_sql(AssertSqlSafe(rows)).execute(&pool).await.unwrap();
    pool.close().await;
}

async fn jobs(store: &SqliteStore, tenant: &str) -> Vec<Job> {
    let query = ListQuery { order: Order::Ascending, ..ListQuery::default() };
    store.list(&tenant.parse().unwrap(), &query).await.unwrap().jobs
}

#[tokio::test]
async fn what_the_first_tables_held_is_kept() {
    let (_folder, path) = file();
    written_by_the_first_program(&path).await;
    let store = open(&path).await;

    let (alpha, beta) = (jobs(&store, "alpha").await, jobs(&store, "beta").await);
    let states = |jobs: &[Job]| jobs.iter().map(|job| job.state).collect::<Vec<JobState>>();
    assert_eq!(states(&alpha), [JobState::Queued, JobState::Completed, JobState::Failed]);
    assert_eq!(states(&beta), [JobState::Running, JobState::Cancelled]);
    let key: BlobKey = "v1/alpha/2.mp4".parse().unwrap();
    assert_eq!(alpha[1].result.as_ref().unwrap().key, key);
    assert_eq!(store.unnamed(&[key]).await.unwrap(), []);
    // What is to be collected is so at its moment.
    let garbage: Vec<(String, i64, i64)> =
        sqlx::query_as("select key, collect_after, failures from objects where standing = 'garbage'")
            .fetch_all(store.readers())
            .await
            .unwrap();
    assert_eq!(garbage, [("v1/alpha/3.mp4".to_owned(), 70, 0)]);
    assert_eq!(alpha.iter().map(|job| job.rank).collect::<Vec<f64>>(), [10.0, 20.0, 30.0]);
    assert!(alpha.iter().chain(&beta).all(|job| job.priority == Priority::Normal && job.start_by.is_none()));

    let ends = async |job: &Job| -> Vec<Option<AttemptEnd>> {
        let attempts = store.attempts(&job.tenant, job.id).await.unwrap();
        attempts.into_iter().map(|attempt| attempt.ended.map(|(_, end)| end)).collect()
    };
    assert_eq!(ends(&alpha[1]).await, [Some(AttemptEnd::Completed)]);
    assert_eq!(ends(&alpha[2]).await, [Some(AttemptEnd::Failed)]);
    assert_eq!(ends(&beta[0]).await, [None]);

    // What can be counted is counted: rows by the spec, use by the attempts that are there.
    assert_eq!(alpha[0].rows, u64::try_from(small_spec().rows_bound()).unwrap());
    assert_eq!(alpha[1].rows, CapacityClass::all().last().unwrap().max_rows());
    let usage = store.usage().await.unwrap();
    let sums: Vec<(&str, u64, f64)> =
        usage.iter().map(|usage| (usage.tenant.as_str(), usage.completed, usage.worker_seconds)).collect();
    assert_eq!(sums, [("alpha", 1, 4.0), ("beta", 0, 0.0)]);
}

/// Keys, endpoints and deliveries that were written by hand go on.
#[tokio::test]
async fn keys_and_endpoints_of_before_go_on() {
    let (_folder, path) = file();
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true).foreign_keys(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    MIGRATOR.run_to(3, &pool).await.unwrap();
    let rows = "
        insert into api_keys (hash, tenant) values (zeroblob(32), 'default'), (randomblob(32), 'default');
        insert into endpoints (id, tenant, url)
        values (zeroblob(16), 'default', 'https://example.org/1'), (x'01000000000000000000000000000000', 'default', 'u');
        insert into deliveries (id, endpoint_id, job_id, tenant, notice, created_at)
        values (zeroblob(16), zeroblob(16), zeroblob(16), 'default', 'video.failed', 3);";
    sqlx::raw_sql(rows).execute(&pool).await.unwrap();
    pool.close().await;

    let store = open(&path).await;
    let keys = store.keys(None).await.unwrap();
    assert!(keys.len() == 2 && keys[0].id != keys[1].id);
    assert!(keys.iter().all(|key| key.scopes == Scope::ALL.into() && key.rate.is_none() && key.created_at.0 > 0));
    assert_eq!(store.grant_of(&KeyHash([0; 32])).await.unwrap().map(|grant| grant.tenant), Some(Tenant::default()));
    let endpoints = store.endpoints(&Tenant::default()).await.unwrap();
    assert_eq!(endpoints.len(), 2);
    assert!(endpoints.iter().all(|endpoint| endpoint.notices == Notice::ALL && endpoint.secret.bytes().len() == 48));
    assert_ne!(endpoints[0].secret, endpoints[1].secret);
    // What was to be told before is not, of whatever age; who wants that can have it.
    assert_eq!(store.take_due(9, 9, 9, Duration::from_secs(9)).await.unwrap(), []);
    let old = store.deliveries(&Tenant::default(), &DeliveryQuery::default()).await.unwrap().deliveries;
    assert_eq!((old.len(), old[0].state), (1, DeliveryState::Dead));
    assert_eq!(old[0].last_error.as_deref(), Some("it ended before webhooks were delivered"));
    store.replay(&Tenant::default(), old[0].id).await.unwrap().unwrap();
    let due = store.take_due(9, 9, 9, Duration::from_secs(9)).await.unwrap();
    assert_eq!(due.iter().map(|due| due.url.as_str()).collect::<Vec<_>>(), ["https://example.org/1"]);
    assert!(store.delete_endpoint(&Tenant::default(), endpoints[0].id).await.unwrap());
    let listed = store.deliveries(&Tenant::default(), &DeliveryQuery::default()).await.unwrap();
    assert_eq!(listed.deliveries.len(), usize::from(endpoints[0].url == "u"));
}

#[tokio::test]
async fn jobs_of_the_first_tables_go_on() {
    let (_folder, path) = file();
    written_by_the_first_program(&path).await;
    let store = open(&path).await;
    let held = jobs(&store, "beta").await[0].id;
    assert_eq!(store.reclaim_expired(9).await.unwrap().requeued, [held]);
    let waiting = jobs(&store, "alpha").await[0].id;
    let claimant = Claimant { max_rows: Some(8_192), ..Claimant::new(WorkerId::new(), vec![Partition::Fl2va]) };
    assert_eq!(store.claim_next(&claimant).await.unwrap().unwrap().job.id, waiting);
    let unlimited = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
    assert_eq!(store.claim_next(&unlimited).await.unwrap().unwrap().job.id, held);
    let alpha = "alpha".parse().unwrap();
    let failed = jobs(&store, "alpha").await[2].id;
    assert_eq!(store.retry(&alpha, failed).await.unwrap().unwrap().state, JobState::Queued);
    // Lists go on after what was deleted before, and new jobs where the old ones end.
    let after = ListQuery {
        after: Some("video_gen_00000000000070008000000000000009".parse().unwrap()),
        ..ListQuery::default()
    };
    assert_eq!(store.list(&alpha, &after).await.unwrap().jobs, []);
    let made = store.create(NewJob { tenant: alpha, ..new_job() }).await.unwrap();
    assert_eq!(made.rank, 31.0);
    // The attempts hang on the new table.
    store.delete(&made.tenant, failed).await.unwrap();
    assert_eq!(store.attempts(&made.tenant, failed).await.unwrap(), []);
    let mut db = store.begin("looking for what is left").await.unwrap();
    let broken: Vec<(String,)> =
        sqlx::query_as("select \"table\" from pragma_foreign_key_check").fetch_all(&mut *db).await.unwrap();
    assert_eq!(broken, []);
    let left: i64 = sqlx::query_scalar("select count(*) from sqlite_schema where name like '%before'")
        .fetch_one(&mut *db)
        .await
        .unwrap();
    assert_eq!(left, 0);
}
