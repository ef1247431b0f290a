//! What metrics and traces tell of how an attempt has ended.

use std::time::Duration;

use clapboard_jobs::{ErrorClass, JobState};
use clapboard_telemetry::metrics::names;
use clapboard_telemetry::traces;

use crate::attempt::Made;
use crate::attempt::classify::AttemptError;
use crate::attempt::ending::Written;
use crate::progress::watch::{StopCause, Watch};

/// What an attempt came to, before it was written down.
pub(crate) struct Account {
    /// How it would be counted if its claim holds.
    outcome: &'static str,
    /// The code of the error that its job has if it ends with it.
    reason: &'static str,
    completed: bool,
}

impl Account {
    /// Looks at what was made.
    pub(crate) fn of(made: &Result<Made, AttemptError>, cause: Option<StopCause>) -> Self {
        let error = match made {
            Ok(_) => return Self { outcome: "ok", reason: "none", completed: true },
            Err(error) => error,
        };
        let outcome = match (error, cause) {
            (AttemptError::Wedged(_), _) => "stalled",
            (_, Some(StopCause::LeaseLost | StopCause::Fenced)) => "lost",
            (_, Some(StopCause::Cancelled)) => "cancelled",
            (_, Some(StopCause::Drain)) => "drained",
            (_, None) => match error.class() {
                ErrorClass::Retryable { .. } => "retried",
                ErrorClass::Fatal { .. } => "failed",
                ErrorClass::Interrupted | ErrorClass::Premature => "drained",
                ErrorClass::Unwell => "unwell",
            },
        };
        Self { outcome, reason: error.job_error().code.as_str(), completed: false }
    }

    /// Counts the attempt, and its job if that has ended with it, after `took`.
    pub(crate) fn settle(&self, written: Written, watch: &Watch, took: Duration) {
        let partition = watch.partition();
        let outcome = match written {
            Written::Unknown => "unknown",
            Written::Lost if self.completed => "stale_rejected",
            Written::State(JobState::Cancelled) => "cancelled",
            Written::State(JobState::Failed) if self.outcome == "retried" => "failed",
            Written::State(_) | Written::Lost => self.outcome,
        };
        names::JOB_ATTEMPTS.increment([partition, outcome]);
        if outcome == "stale_rejected" {
            names::STALE_COMPLETIONS_REJECTED.increment([]);
        }
        match written {
            Written::State(JobState::Completed) => {
                names::JOBS_FINISHED.increment([partition, "completed", "none"]);
                names::JOB_RUN_SECONDS.record(took, [partition]);
            }
            Written::State(JobState::Failed) => names::JOBS_FINISHED.increment([partition, "failed", self.reason]),
            Written::State(JobState::Cancelled) => {
                names::JOBS_FINISHED.increment([partition, "cancelled", "cancelled"]);
            }
            _ => {}
        }
        if let Some(cancelled_at) = watch.cancelled_at() {
            names::CANCEL_LATENCY_SECONDS.record(cancelled_at.elapsed(), []);
        }
        if outcome != "ok" {
            traces::fail(watch.span(), &outcome);
        }
    }
}
