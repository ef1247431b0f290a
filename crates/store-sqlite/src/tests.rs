//! The store against its contract, its file against other hands, its tables against nonsense.

mod faults;
mod inputs;
mod lists;
mod migrating;
mod opening;
mod outbox;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::Partition;
use clapboard_jobs::conformance::store::StoreHarness;
use clapboard_jobs::{Clock, JobId, Metadata, Micros, NewJob, Policy, Priority, SpecRecord, Store, Tenant, Told};
use tempfile::TempDir;

use crate::store::SqliteStore;

/// A clock that stands still until it is moved.
#[derive(Debug)]
struct ManualClock(AtomicI64);

impl ManualClock {
    fn new() -> Self {
        Self(AtomicI64::new(1_764_499_200_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst))
    }
}

struct Harness {
    store: Arc<SqliteStore>,
    clock: Arc<ManualClock>,
    path: PathBuf,
    _folder: TempDir,
}

#[async_trait]
impl StoreHarness for Harness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    async fn advance(&self, by: Duration) {
        self.clock.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }

    async fn store_with(&self, policy: Policy) -> Arc<dyn Store> {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        Arc::new(SqliteStore::open(&self.path, policy, clock).await.unwrap())
    }
}

async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Policy::default(), Arc::new(ManualClock::new())).await.unwrap()
}

async fn harness() -> Harness {
    let (folder, path) = file();
    let clock = Arc::new(ManualClock::new());
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
    let store = SqliteStore::open(&path, Policy::default(), shared).await.unwrap();
    Harness { store: Arc::new(store), clock, path, _folder: folder }
}

fn new_job() -> NewJob {
    NewJob {
        id: JobId::new(),
        tenant: Tenant::default(),
        model: "minimax-h3".to_owned(),
        partition: Partition::Fl2va,
        spec: SpecRecord { version: 1, json: "{}".to_owned() },
        cost_tflop: 1.0,
        rows: 1_000,
        inputs: Vec::new(),
        priority: Priority::Normal,
        start_within: None,
        result_life: None,
        metadata: Metadata::default(),
        told: Told::default(),
        remixed_from: None,
        hook: None,
        trace: None,
        submission: None,
    }
}

fn file() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("jobs.db");
    (folder, path)
}

mod suite {
    use super::harness;

    clapboard_jobs::store_conformance!(harness());
}
