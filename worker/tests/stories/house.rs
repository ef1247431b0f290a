//! A standalone service without HTTP: what a story takes place in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clapboard_blob::DiskBlob;
use clapboard_dispatch::MemoryDispatch;
use clapboard_h3::{GenerationSpec, Partition};
use clapboard_jobs::fixtures::{FaultyStore, MovedClock, small_spec};
use clapboard_jobs::{
    Attempt, AttemptEnd, Blob, BlobKey, CapacityClass, Claimant, Claimed, Dispatch, Hint, Job, JobId, JobState, NewJob,
    Policy, Queue, Store, Tenant, WorkerId,
};
use clapboard_media::decode::image::HeifTool;
use clapboard_media::{Ffmpeg, MediaTools};
use clapboard_store_sqlite::SqliteStore;
use clapboard_worker::{Drained, Error, Generator, Options, Parts, StallLimits, Worker};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a story waits for what must come.
pub(crate) const GENEROUS: Duration = Duration::from_secs(120);

/// What the keys of all inputs have and no others.
pub(crate) const INPUTS: &str = "/input-";

/// Waits until there is what the story looks for.
pub(crate) async fn until_some<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(GENEROUS, looking).await.expect("what the story waits for comes in time")
}

/// Waits until it is as the story wants it.
pub(crate) async fn until_true(mut look: impl AsyncFnMut() -> bool) {
    until_some(async || look().await.then_some(())).await;
}

