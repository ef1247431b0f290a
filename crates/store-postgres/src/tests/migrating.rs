use clapboard_jobs::{
    Causes, ClaimToken, DeliveryQuery, DeliveryState, JobState, Keyring, ListQuery, Notice, Order, Outbox, Scope,
};
use sqlx::postgres::PgConnection;

use super::*;
use crate::error::OpenError;
use crate::migrate::{Migrated, Patience, migrate_within};
use crate::open::MIGRATOR;

async fn refused(options: &Options) -> OpenError {
    PostgresStore::connect(options, Policy::default()).await.unwrap_err()
}

fn at(url: &str) -> Options {
    Options { connect_timeout: Duration::from_secs(2), ..Options::new(url.parse().unwrap()) }
}

#[tokio::test]
async fn migrations_are_applied_once_and_named() {
    let postgres = Postgres::start();
    let options = options(&postgres);
    let first = migrate(&options).await.unwrap();
    let (version, name) = first.applied.last().unwrap().clone();
    assert_eq!((first.applied[0].0, first.applied[0].1.as_str()), (1, "a job is a row that one lease may write"));
    assert_eq!((first.version, name.is_empty()), (version, false));
    assert_eq!(migrate(&options).await.unwrap(), Migrated { applied: vec![], version });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_migrations_at_once_one_does_the_work() {
    let postgres = Postgres::start();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let options = options(&postgres);
        all.spawn(async move { migrate(&options).await.unwrap() });
    }
    let migrated = all.join_all().await;
    assert_eq!(migrated.iter().filter(|migrated| !migrated.applied.is_empty()).count(), 1, "{migrated:?}");
    PostgresStore::connect(&options(&postgres), Policy::default()).await.unwrap();
}

