//! The commands over the data directory of a standalone service.

use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use clapboard_h3::{Input, InputRole, InputShape, ModelProfile, Partition, VideoRequest};
use clapboard_jobs::{
    Claimant, FailureCode, Job, JobError, JobId, JobState, NewJob, Outcome, Policy, Store, SystemClock, Tenant,
    WorkerId,
};
use clapboard_store_sqlite::SqliteStore;

use super::*;
use crate::serve::jobs_of;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

/// Runs `clapboard jobs`.
fn jobs(data: &Path, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let data = ["--data", data.to_str().unwrap()];
    run(Cli::try_parse_from(["jobs"].iter().chain(arguments).chain(&data))?.args)
}

fn refusal(data: &Path, arguments: &[&str]) -> String {
    format!("{:#}", jobs(data, arguments).unwrap_err())
}

async fn open(data: &Path) -> SqliteStore {
    SqliteStore::open(&jobs_of(data), Policy::default(), Arc::new(SystemClock)).await.unwrap()
}

/// Makes a job, and lets it fail if that is wanted.
async fn make(store: &SqliteStore, fails: bool) -> anyhow::Result<Job> {
    make_for(store, &Tenant::default(), fails).await
}

async fn make_for(store: &SqliteStore, tenant: &Tenant, fails: bool) -> anyhow::Result<Job> {
    let profile = ModelProfile::released("minimax-h3", vec![Partition::Fl2va]);
    let request =
        VideoRequest { prompt: Some("hunter2".into()), aspect_ratio: Some("16:9".into()), ..VideoRequest::default() };
    let job = NewJob::new(tenant.clone(), "minimax-h3", &request.resolve(&profile, 7).unwrap());
    let id = store.create(job).await?.id;
    if fails {
        let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
        let claimed = store.claim(id, &claimant).await?.unwrap();
        let error = JobError::new(FailureCode::GenerationFailed, "the film tore");
        store.finish(&claimed.lease, Outcome::Failed(error)).await?;
    }
    Ok(store.get(tenant, id).await?.unwrap())
}

/// A job that waits, of which only the row is there.
pub(super) fn queued_job() -> Job {
    let folder = tempfile::tempdir().unwrap();
    block_on(async { make(&open(folder.path()).await, false).await }).unwrap()
}

fn state(data: &Path, job: &Job) -> JobState {
    block_on(async { Ok(open(data).await.get(&job.tenant, job.id).await?.unwrap().state) }).unwrap()
}

#[test]
fn a_failed_job_is_retried_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (failed, waiting) = block_on(async {
        let store = open(data).await;
        Ok((make(&store, true).await?, make(&store, false).await?))
    })
    .unwrap();
    jobs(data, &["retry", &failed.id.to_string()]).unwrap();
    assert_eq!(state(data, &failed), JobState::Queued);
    let refused = refusal(data, &["retry", &waiting.id.to_string()]);
    assert_eq!(refused, format!("job {} is queued, and only a failed one can be retried", waiting.id));
}

#[test]
fn a_job_that_has_ended_is_not_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (failed, waiting) = block_on(async {
        let store = open(data).await;
        Ok((make(&store, true).await?, make(&store, false).await?))
    })
    .unwrap();
    // The second time as well: it is what was asked for.
    for _ in 0..2 {
        jobs(data, &["cancel", &waiting.id.to_string()]).unwrap();
        assert_eq!(state(data, &waiting), JobState::Cancelled);
    }
    let refused = refusal(data, &["cancel", &failed.id.to_string()]);
    assert_eq!(refused, format!("job {} has ended already: it is failed", failed.id));
    let refused = refusal(data, &["show", &waiting.id.to_string(), "--tenant", "other"]);
    assert_eq!(refused, format!("tenant other has no job {}", waiting.id));
}

/// An id from a log is enough, whosever the job is; a tenant that is named narrows.
#[test]
fn a_job_of_any_tenant_is_found_by_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let other: Tenant = "other".parse().unwrap();
    let (failed, waiting) = block_on(async {
        let store = open(data).await;
        Ok((make_for(&store, &other, true).await?, make_for(&store, &other, false).await?))
    })
    .unwrap();
    jobs(data, &["show", &failed.id.to_string()]).unwrap();
    jobs(data, &["retry", &failed.id.to_string()]).unwrap();
    jobs(data, &["cancel", &waiting.id.to_string()]).unwrap();
    assert_eq!((state(data, &failed), state(data, &waiting)), (JobState::Queued, JobState::Cancelled));
    for verb in ["show", "retry", "cancel"] {
        let refused = refusal(data, &[verb, &failed.id.to_string(), "--tenant", "default"]);
        assert_eq!(refused, format!("tenant default has no job {}", failed.id));
        let unknown = JobId::new().to_string();
        assert_eq!(refusal(data, &[verb, &unknown]), format!("there is no job {unknown}"));
    }
    jobs(data, &["cancel", &failed.id.to_string(), "--tenant", "other"]).unwrap();
    assert_eq!(state(data, &failed), JobState::Cancelled);
}

#[test]
fn inputs_are_told_by_their_role_and_shape() {
    let told = |role, width, height, frames, audio_latents| {
        let shape = InputShape { width, height, frames, audio_latents };
        describe::input(&Input { role, object: "secret".to_owned(), shape })
    };
    assert_eq!(told(InputRole::LastFrame, 96, 64, 1, 0), "last frame, 96x64");
    assert_eq!(told(InputRole::Image, 64, 96, 1, 0), "image, 64x96");
    assert_eq!(told(InputRole::Video, 96, 64, 22, 0), "video, 96x64, at most 22 frames");
    assert_eq!(told(InputRole::Video, 96, 64, 22, 9), "video with sound, 96x64, at most 22 frames");
    assert_eq!(told(InputRole::Audio, 0, 0, 0, 9), "sound, at most 9 latents");
}

#[test]
fn every_way_of_looking_works_beside_an_open_store_and_none_shows_the_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let (_store, job) = block_on(async {
        let store = open(data).await;
        let job = make(&store, true).await?;
        Ok((store, job))
    })
    .unwrap();
    let id = job.id.to_string();
    for arguments in [&["list"][..], &["list", "--status", "failed", "--json"], &["show", &id], &["usage"]] {
        jobs(data, arguments).unwrap();
    }
    let told = describe::job(&job).to_string();
    assert!(told.contains("the film tore") && told.contains("\"num_frames\":209"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    assert_eq!(describe::note(&job, job.created_at, &fleet::Fleet::default()), "generation_failed");
}