pub(crate) struct House {
    folder: TempDir,
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) store: Arc<dyn Store>,
    /// The same jobs over a connection of its own.
    pub(crate) heartbeat_store: Arc<dyn Store>,
    pub(crate) dispatch: Arc<dyn Dispatch>,
    pub(crate) blob: Arc<dyn Blob>,
    pub(crate) ffmpeg: Ffmpeg,
    pub(crate) policy: Policy,
    pub(crate) tenant: Tenant,
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(Policy::default()).await
    }

    pub(crate) async fn with(policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(MovedClock::default());
        let file = folder.path().join("jobs.sqlite");
        let store = SqliteStore::open(&file, policy.clone(), Arc::clone(&clock) as _).await.unwrap();
        let heartbeat_store = SqliteStore::open(&file, policy.clone(), Arc::clone(&clock) as _).await.unwrap();
        let blob = DiskBlob::open(&folder.path().join("media")).await.unwrap();
        Self {
            clock,
            store: Arc::new(store),
            heartbeat_store: Arc::new(heartbeat_store),
            dispatch: Arc::new(MemoryDispatch::new(100)),
            blob: Arc::new(blob),
            ffmpeg: Ffmpeg::find().unwrap(),
            policy,
            tenant: Tenant::default(),
            folder,
        }
    }

    /// Puts a connection that can break before the job store, the same one for beats and for all else.
    pub(crate) fn break_store(&mut self) -> Arc<FaultyStore> {
        let faulty = Arc::new(FaultyStore::over(Arc::clone(&self.store)));
        self.store = Arc::clone(&faulty) as _;
        self.heartbeat_store = Arc::clone(&faulty) as _;
        faulty
    }

    pub(crate) fn tools(&self) -> MediaTools {
        MediaTools { ffmpeg: self.ffmpeg.clone(), heif: HeifTool::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options that notice everything soon, and claim nothing ahead.
    pub(crate) fn options(&self) -> Options {
        Options {
            lease: self.policy.lease,
            beat_interval: Duration::from_millis(20),
            poll_interval: Duration::from_millis(50),
            prefetch_window: Duration::ZERO,
            stall_limits: StallLimits::all(2 * GENEROUS),
            encode_timeout: GENEROUS / 2,
            ..Options::new(WorkerId::new(), self.path("scratch"))
        }
    }

    pub(crate) fn start(&self, generator: Arc<dyn Generator>) -> Running {
        self.start_with(generator, self.options())
    }

    pub(crate) fn start_with(&self, generator: Arc<dyn Generator>, options: Options) -> Running {
        let parts = Parts {
            store: Arc::clone(&self.store),
            heartbeat_store: Arc::clone(&self.heartbeat_store),
            dispatch: Arc::clone(&self.dispatch),
            blob: Arc::clone(&self.blob),
            generator,
            tools: self.tools(),
        };
        let shutdown = CancellationToken::new();
        let worker = Worker::new(parts, options).unwrap();
        Running { shutdown: shutdown.clone(), task: tokio::spawn(worker.run(shutdown)) }
    }

    /// Makes a job of 22 frames at 64x64 in two forwards, and tells the dispatcher.
    pub(crate) async fn submit(&self) -> JobId {
        let job = self.submit_quietly().await;
        let hint = Hint { queue: job.queue(), rank: job.rank, job: job.id };
        self.dispatch.push(&[hint]).await.unwrap();
        job.id
    }

    pub(crate) async fn submit_quietly(&self) -> Job {
        self.create(&small_spec()).await
    }

    pub(crate) async fn create(&self, spec: &GenerationSpec) -> Job {
        self.store.create(NewJob::new(self.tenant.clone(), "h3", spec)).await.unwrap()
    }

    /// Makes a job of a specification whose inputs are these files, in order.
    pub(crate) async fn create_from(&self, spec: GenerationSpec, files: &[&Path]) -> JobId {
        let id = JobId::new();
        let key = |(index, file): (usize, &&Path)| {
            let digest = Sha256::digest(fs::read(file).unwrap());
            let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            BlobKey::input(&self.tenant, id, index, &sha256)
        };
        let keys: Vec<BlobKey> = files.iter().enumerate().map(key).collect();
        self.store.expect_inputs(id, &keys, GENEROUS).await.unwrap();
        for (key, file) in keys.iter().zip(files) {
            self.blob.put_file(key, file, &|| ()).await.unwrap();
        }
        let mut spec = spec;
        for (input, key) in spec.inputs.iter_mut().zip(&keys) {
            input.object = key.to_string();
        }
        let job = NewJob { id, inputs: keys, ..NewJob::new(self.tenant.clone(), "h3", &spec) };
        self.store.create(job).await.unwrap().id
    }

    /// Waits until idle workers are told of the job.
    pub(crate) async fn until_hinted_at(&self, job: &Job) {
        until_true(async || self.dispatch.len(job.queue()).await.unwrap() > 0).await;
    }

    pub(crate) async fn find(&self, id: JobId) -> Option<Job> {
        self.store.get(&self.tenant, id).await.unwrap()
    }

    /// Waits until the job is as the story wants it.
    pub(crate) async fn until(&self, id: JobId, wanted: impl Fn(&Job) -> bool) -> Job {
        let mut last = None;
        let waiting = async {
            loop {
                let job = self.find(id).await.unwrap();
                if wanted(&job) {
                    return job;
                }
                last = Some(job);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(GENEROUS, waiting).await {
            Ok(job) => job,
            Err(_) => panic!("the job stayed {last:?}"),
        }
    }

    pub(crate) async fn until_state(&self, id: JobId, state: JobState) -> Job {
        self.until(id, |job| job.state == state).await
    }

    /// Waits until the lease of a running job has been renewed this many times.
    pub(crate) async fn until_renewed(&self, id: JobId, times: usize) {
        let mut known = self.find(id).await.unwrap().lease_expires_at;
        for _ in 0..times {
            known = self.until(id, |job| job.lease_expires_at > known).await.lease_expires_at;
        }
    }

    /// Waits until the worker has taken every hint.
    pub(crate) async fn until_hints_are_taken(&self) {
        for queue in CapacityClass::all().map(|class| Queue::of(Partition::Fl2va, class)) {
            until_true(async || self.dispatch.len(queue).await.unwrap() == 0).await;
        }
    }

    pub(crate) async fn attempts(&self, id: JobId) -> Vec<Attempt> {
        self.store.attempts(&self.tenant, id).await.unwrap()
    }

    /// How the job's claims ended, oldest first.
    pub(crate) async fn ends(&self, id: JobId) -> Vec<Option<AttemptEnd>> {
        self.attempts(id).await.into_iter().map(|attempt| attempt.ended.map(|(_, end)| end)).collect()
    }

    /// Lets the lease end and takes the job back.
    pub(crate) async fn reclaim(&self, id: JobId) {
        // A beat between the two renews the lease, and then its end has to come again.
        until_true(async || {
            self.clock.advance(self.policy.lease + Duration::from_secs(1));
            self.store.reclaim_expired(10).await.unwrap().requeued == [id]
        })
        .await;
    }

    /// Takes the job back and claims it for somebody else.
    pub(crate) async fn steal(&self, id: JobId) -> Claimed {
        self.reclaim(id).await;
        let thief = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
        self.store.claim(id, &thief).await.unwrap().unwrap()
    }

    /// The bytes of an object.
    pub(crate) fn object(&self, key: &str) -> Vec<u8> {
        fs::read(self.path("media/objects").join(key)).unwrap()
    }

    /// The keys of all objects in the media store.
    pub(crate) async fn objects(&self) -> Vec<String> {
        let objects = self.blob.list("", None, 100).await.unwrap();
        objects.into_iter().map(|object| object.key.to_string()).collect()
    }

    /// What lies in the scratch folder.
    pub(crate) fn scratch(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("scratch")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// The keys that a job's row names, in order: of its result and of the pictures of that.
pub(crate) fn named(job: &Job) -> Vec<String> {
    let pictures = job.previews.iter().map(|preview| preview.object.key.to_string());
    let mut keys: Vec<String> = pictures.chain(job.result.iter().map(|result| result.key.to_string())).collect();
    keys.sort();
    keys
}

/// A worker at work.
pub(crate) struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<Result<Drained, Error>>,
}

impl Running {
    pub(crate) fn drain(&self) {
        self.shutdown.cancel();
    }

    /// Waits until the worker's run has ended.
    pub(crate) async fn ended(self) -> Result<Drained, Error> {
        tokio::time::timeout(GENEROUS, self.task).await.expect("the worker ends in time").unwrap()
    }

    pub(crate) async fn stop(self) -> Result<Drained, Error> {
        self.drain();
        self.ended().await
    }

    /// Ends the worker as a crash would, as far as that can be had within a process.
    pub(crate) async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}