/// Whatever the tables of the first program held is there in ours.
#[tokio::test]
async fn objects_of_the_first_tables_are_kept() {
    let postgres = Postgres::start();
    let options = options(&postgres);
    let mut connection = options.connect().await.unwrap();
    MIGRATOR.run_to(1, &mut connection).await.unwrap();
    sqlx::raw_sql(
        "insert into objects (key, job_id, standing, collect_after)
         values ('v1/a', gen_random_uuid(), 'named', null), ('v1/b', gen_random_uuid(), 'garbage', 70)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    let lacking = refused(&options).await.to_string();
    assert!(lacking.contains("lacks migrations 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"), "{lacking}");
    let applied = migrate(&options).await.unwrap().applied;
    let names = ["an input is kept while its job can run", "the standing of old objects is checked"];
    assert_eq!(applied[..2], [(2, names[0].to_owned()), (3, names[1].to_owned())]);
    let store = PostgresStore::connect(&options, Policy::default()).await.unwrap();
    assert_eq!(store.garbage(9).await.unwrap(), ["v1/b".parse().unwrap()]);
    assert_eq!(store.unnamed(&["v1/a".parse().unwrap()]).await.unwrap(), []);
    let unchecked = "select count(*) from pg_constraint where not convalidated";
    let unchecked: i64 = sqlx::query_scalar(unchecked).fetch_one(store.pool()).await.unwrap();
    assert_eq!(unchecked, 0);
}

/// Keys, endpoints and deliveries that were written by hand go on, and a program of that time can work beside this one.
#[tokio::test]
async fn keys_and_endpoints_of_before_go_on() {
    let postgres = Postgres::start();
    let options = options(&postgres);
    let mut connection = options.connect().await.unwrap();
    MIGRATOR.run_to(3, &mut connection).await.unwrap();
    let before = "
        insert into api_keys (hash, tenant, created_at) values (sha256('one'), 'default', 1), (sha256('two'), 'default', 2);
        insert into endpoints (id, tenant, url, created_at)
        values ('00000000-0000-7000-8000-000000000001', 'default', 'https://example.org/1', 1),
            ('00000000-0000-7000-8000-000000000002', 'default', 'https://example.org/2', 2);
        insert into deliveries (id, endpoint, tenant, job_id, notice, created_at)
        values (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'default', gen_random_uuid(), 'video.failed', 3)";
    sqlx::raw_sql(before).execute(&mut connection).await.unwrap();
    migrate(&options).await.unwrap();
    // As a program of before would.
    let beside = "
        insert into api_keys (hash, tenant, created_at) values (sha256('three'), 'default', 3)
            on conflict (hash) do update set tenant = excluded.tenant;
        insert into deliveries (id, endpoint, tenant, job_id, notice, created_at)
        values (gen_random_uuid(), '00000000-0000-7000-8000-000000000002', 'default', gen_random_uuid(), 'video.completed', 4)";
    sqlx::raw_sql(beside).execute(&mut connection).await.unwrap();

    let store = PostgresStore::connect(&options, Policy::default()).await.unwrap();
    let keys = store.keys(None).await.unwrap();
    assert_eq!(keys.iter().map(|key| key.created_at.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(keys.iter().all(|key| key.scopes == Scope::ALL.into() && key.rate.is_none() && key.name.is_empty()));
    assert!(keys[0].id != keys[1].id && keys[1].id != keys[2].id);
    let endpoints = store.endpoints(&Tenant::default()).await.unwrap();
    assert_eq!(endpoints.len(), 2);
    assert!(endpoints.iter().all(|endpoint| endpoint.notices == Notice::ALL && endpoint.secret.bytes().len() == 48));
    assert_ne!(endpoints[0].secret, endpoints[1].secret);
    assert_eq!(endpoints.iter().map(|endpoint| endpoint.updated_at.0).collect::<Vec<_>>(), [1, 2]);
    // What a program of before writes now is told; what it wrote before is not, of whatever age.
    let due = store.take_due(9, 9, 9, Duration::from_secs(9)).await.unwrap();
    assert_eq!(due.iter().map(|due| due.url.as_str()).collect::<Vec<_>>(), ["https://example.org/2"]);
    assert_eq!(due[0].secrets, [endpoints[1].secret.clone()]);
    let query = DeliveryQuery { endpoint: Some(endpoints[0].id), ..DeliveryQuery::default() };
    let old = store.deliveries(&Tenant::default(), &query).await.unwrap().deliveries;
    assert_eq!((old.len(), old[0].state, old[0].tries), (1, DeliveryState::Dead, 0));
    assert_eq!(old[0].last_error.as_deref(), Some("it ended before webhooks were delivered"));
    store.replay(&Tenant::default(), old[0].id).await.unwrap().unwrap();
    assert_eq!(store.take_due(9, 9, 9, Duration::from_secs(9)).await.unwrap()[0].id, old[0].id);
}

/// Jobs in every state, and an endpoint that hears of them, as programs of before have written them. Ids end in 1 to 5.
const JOBS: &str = "
    insert into endpoints (id, tenant, url, created_at)
    values ('00000000-0000-7000-8000-000000000099', 't', 'https://example.org/1', 1);
    insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec, cost_tflop, rank,
        virtual_finish, created_at, run_at, max_attempts)
    select ('00000000-0000-7000-8000-00000000000' || n)::uuid, 't', 'm', 'fl2va', 0, 1000, 'normal', 1, '{}', 1.0, n, n, n, n, 3
    from generate_series(1, 5) n;
    update jobs set state = 'running', fence = 1, attempt = 1, claim_token = '00000000-0000-7000-8000-00000000000a',
        worker = '00000000-0000-7000-8000-00000000000b', lease_expires_at = 9000000000000000
    where rank in (2, 3, 4);
    insert into job_attempts (job_id, fence, number, worker, claimed_at) select id, 1, 1, worker, 5 from jobs where fence = 1;
    update jobs set state = 'completed', finished_at = 9, percent = 100, result_key = 'v1/t/3.mp4', result_size_bytes = 1,
        result_sha256 = repeat('0', 64), report = '{}', claim_token = null, worker = null, lease_expires_at = null
    where rank = 3;
    update jobs set state = 'failed', finished_at = 9, error_code = 'generation_failed', error_message = 'm',
        claim_token = null, worker = null, lease_expires_at = null
    where rank = 4;
    update jobs set state = 'cancelled', finished_at = 9, error_code = 'cancelled', error_message = 'm' where rank = 5;
    insert into objects (key, job_id, standing)
    values ('v1/t/3.mp4', '00000000-0000-7000-8000-000000000003', 'named'),
        ('v1/t/2.mp4', '00000000-0000-7000-8000-000000000002', 'expected');";

/// What programs of before do, which name none of the new columns: claim, beat, and end a job and tell of it.
const BESIDE: &str = "
    update jobs set state = 'running', fence = fence + 1, attempt = attempt + 1,
        claim_token = '00000000-0000-7000-8000-00000000000c', worker = '00000000-0000-7000-8000-00000000000b',
        lease_expires_at = 9000000000000000
    where rank = 1;
    update jobs set begun_at = 6, lease_expires_at = lease_expires_at + 1, step = 1, total_steps = 2, percent = 1 where rank = 1;
    update jobs set state = 'failed', finished_at = 9, error_code = 'generation_failed', error_message = 'm',
        claim_token = null, worker = null, lease_expires_at = null
    where rank = 1;
    insert into deliveries (id, endpoint, tenant, job_id, notice, created_at)
    values (gen_random_uuid(), '00000000-0000-7000-8000-000000000099', 't', '00000000-0000-7000-8000-000000000001',
        'video.failed', 9)";

/// Jobs of before go on in whatever state they are, by this program and by one of before beside it.
#[tokio::test]
async fn jobs_of_before_go_on_in_every_state() {
    let postgres = Postgres::start();
    let options = options(&postgres);
    let mut connection = options.connect().await.unwrap();
    MIGRATOR.run_to(3, &mut connection).await.unwrap();
    sqlx::raw_sql(JOBS).execute(&mut connection).await.unwrap();
    migrate(&options).await.unwrap();
    let store = PostgresStore::connect(&options, Policy::default()).await.unwrap();
    let tenant: Tenant = "t".parse().unwrap();
    let query = ListQuery { order: Order::Ascending, ..ListQuery::default() };
    let jobs = store.list(&tenant, &query).await.unwrap().jobs;
    let expected = [JobState::Queued, JobState::Running, JobState::Completed, JobState::Failed, JobState::Cancelled];
    assert_eq!(jobs.iter().map(|job| job.state).collect::<Vec<_>>(), expected);
    assert!(jobs.iter().all(|job| job.metadata.is_empty() && job.previews.is_empty() && job.trace.is_none()));

    sqlx::raw_sql(BESIDE).execute(&mut connection).await.unwrap();
    let broken =
        sqlx::raw_sql("update jobs set percent = 101 where rank = 2").execute(&mut connection).await.unwrap_err();
    assert_eq!(broken.as_database_error().and_then(|error| error.constraint()), Some("jobs_percent_check"));
    let told = store.deliveries_of(&tenant, jobs[0].id).await.unwrap();
    assert_eq!(told.iter().map(|told| told.state).collect::<Vec<_>>(), [DeliveryState::Pending]);

    // The lease that a worker of before holds, and the ends of the others.
    let lease = Lease {
        job: jobs[1].id,
        tenant: tenant.clone(),
        fence: jobs[1].fence,
        token: ClaimToken("00000000-0000-7000-8000-00000000000a".parse().unwrap()),
        worker: jobs[1].worker.unwrap(),
        expires_at: jobs[1].lease_expires_at.unwrap(),
        duration: Duration::from_secs(30),
    };
    Store::begin(&store, &lease).await.unwrap();
    assert_eq!(store.finish(&lease, Outcome::Failed(super::broken("m"))).await.unwrap(), JobState::Failed);
    for (job, expected) in jobs.iter().zip([JobState::Failed, JobState::Failed, JobState::Completed, JobState::Failed])
    {
        assert_eq!(store.get(&tenant, job.id).await.unwrap().unwrap().state, expected);
        assert_eq!(store.delete(&tenant, job.id).await.unwrap(), Some(expected));
    }
    assert_eq!(store.retry(&tenant, jobs[4].id).await.unwrap().unwrap().state, JobState::Cancelled);
}

/// Tables of the first program, and somebody who reads them in a long transaction, as a backup does.
async fn in_a_backup(options: &Options) -> PgConnection {
    let mut backup = options.connect().await.unwrap();
    MIGRATOR.run_to(1, &mut backup).await.unwrap();
    sqlx::raw_sql("begin; lock table objects in access share mode").execute(&mut backup).await.unwrap();
    backup
}

/// Polls until as many as `wanted` wait for the table.
async fn until_waiting(observer: &mut PgConnection, wanted: i64) {
    let waiting = "select count(*) from pg_locks where not granted and relation = 'objects'::regclass";
    let watching =
        async { while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut *observer).await.unwrap() != wanted {} };
    tokio::time::timeout(Duration::from_secs(30), watching).await.expect("the migration comes and goes");
}

/// Whoever comes after a migration waits behind it: so it does not stand there for as long as a backup takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_gives_up_the_lock_that_it_waits_for_and_tries_again() {
    let postgres = Postgres::start();
    let options = options(&postgres);
    let mut backup = in_a_backup(&options).await;
    let mut observer = options.connect().await.unwrap();
    let patience = Patience {
        lock: Duration::from_millis(200),
        pause: Duration::from_millis(200),
        whole: Duration::from_secs(300),
    };
    let migrating = tokio::spawn({
        let options = options.clone();
        async move { migrate_within(&options, patience).await }
    });
    for _ in 0..2 {
        until_waiting(&mut observer, 1).await;
        // Who comes while it waits is through once it has given up, with the backup still there.
        sqlx::query("select from objects").fetch_all(&mut observer).await.unwrap();
        until_waiting(&mut observer, 0).await;
    }
    assert!(!migrating.is_finished(), "{:?}", migrating.await);
    sqlx::raw_sql("commit").execute(&mut backup).await.unwrap();
    let migrated = migrating.await.unwrap().unwrap();
    assert_eq!(
        migrated.applied.iter().map(|(version, _)| *version).collect::<Vec<_>>(),
        [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    );
    PostgresStore::connect(&options, Policy::default()).await.unwrap();
}

#[tokio::test]
async fn a_migration_that_waited_in_vain_says_so_and_leaves_nothing() {
    let postgres = Postgres::start();
    let options = options(&postgres);
    let mut backup = in_a_backup(&options).await;
    let patience = Patience {
        lock: Duration::from_millis(50),
        pause: Duration::from_millis(10),
        whole: Duration::from_millis(100),
    };
    let refused = migrate_within(&options, patience).await.unwrap_err();
    assert!(matches!(refused, OpenError::InUse { version: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("was in use for 0 s, so that migration 2"), "{refused}");
    sqlx::raw_sql("commit").execute(&mut backup).await.unwrap();
    let applied = migrate(&options).await.unwrap().applied;
    assert_eq!(applied.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
}

#[tokio::test]
async fn tables_that_are_not_there_are_asked_for() {
    let postgres = Postgres::start();
    let refused = refused(&options(&postgres)).await;
    assert!(matches!(refused, OpenError::NotMigrated { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("lacks migrations 1, 2") && text.ends_with("run `clapboard migrate`"), "{text}");
}

#[tokio::test]
async fn tables_of_a_newer_program_are_accepted_if_they_say_so() {
    let harness = harness().await;
    harness
        .meddle(
            "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
             values (9001, 'from the future', true, '\\x00', 0)",
        )
        .await;
    PostgresStore::connect(&harness.options, Policy::default()).await.unwrap();
    assert_eq!(migrate(&harness.options).await.unwrap(), Migrated { applied: vec![], version: 9001 });

    harness.meddle("update schema_compatibility set oldest_program = 9001").await;
    for refused in [refused(&harness.options).await, migrate(&harness.options).await.unwrap_err()] {
        assert!(matches!(refused, OpenError::NewerSchema { needed: 9001, .. }), "{refused}");
        assert!(refused.to_string().contains("was migrated by a newer clapboard"), "{refused}");
    }
}

#[tokio::test]
async fn a_changed_migration_is_refused() {
    let harness = harness().await;
    harness.meddle("update _sqlx_migrations set checksum = '\\x00' where version = 1").await;
    for refused in [refused(&harness.options).await, migrate(&harness.options).await.unwrap_err()] {
        assert!(matches!(refused, OpenError::ForeignSchema { version: 1, .. }), "{refused}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_at_once() {
    let mut postgres = Postgres::start();
    let address = postgres.address();
    postgres.stop();
    let url = format!("postgres://clap:hunter2@{address}/jobs");
    for refused in [refused(&at(&url)).await, migrate(&at(&url)).await.unwrap_err()] {
        assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused}");
        let told = Causes(&refused).to_string();
        assert!(told.starts_with(&format!("{address}/jobs cannot be reached: ")), "{told}");
        assert!(!told.contains("hunter2") && !format!("{refused:?}").contains("hunter2"), "{told}");
    }
}

#[tokio::test]
async fn a_database_or_a_role_that_is_not_there_is_named() {
    let postgres = Postgres::start();
    let address = postgres.address();
    let no_database = refused(&at(&format!("postgres://clapboard@{address}/nowhere"))).await;
    assert_eq!(no_database.to_string(), format!("there is no database {address}/nowhere: create it first"));
    let no_role = refused(&at(&format!("postgres://nobody@{address}/clapboard"))).await;
    assert_eq!(no_role.to_string(), format!("{address}/clapboard refuses the role \"nobody\""));
    assert!(matches!(no_role, OpenError::NotAllowed { .. }));
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let postgres = Postgres::start();
    let refused = refused(&at(&format!("{}?sslmode=require", postgres.url()))).await;
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused}");
    let told = Causes(&refused).to_string();
    assert!(told.to_lowercase().contains("tls"), "{told}");
}

#[tokio::test]
async fn a_policy_that_makes_no_sense_is_refused() {
    let postgres = Postgres::start();
    let policy = Policy { max_attempts: 0, ..Policy::default() };
    let refused = PostgresStore::lazy(&options(&postgres), policy).unwrap_err();
    assert!(matches!(refused, OpenError::Policy(_)), "{refused}");
}
