//! A store, a dispatcher and a media store, and what happens to jobs in them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use clapboard_blob::DiskBlob;
use clapboard_dispatch::MemoryDispatch;
use clapboard_h3::Partition;
use clapboard_jobs::fixtures::{MovedClock, small_spec};
use clapboard_jobs::{
    Blob, BlobKey, Checkpoint, Claimant, Claimed, Dispatch, Fingerprint, Job, JobId, Lease, NewJob, Outcome, Policy,
    ResultObject, RunReport, Store, Tenant, WorkerId,
};
use clapboard_scheduler::{Garbage, Options, Orphans, Parts, Reaper, Refill, Scheduler};
use clapboard_store_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct House {
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) dispatch: Arc<dyn Dispatch>,
    pub(crate) blob: Arc<dyn Blob>,
    pub(crate) policy: Policy,
    pub(crate) tenant: Tenant,
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::under(Policy::default()).await
    }

    pub(crate) async fn under(policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(MovedClock::default());
        let file = folder.path().join("jobs.sqlite");
        let store = SqliteStore::open(&file, policy.clone(), Arc::clone(&clock) as _).await.unwrap();
        let blob = DiskBlob::open(&folder.path().join("media")).await.unwrap();
        Self {
            clock,
            store: Arc::new(store),
            dispatch: Arc::new(MemoryDispatch::new(1000)),
            blob: Arc::new(blob),
            policy,
            tenant: Tenant::default(),
            folder,
        }
    }

    pub(crate) async fn submit(&self) -> Job {
        self.store.create(self.new_job()).await.unwrap()
    }

    pub(crate) fn new_job(&self) -> NewJob {
        NewJob::new(self.tenant.clone(), "h3", &small_spec())
    }

    pub(crate) async fn job(&self, id: JobId) -> Option<Job> {
        self.store.get(&self.tenant, id).await.unwrap()
    }

    /// Waits until a look at the store is as wished.
    pub(crate) async fn until<T>(&self, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let looking = async {
            loop {
                if let Some(seen) = look().await {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), looking).await.expect("the sweeps do it in time")
    }

    /// Runs a scheduler over a store, until `shutdown`.
    pub(crate) fn schedule(
        &self,
        store: Arc<dyn Store>,
        options: Options,
        shutdown: &CancellationToken,
    ) -> JoinHandle<()> {
        let parts = Parts { store, dispatch: Arc::clone(&self.dispatch), blob: Arc::clone(&self.blob) };
        tokio::spawn(Scheduler::new(&parts, options).unwrap().run(shutdown.clone()))
    }

    /// Does a job from its claim to its result.
    pub(crate) async fn complete_one(&self) -> ResultObject {
        let lease = self.claim().await.lease;
        let object = self.put(&lease).await;
        let done = Outcome::Completed { object: object.clone(), previews: Vec::new(), report: RunReport::default() };
        self.store.finish(&lease, done).await.unwrap();
        object
    }

    /// Stores a denoising state where a claim's states belong.
    pub(crate) async fn put_checkpoint(&self, lease: &Lease, step: u32) -> Checkpoint {
        let file = self.folder.path().join("state.safetensors");
        fs::write(&file, format!("not quite the latents of step {step}")).unwrap();
        let key = lease.checkpoint_key(step);
        let put = self.blob.put_file(&key, &file, &|| ()).await.unwrap();
        let fingerprint = Fingerprint("test".to_owned());
        Checkpoint { key, step, size_bytes: put.size_bytes, sha256: put.sha256, fingerprint }
    }

    /// Stores a denoising state and makes it the job's.
    pub(crate) async fn keep_checkpoint(&self, lease: &Lease, step: u32) -> BlobKey {
        self.store.expect_checkpoint(lease, step).await.unwrap();
        let checkpoint = self.put_checkpoint(lease, step).await;
        self.store.keep_checkpoint(lease, &checkpoint).await.unwrap();
        checkpoint.key
    }

    /// Makes results and deletes their jobs, a second apart, and returns where they lie.
    pub(crate) async fn make_garbage(&self, count: usize) -> Vec<BlobKey> {
        let mut keys = Vec::new();
        for _ in 0..count {
            let job = self.submit().await;
            keys.push(self.complete_one().await.key);
            self.store.delete(&self.tenant, job.id).await.unwrap();
            self.clock.advance(Duration::from_secs(1));
        }
        keys
    }

    pub(crate) async fn claim(&self) -> Claimed {
        let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
        self.store.claim_next(&claimant).await.unwrap().unwrap()
    }

    /// Puts some bytes where the claim's result belongs.
    pub(crate) async fn put(&self, lease: &Lease) -> ResultObject {
        self.put_at(&lease.result_key()).await
    }

    pub(crate) async fn put_at(&self, key: &BlobKey) -> ResultObject {
        let file = self.folder.path().join("video.mp4");
        fs::write(&file, "not quite a video").unwrap();
        let put = self.blob.put_file(key, &file, &|| ()).await.unwrap();
        ResultObject { key: key.clone(), size_bytes: put.size_bytes, sha256: put.sha256 }
    }

    pub(crate) async fn objects(&self) -> Vec<BlobKey> {
        let objects = self.blob.list("", None, 100).await.unwrap();
        objects.into_iter().map(|object| object.key).collect()
    }

    pub(crate) fn refill(&self, options: &Options) -> Refill {
        Refill::new(Arc::clone(&self.store), Arc::clone(&self.dispatch), options)
    }

    pub(crate) fn reaper(&self, options: &Options) -> Reaper {
        Reaper::new(Arc::clone(&self.store), Arc::clone(&self.dispatch), options)
    }

    pub(crate) fn garbage(&self, options: &Options) -> Garbage {
        Garbage::new(Arc::clone(&self.store), Arc::clone(&self.blob), options)
    }

    pub(crate) fn orphans(&self, options: &Options) -> Orphans {
        Orphans::new(Arc::clone(&self.store), Arc::clone(&self.blob), options)
    }
}
