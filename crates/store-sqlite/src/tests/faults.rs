use std::fs;

use clapboard_jobs::{Causes, Claimant, Job, JobState, Progress, StoreError, WorkerId};

use super::*;

/// Fails a write as a full disk does, in a statement that makes SQLite roll the whole transaction back by itself.
async fn fill_the_disk(store: &SqliteStore) {
    let mut tx = store.begin("filling the disk").await.unwrap();
    // The limit falls to the present number of pages, for as long as this connection lives.
    sqlx::query("pragma max_page_count = 1").execute(&mut *tx).await.unwrap();
    let insert = "insert into deleted_jobs (id, tenant, created_at, deleted_at) values (x'00', ?, 0, 0)";
    let refused = sqlx::query(insert).bind("a".repeat(1 << 17)).execute(&mut *tx).await.unwrap_err();
    let refused = crate::error::unavailable("filling the disk")(refused);
    let told = Causes(&refused).to_string();
    assert!(told.ends_with("(code: 13) database or disk is full"), "{told}");
}

/// A job whose spec needs many pages of its own.
fn large_job() -> NewJob {
    NewJob { spec: SpecRecord { version: 1, json: format!("\"{}\"", "a".repeat(1 << 17)) }, ..new_job() }
}

async fn found(store: &SqliteStore, job: &Job) -> Option<Job> {
    store.get(&Tenant::default(), job.id).await.unwrap()
}

#[tokio::test]
async fn jobs_are_made_again_once_a_full_disk_has_room() {
    let (_folder, path) = file();
    let store = open(&path).await;
    let before = store.create(new_job()).await.unwrap();
    for _ in 0..3 {
        fill_the_disk(&store).await;
        // A new connection knows nothing of the limit: there is room again.
        let after = store.create(large_job()).await.unwrap();
        assert_eq!(found(&store, &after).await, Some(after));
    }
    assert_eq!(found(&store, &before).await, Some(before));
}

#[tokio::test]
async fn every_kind_of_write_goes_on_after_a_full_disk() {
    let (_folder, path) = file();
    let store = open(&path).await;
    let job = store.create(new_job()).await.unwrap();
    fill_the_disk(&store).await;
    let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
    let lease = store.claim(job.id, &claimant).await.unwrap().unwrap().lease;
    Store::begin(&store, &lease).await.unwrap();
    store.beat(&lease, &Progress::START).await.unwrap();
    store.cancel(&Tenant::default(), job.id).await.unwrap().unwrap();
    assert_eq!(store.reclaim_from_dead(&[]).await.unwrap().ended, [job.id]);
    assert_eq!(store.delete(&Tenant::default(), job.id).await.unwrap(), Some(JobState::Cancelled));
}

#[tokio::test]
async fn no_job_is_taken_into_a_file_that_was_removed() {
    let (folder, path) = file();
    let store = open(&path).await;
    store.create(new_job()).await.unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    for refused in [store.create(new_job()).await.unwrap_err(), Store::now(&store).await.unwrap_err()] {
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{refused}");
        let told = Causes(&refused).to_string();
        assert!(told.contains(&format!("{} was removed or replaced while it was open", path.display())), "{told}");
    }
}

#[tokio::test]
async fn no_job_is_taken_into_a_file_that_was_replaced() {
    let (folder, path) = file();
    let store = open(&path).await;
    let other = folder.path().join("other.db");
    open(&other).await.close().await;
    fs::rename(&other, &path).unwrap();
    let refused = store.create(new_job()).await.unwrap_err();
    assert!(Causes(&refused).to_string().contains("was removed or replaced"), "{refused}");
}
