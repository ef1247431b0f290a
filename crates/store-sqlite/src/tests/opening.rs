use std::fs;
use std::path::PathBuf;

use clapboard_jobs::{Claimant, JobState, WorkerId};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::*;
use crate::error::OpenError;

async fn refused(path: &Path) -> OpenError {
    SqliteStore::open(path, Policy::default(), Arc::new(ManualClock::new())).await.unwrap_err()
}

/// Runs statements on a file without our store.
async fn meddle(path: &Path, statements: &'static str) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    sqlx::raw_sql(statements).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn jobs_are_there_after_the_store_was_opened_again() {
    let (_folder, path) = file();
    let store = open(&path).await;
    let job = store.create(new_job()).await.unwrap();
    store.close().await;
    let again = open(&path).await;
    assert_eq!(again.get(&Tenant::default(), job.id).await.unwrap(), Some(job));
}

#[tokio::test]
async fn a_process_that_was_killed_loses_nothing_that_was_answered() {
    let (folder, path) = file();
    let store = open(&path).await;
    let job = store.create(new_job()).await.unwrap();
    let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
    let lease = store.claim(job.id, &claimant).await.unwrap().unwrap().lease;
    Store::begin(&store, &lease).await.unwrap();
    // What a killed process leaves: the file and its log, without a last checkpoint.
    let copy = folder.path().join("after-the-kill.db");
    fs::copy(&path, &copy).unwrap();
    let log = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
    fs::copy(log(&path), log(&copy)).unwrap();

    let restarted = open(&copy).await;
    let reclaimed = restarted.reclaim_from_dead(&[]).await.unwrap();
    assert_eq!(reclaimed.requeued, [job.id]);
    let queued = restarted.get(&Tenant::default(), job.id).await.unwrap().unwrap();
    assert_eq!((queued.state, queued.attempt), (JobState::Queued, 1));
}

#[tokio::test]
async fn the_file_is_in_wal_mode_and_commits_are_synchronous_in_full() {
    let (_folder, path) = file();
    let store = open(&path).await;
    let mut writer = store.begin("looking at the pragmas").await.unwrap();
    let mode: String = sqlx::query_scalar("pragma journal_mode").fetch_one(&mut *writer).await.unwrap();
    let synchronous: i64 = sqlx::query_scalar("pragma synchronous").fetch_one(&mut *writer).await.unwrap();
    let foreign_keys: i64 = sqlx::query_scalar("pragma foreign_keys").fetch_one(&mut *writer).await.unwrap();
    assert_eq!((mode.as_str(), synchronous, foreign_keys), ("wal", 2, 1));
}

#[tokio::test]
async fn a_reader_cannot_write() {
    let (_folder, path) = file();
    let store = open(&path).await;
    let error = sqlx::query("delete from jobs").execute(store.readers()).await.unwrap_err();
    // The same answer as that of a file on a read-only disk.
    let refused = OpenError::from_sqlx(&path, error);
    assert!(matches!(&refused, OpenError::ReadOnly { .. }), "{refused}");
    assert!(refused.to_string().starts_with(&path.display().to_string()), "{refused}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let (_folder, path) = file();
    open(&path).await.close().await;
    meddle(
        &path,
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9001, 'from the future', true, x'00', 0)",
    )
    .await;
    let refused = refused(&path).await;
    assert!(matches!(refused, OpenError::NewerSchema { found: 9001, .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("was written by a newer clapboard: it has migration 9001"), "{text}");
}

#[tokio::test]
async fn a_changed_migration_is_refused() {
    let (_folder, path) = file();
    open(&path).await.close().await;
    meddle(&path, "update _sqlx_migrations set checksum = x'00' where version = 1").await;
    let refused = refused(&path).await;
    assert!(matches!(refused, OpenError::ForeignSchema { version: 1, .. }), "{refused}");
}

#[tokio::test]
async fn the_database_of_another_program_is_left_as_it_is() {
    let (_folder, path) = file();
    meddle(&path, "create table notes (text text); insert into notes values ('keep me')").await;
    let before = fs::read(&path).unwrap();
    let refused = refused(&path).await;
    assert!(matches!(refused, OpenError::ForeignDatabase { .. }), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_as_it_is() {
    let (_folder, path) = file();
    let text = "this is no database. ".repeat(100);
    fs::write(&path, &text).unwrap();
    let refused = refused(&path).await;
    assert!(matches!(refused, OpenError::NotADatabase { .. }), "{refused}");
    assert_eq!(refused.to_string(), format!("{} is not a SQLite database", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let (_folder, path) = file();
    open(&path).await.close().await;
    let mut bytes = fs::read(&path).unwrap();
    // The first page keeps its header; the tree of tables behind it does not.
    bytes[100..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let refused = refused(&path).await;
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
}

#[tokio::test]
async fn a_missing_folder_is_not_made() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("missing/jobs.db");
    let refused = refused(&path).await;
    assert!(matches!(refused, OpenError::CannotOpen { .. }), "{refused}");
    assert!(!folder.path().join("missing").exists());
}

#[tokio::test]
async fn a_second_opening_of_the_same_file_corrupts_nothing() {
    let (_folder, path) = file();
    let (first, second) = (open(&path).await, open(&path).await);
    let mut made = Vec::new();
    for round in 0..20 {
        let store = if round % 2 == 0 { &first } else { &second };
        made.push(store.create(new_job()).await.unwrap());
    }
    for job in made {
        assert_eq!(second.get(&Tenant::default(), job.id).await.unwrap(), Some(job.clone()));
        assert_eq!(first.get(&Tenant::default(), job.id).await.unwrap(), Some(job));
    }
    let check: String = sqlx::query_scalar("pragma integrity_check").fetch_one(first.readers()).await.unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test]
async fn a_senseless_policy_is_refused_before_the_file_is_made() {
    let (_folder, path) = file();
    let policy = Policy { max_attempts: 0, ..Policy::default() };
    let refused = SqliteStore::open(&path, policy, Arc::new(ManualClock::new())).await.unwrap_err();
    assert!(matches!(refused, OpenError::Policy(_)), "{refused}");
    assert!(!path.exists());
}
