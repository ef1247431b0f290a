//! What the rows and the bucket say, read by the test itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use clapboard_jobs::{Attempt, Delivery, Endpoint, Job, JobId, Policy, Store, Tenant, WorkerRecord};
use clapboard_store_postgres::PostgresStore;
use tokio::runtime::{Builder, Runtime};

/// The job store, without a service between.
pub(super) struct Truth {
    runtime: Runtime,
    store: Arc<PostgresStore>,
}

impl Truth {
    pub(super) fn of(database_url: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let options = clapboard_store_postgres::Options::new(database_url.parse().unwrap());
        let store = runtime.block_on(PostgresStore::connect(&options, Policy::default())).unwrap();
        Self { runtime, store: Arc::new(store) }
    }

    /// Asks the store something; a store that cannot be reached has no answer.
    pub(super) fn ask<T, E>(&self, question: impl AsyncFnOnce(&dyn Store) -> Result<T, E>) -> Option<T> {
        self.runtime.block_on(question(&*self.store)).ok()
    }

    /// Asks a store that has to be there.
    pub(super) fn must<T, E: std::fmt::Debug>(&self, question: impl AsyncFnOnce(&dyn Store) -> Result<T, E>) -> T {
        self.runtime.block_on(question(&*self.store)).unwrap()
    }

    pub(super) fn job(&self, tenant: &Tenant, id: &str) -> Job {
        let id: JobId = id.parse().unwrap();
        self.must(async |store| store.get(tenant, id).await).unwrap_or_else(|| panic!("{id} is gone"))
    }

    pub(super) fn attempts(&self, tenant: &Tenant, id: &str) -> Vec<Attempt> {
        let id: JobId = id.parse().unwrap();
        self.must(async |store| store.attempts(tenant, id).await)
    }

    pub(super) fn deliveries(&self, tenant: &Tenant, id: &str) -> Vec<Delivery> {
        let id: JobId = id.parse().unwrap();
        self.must(async |store| store.deliveries_of(tenant, id).await)
    }

    pub(super) fn workers(&self) -> Vec<WorkerRecord> {
        self.must(async |store| store.workers().await)
    }

    pub(super) fn add_endpoint(&self, tenant: &Tenant, url: &str) {
        let endpoint = Endpoint::new(tenant.clone(), url);
        self.must(async |store| store.add_endpoint(&endpoint).await);
    }

    /// The keys that jobs name: their results, and the states where their next attempts go on.
    pub(super) fn named_keys(&self, jobs: &[(Tenant, String)]) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for (tenant, id) in jobs {
            let job = self.job(tenant, id);
            keys.extend(job.result.map(|result| result.key.as_str().to_owned()));
            keys.extend(job.previews.into_iter().map(|preview| preview.object.key.as_str().to_owned()));
            keys.extend(job.checkpoint.map(|checkpoint| checkpoint.key.as_str().to_owned()));
        }
        keys
    }
}
