//! `clapboard jobs show`.

use clapboard_jobs::{Attempt, Job, Micros};
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::{JobArgs, describe};
use crate::output;
use crate::table::Table;
use crate::utc;

/// Show a job: where it stands, where it can be gone on with, why it failed, and every attempt
///
/// Its prompt is not shown.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: JobArgs,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let (store, job) = args.which.find().await?;
    let attempts = store.attempts(&job.tenant, job.id).await?;
    let position = store.queue_position(&job.tenant, job.id).await?;
    if args.which.json {
        let mut object = describe::job(&job);
        object["queue_position"] = json!(position);
        object["attempts"] = attempts.iter().map(describe::attempt).collect::<Vec<Value>>().into();
        output::json(&object);
        return Ok(());
    }
    let (now, fleet) = (store.now().await?, Fleet::of(&*store).await?);
    for (name, text) in facts(&job, position, now, &fleet) {
        output::line(format_args!("{name:<12} {text}"));
    }
    output::line(format_args!("\n{}", table(&attempts)));
    Ok(())
}

/// What is known of a job, each fact with its name.
fn facts(job: &Job, position: Option<u64>, now: Micros, fleet: &Fleet) -> Vec<(&'static str, String)> {
    let note = describe::note(job, now, fleet);
    let state = if note.is_empty() { job.state.to_string() } else { format!("{} ({note})", job.state) };
    let mut facts = vec![
        ("job", job.id.to_string()),
        ("tenant", job.tenant.to_string()),
        ("model", job.model.clone()),
        ("state", state),
        ("done", format!("{}%", job.progress.percent)),
        ("attempt", format!("{} of {}", job.attempt, job.max_attempts)),
        ("queue", format!("{} ({} rows, {:.3e} TFLOP)", job.queue(), job.rows, job.cost_tflop)),
        ("priority", job.priority.to_string()),
        ("rank", format!("{:.6e}", job.rank)),
    ];
    if let Ok(spec) = job.spec.decode() {
        let shape =
            format!("{} {}, {} frames, {} forwards", spec.task, spec.canvas, spec.num_frames.get(), spec.forwards());
        facts.push(("request", format!("{shape}, seed {}", spec.seed)));
        facts.extend(spec.inputs.iter().map(|input| ("input", describe::input(input))));
    }
    facts.extend(position.map(|position| ("position", position.to_string())));
    facts.extend(job.worker.map(|worker| ("worker", worker.to_string())));
    let moments = [
        ("created", Some(job.created_at)),
        ("start by", job.start_by),
        ("begun", job.begun_at),
        ("lease until", job.lease_expires_at),
        ("cancel asked", job.cancel_requested_at),
        ("finished", job.finished_at),
        ("kept until", job.result_expires_at),
    ];
    facts.extend(moments.into_iter().filter_map(|(name, moment)| Some((name, utc::seconds(moment?)))));
    if let Some(at) = &job.checkpoint {
        facts.push(("checkpoint", format!("step {}, {} bytes, {}", at.step, at.size_bytes, at.key)));
    }
    if let Some(result) = &job.result {
        facts.push(("result", format!("{} bytes, {}", result.size_bytes, result.key)));
        facts.push(("sha256", result.sha256.clone()));
    }
    facts.extend(job.error.as_ref().map(|error| ("error", error.to_string())));
    facts
}

fn table(attempts: &[Attempt]) -> Table<7> {
    let mut table = Table::new(["FENCE", "ATTEMPT", "WORKER", "CLAIMED", "ENDED", "END", "ERROR"]);
    for attempt in attempts {
        let end = match (attempt.ended, attempt.begun_at) {
            (Some((_, end)), _) => end.to_string(),
            (None, Some(_)) => "running".to_owned(),
            (None, None) => "claimed".to_owned(),
        };
        table.add([
            attempt.fence.to_string(),
            attempt.number.to_string(),
            attempt.worker.to_string(),
            utc::seconds(attempt.claimed_at),
            attempt.ended.map_or_else(String::new, |(at, _)| utc::seconds(at)),
            end,
            attempt.error.as_ref().map_or_else(String::new, ToString::to_string),
        ]);
    }
    table
}
