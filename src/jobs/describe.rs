//! Jobs and attempts in the words of the operator's tables and JSON objects. Prompts are in neither.

use clapboard_h3::{Input, InputRole, InputShape};
use clapboard_jobs::{Attempt, Job, JobError, JobState, Micros};
use serde_json::{Value, json};

use super::fleet::Fleet;
use crate::utc;

/// Describes a job for a program.
pub(super) fn job(job: &Job) -> Value {
    json!({
        "id": job.id,
        "tenant": job.tenant,
        "model": job.model,
        "state": job.state.as_str(),
        "status": job.status(),
        "partition": job.partition,
        "queue": job.queue().to_string(),
        "rows": job.rows,
        "cost_tflop": job.cost_tflop,
        "priority": job.priority.as_str(),
        "rank": job.rank,
        "progress": job.progress,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "fence": job.fence,
        "worker": job.worker,
        "created_at": utc::rfc3339(job.created_at),
        "run_at": utc::rfc3339(job.run_at),
        "start_by": moment(job.start_by),
        "begun_at": moment(job.begun_at),
        "finished_at": moment(job.finished_at),
        "cancel_requested_at": moment(job.cancel_requested_at),
        "lease_expires_at": moment(job.lease_expires_at),
        "request": request(job),
        "checkpoint": job.checkpoint.as_ref().map(|checkpoint| json!({
            "key": checkpoint.key,
            "step": checkpoint.step,
            "size_bytes": checkpoint.size_bytes,
            "sha256": checkpoint.sha256,
            "fingerprint": checkpoint.fingerprint,
        })),
        "result": job.result,
        "result_expires_at": moment(job.result_expires_at),
        "report": job.report,
        "error": job.error,
    })
}

/// Describes what is to be generated; none where a newer program has written it.
fn request(job: &Job) -> Option<Value> {
    let spec = job.spec.decode().ok()?;
    let inputs = spec.inputs.iter().map(|input| json!({ "role": input.role, "shape": input.shape }));
    Some(json!({
        "task": spec.task,
        "size": spec.canvas.to_string(),
        "num_frames": spec.num_frames.get(),
        "num_inference_steps": spec.video_sigmas.points(),
        "seed": spec.seed,
        "recipe": spec.recipe,
        "inputs": inputs.collect::<Vec<Value>>(),
    }))
}

/// Says in a few words what a job starts from besides its prompt.
pub(super) fn input(input: &Input) -> String {
    let InputShape { width, height, frames, audio_latents } = input.shape;
    match input.role {
        InputRole::FirstFrame => format!("first frame, {width}x{height}"),
        InputRole::LastFrame => format!("last frame, {width}x{height}"),
        InputRole::Image => format!("image, {width}x{height}"),
        InputRole::Video if audio_latents == 0 => format!("video, {width}x{height}, at most {frames} frames"),
        InputRole::Video => format!("video with sound, {width}x{height}, at most {frames} frames"),
        InputRole::Audio => format!("sound, at most {audio_latents} latents"),
    }
}

/// Describes a claim for a program.
pub(super) fn attempt(attempt: &Attempt) -> Value {
    json!({
        "fence": attempt.fence,
        "number": attempt.number,
        "worker": attempt.worker,
        "claimed_at": utc::rfc3339(attempt.claimed_at),
        "begun_at": moment(attempt.begun_at),
        "ended_at": moment(attempt.ended.map(|(at, _)| at)),
        "end": attempt.ended.map(|(_, end)| end),
        "error": attempt.error,
    })
}

/// Says in a few words what is special about a job: how far it is, what it waits for, why it failed.
pub(super) fn note(job: &Job, now: Micros, fleet: &Fleet) -> String {
    let progress = job.progress;
    match job.state {
        JobState::Running if job.cancel_requested_at.is_some() => "cancel requested".to_owned(),
        JobState::Running if job.begun_at.is_none() => "claimed ahead".to_owned(),
        JobState::Running if progress.total_steps == 0 => progress.phase.to_string(),
        JobState::Running => format!("{} {}/{}", progress.phase, progress.step, progress.total_steps),
        JobState::Queued if job.run_at > now => format!("again at {}", utc::seconds(job.run_at)),
        JobState::Queued => fleet.hindrance(job).unwrap_or_else(|| {
            job.checkpoint.as_ref().map_or_else(String::new, |at| format!("goes on at step {}", at.step))
        }),
        JobState::Completed if job.result.is_none() => "video expired".to_owned(),
        JobState::Completed => String::new(),
        JobState::Failed | JobState::Cancelled => job.error.as_ref().map_or_else(String::new, code),
    }
}

fn code(error: &JobError) -> String {
    error.code.to_string()
}

fn moment(moment: Option<Micros>) -> Option<String> {
    moment.map(utc::rfc3339)
}
