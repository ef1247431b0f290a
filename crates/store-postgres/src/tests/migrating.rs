use clapboard_jobs::Causes;
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
    assert!(lacking.contains("lacks migrations 2, 3"), "{lacking}");
    let applied = migrate(&options).await.unwrap().applied;
    let names = ["an input is kept while its job can run", "the standing of old objects is checked"];
    assert_eq!(applied, [(2, names[0].to_owned()), (3, names[1].to_owned())]);
    let store = PostgresStore::connect(&options, Policy::default()).await.unwrap();
    assert_eq!(store.garbage(9).await.unwrap(), ["v1/b".parse().unwrap()]);
    assert_eq!(store.unnamed(&["v1/a".parse().unwrap()]).await.unwrap(), []);
    let unchecked = "select count(*) from pg_constraint where not convalidated";
    let unchecked: i64 = sqlx::query_scalar(unchecked).fetch_one(store.pool()).await.unwrap();
    assert_eq!(unchecked, 0);
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
    assert_eq!(migrated.applied.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [2, 3]);
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
    assert_eq!(applied.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [2, 3]);
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
