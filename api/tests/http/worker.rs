//! A worker that does what a test tells it, by the store's own verbs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clapboard_api::AppState;
use clapboard_h3::Partition;
use clapboard_jobs::{
    BlobKey, Claimant, Claimed, FailureCode, JobError, Outcome, Phase, Preview, PreviewKind, Progress, ResultObject,
    RunReport, WorkerId,
};

/// What every finished video holds: 1000 bytes, each its place modulo 251.
pub(crate) fn film() -> Vec<u8> {
    (0..1000u32).map(|at| (at % 251) as u8).collect()
}

/// What the pictures of every finished video hold.
pub(crate) fn picture(kind: PreviewKind) -> Vec<u8> {
    format!("a {} of the film", kind.as_str()).into_bytes()
}

/// A worker.
pub(crate) struct Worker {
    state: AppState,
    folder: PathBuf,
    claimant: Claimant,
}

impl Worker {
    pub(crate) fn new(state: AppState, folder: PathBuf) -> Self {
        let claimant = Claimant::new(WorkerId::new(), Partition::ALL.to_vec());
        Self { state, folder, claimant }
    }

    /// Claims the next job, which must be there.
    pub(crate) async fn claim(&self) -> Claimed {
        self.state.store.claim_next(&self.claimant).await.unwrap().unwrap()
    }

    /// Claims and begins the next job.
    pub(crate) async fn begin(&self) -> Claimed {
        let claimed = self.claim().await;
        self.state.store.begin(&claimed.lease).await.unwrap();
        claimed
    }

    /// Reports a step of the denoising.
    pub(crate) async fn step(&self, claimed: &Claimed, step: u32, percent: u8) {
        let progress = Progress { phase: Phase::Denoise, step, total_steps: 49, percent };
        self.state.store.beat(&claimed.lease, &progress).await.unwrap();
    }

    /// Stores the film and finishes.
    pub(crate) async fn finish(&self, claimed: &Claimed) {
        let object = self.put(claimed).await;
        self.finish_with(claimed, object, Vec::new()).await;
    }

    /// Does the next job and loses its file before anybody hears that it is done.
    pub(crate) async fn lose_one(&self) {
        let claimed = self.begin().await;
        let object = self.put(&claimed).await;
        self.state.blob.delete(&object.key).await.unwrap();
        self.finish_with(&claimed, object, Vec::new()).await;
    }

    async fn put(&self, claimed: &Claimed) -> ResultObject {
        self.put_bytes(claimed.lease.result_key(), &film()).await
    }

    async fn put_bytes(&self, key: BlobKey, bytes: &[u8]) -> ResultObject {
        let file = self.folder.join("put");
        std::fs::write(&file, bytes).unwrap();
        let put = self.state.blob.put_file(&key, &file, &|| ()).await.unwrap();
        ResultObject { key, size_bytes: put.size_bytes, sha256: put.sha256 }
    }

    async fn finish_with(&self, claimed: &Claimed, object: ResultObject, previews: Vec<Preview>) {
        let report = RunReport {
            inference_s: 12.3456,
            stage_durations_s: BTreeMap::from([("denoise".to_owned(), 10.5), ("decode_video".to_owned(), 1.25)]),
            peak_memory_bytes: 3 << 20,
        };
        self.state.store.finish(&claimed.lease, Outcome::Completed { object, previews, report }).await.unwrap();
    }

    /// Does the next job from beginning to end.
    pub(crate) async fn do_one(&self) {
        let claimed = self.begin().await;
        self.finish(&claimed).await;
    }

    /// Does the next job, and makes pictures of its video.
    pub(crate) async fn do_one_with_previews(&self) {
        let claimed = self.begin().await;
        self.state.store.expect_previews(&claimed.lease).await.unwrap();
        let mut previews = Vec::new();
        for kind in PreviewKind::ALL {
            let object = self.put_bytes(claimed.lease.preview_key(kind), &picture(kind)).await;
            previews.push(Preview { kind, object });
        }
        let object = self.put(&claimed).await;
        self.finish_with(&claimed, object, previews).await;
    }

    /// Fails the next job.
    pub(crate) async fn fail_one(&self) {
        let claimed = self.begin().await;
        self.step(&claimed, 3, 40).await;
        let error = JobError::new(FailureCode::GenerationFailed, "the latents are not finite");
        self.state.store.finish(&claimed.lease, Outcome::Failed(error)).await.unwrap();
    }
}
