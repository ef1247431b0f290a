//! The store against its contract, its tables against nonsense, its connections against outages.

mod connections;
mod inputs;
mod instants;
mod migrating;
mod outage;
mod outbox;
mod plans;
mod sameness;
mod schema;
mod sweeps;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_h3::Partition;
use clapboard_jobs::conformance::store::StoreHarness;
use clapboard_jobs::{
    Claimant, JobError, JobId, Lease, Metadata, NewJob, Outcome, Policy, Priority, ResultObject, RunReport, SpecRecord,
    Store, Tenant, Told, WorkerId,
};
use clapboard_testkit::Postgres;
use sqlx::AssertSqlSafe;

use crate::migrate::migrate;
use crate::options::Options;
use crate::store::PostgresStore;

/// The clock of the tables, set forward by `$by` microseconds.
const SET_FORWARD: &str = "
    create or replace function now_micros() returns bigint
    language sql stable parallel safe
    as $$ select (extract(epoch from statement_timestamp()) * 1000000)::bigint + $by $$;
";

struct Harness {
    store: Arc<PostgresStore>,
    options: Options,
    postgres: Postgres,
    /// By how many microseconds the clock was set forward.
    forward: AtomicI64,
}

impl Harness {
    /// Runs statements that stand in the tests.
    async fn meddle(&self, statements: &str) {
        self.try_meddle(statements).await.unwrap();
    }

    async fn try_meddle(&self, statements: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(self.store.pool()).await.map(drop)
    }

    async fn number(&self, question: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(question)).fetch_one(self.store.pool()).await.unwrap()
    }
}

#[async_trait]
impl StoreHarness for Harness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    async fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap();
        let forward = self.forward.fetch_add(by, Ordering::SeqCst) + by;
        self.meddle(&SET_FORWARD.replace("$by", &forward.to_string())).await;
    }

    async fn store_with(&self, policy: Policy) -> Arc<dyn Store> {
        Arc::new(PostgresStore::connect(&self.options, policy).await.unwrap())
    }
}

fn options(postgres: &Postgres) -> Options {
    Options::new(postgres.url().parse().unwrap())
}

async fn harness() -> Harness {
    let postgres = Postgres::start();
    let options = options(&postgres);
    migrate(&options).await.unwrap();
    let store = Arc::new(PostgresStore::connect(&options, Policy::default()).await.unwrap());
    Harness { store, options, postgres, forward: AtomicI64::new(0) }
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

fn worker() -> Claimant {
    Claimant { spec_versions: vec![1], ..Claimant::new(WorkerId::new(), vec![Partition::Fl2va]) }
}

fn completed(lease: &Lease) -> Outcome {
    let object = ResultObject { key: lease.result_key(), size_bytes: 1, sha256: "5a".repeat(32) };
    Outcome::Completed { object, previews: Vec::new(), report: RunReport::default() }
}

fn broken(message: &str) -> JobError {
    JobError::new(clapboard_jobs::FailureCode::GenerationFailed, message)
}

mod suite {
    use super::harness;

    clapboard_jobs::store_conformance!(harness());
}
