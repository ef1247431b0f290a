//! How long a job waits for another worker when its own is killed, at default settings.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clapboard_h3::{ModelProfile, VideoRequest};
use clapboard_jobs::{Hint, JobId, JobState, NewJob, Phase, Store, Tenant};

use super::processes::Process;
use super::queue::Servers;

const LIMIT: Duration = Duration::from_secs(180);

/// Kills a worker in the middle of a job and returns how long it took until another one denoised it.
///
/// The checkpoint is a tiny one: the time is that of the lease and of the scheduler, not of the model.
pub(super) async fn measure(servers: &Servers, checkpoint: &Path, profile: &ModelProfile) -> anyhow::Result<Duration> {
    let folder = tempfile::tempdir().context("could not make scratch folders")?;
    let checkpoint = checkpoint.to_str().context("the checkpoint's path is not text")?;
    let _scheduler = Process::start(&["scheduler"])?;
    let request = VideoRequest {
        prompt: Some("a clock without hands".to_owned()),
        size: Some("96x64".to_owned()),
        num_frames: Some(56),
        num_inference_steps: Some(200),
        ..VideoRequest::default()
    };
    let spec = request.resolve(profile, 7)?;
    let job = servers.store.create(NewJob::new(Tenant::default(), "bench", &spec)).await?;
    servers.dispatch.push(&[Hint { queue: job.queue(), rank: job.rank, job: job.id }]).await?;

    let mut workers = Vec::new();
    for name in ["first", "second"] {
        let scratch = folder.path().join(name);
        let scratch = scratch.to_str().context("the folder's path is not text")?;
        let mut worker = Process::start(&["worker", "--checkpoint", checkpoint, "--scratch", scratch])?;
        worker.says("clapboard works").await?;
        // The first has the job before the second looks for one.
        denoising(&*servers.store, job.id, 1).await?;
        workers.push(worker);
    }
    let killed = Instant::now();
    workers[0].kill().await?;
    denoising(&*servers.store, job.id, 2).await?;
    Ok(killed.elapsed())
}

/// Waits until the job is denoised under its claim of this fence.
async fn denoising(store: &dyn Store, id: JobId, fence: i64) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let job = store.get(&Tenant::default(), id).await?.context("the job is gone")?;
        if job.fence.0 == fence && job.progress.phase == Phase::Denoise {
            return Ok(());
        }
        ensure!(job.state != JobState::Completed, "the job ended before its worker was killed");
        ensure!(began.elapsed() < LIMIT, "claim {fence} of the job did not begin within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
