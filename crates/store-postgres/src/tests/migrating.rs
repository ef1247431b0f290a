use clapboard_jobs::Causes;

use super::*;
use crate::error::OpenError;
use crate::open::{MIGRATOR, Migrated};

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
    assert!(lacking.contains("lacks migration 2"), "{lacking}");
    let applied = migrate(&options).await.unwrap().applied;
    assert_eq!(applied, [(2, "an input is kept while its job can run".to_owned())]);
    let store = PostgresStore::connect(&options, Policy::default()).await.unwrap();
    assert_eq!(store.garbage(9).await.unwrap(), ["v1/b".parse().unwrap()]);
    assert_eq!(store.unnamed(&["v1/a".parse().unwrap()]).await.unwrap(), []);
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
