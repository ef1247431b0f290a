//! The states of a job and the one function that says which follows which.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a job stands.
///
/// ```text
///            Create                Claim                        Complete
///  (client) ───────▶ Queued ─────────────────────▶ Running ───────────────▶ Completed
///                    │ │ ▲                         │ │ │ │
///                    │ │ └──────── Requeue ────────┘ │ │ └──── Fail ──────▶ Failed
///                    │ │  (lease lost, drain, retry) │ │                      ▲
///                    │ └──────────── Fail ───────────┼─┼──────────────────────┘
///                    │                               │ │
///                    └─────────── Cancel ────────────┼─┴──── Cancel ──────▶ Cancelled
///
///  An operator's Retry leads from Failed back to Queued.
/// ```
///
/// The last three are ends: nothing that happens by itself leads out of them. The store's tables carry the same states in a check
/// constraint and the same arrows in a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for a worker, or for its next attempt.
    Queued,
    /// Somebody holds its lease.
    Running,
    /// Its result is stored and its row names it.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEvent {
    /// A worker takes the job.
    Claim,
    /// The job goes back to wait: its lease was lost, its worker drains, or it may be tried again.
    Requeue,
    /// Its result is stored.
    Complete,
    /// It cannot be done, or its attempts are used up, or its time to start has passed.
    Fail,
    /// Its cancel takes effect.
    Cancel,
    /// An operator lets it run again after it has failed.
    Retry,
}

/// Says that an event cannot happen to a job in that state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {from} job cannot {event}")]
pub struct IllegalTransition {
    /// The state the job is in.
    pub from: JobState,
    /// What should have happened to it.
    pub event: JobEvent,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// Returns the state that follows when `event` happens.
    ///
    /// Errors: [`IllegalTransition`] for every pair that the diagram does not draw.
    pub const fn on(self, event: JobEvent) -> Result<Self, IllegalTransition> {
        match (self, event) {
            (Self::Queued, JobEvent::Claim) => Ok(Self::Running),
            (Self::Running, JobEvent::Requeue) => Ok(Self::Queued),
            (Self::Running, JobEvent::Complete) => Ok(Self::Completed),
            (Self::Queued | Self::Running, JobEvent::Fail) => Ok(Self::Failed),
            (Self::Queued | Self::Running, JobEvent::Cancel) => Ok(Self::Cancelled),
            (Self::Failed, JobEvent::Retry) => Ok(Self::Queued),
            (from, event) => Err(IllegalTransition { from, event }),
        }
    }

    /// Tells whether the job has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns the name that stores keep.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns what a client is told, where `begun` says that the worker has really begun.
    pub const fn status(self, begun: bool) -> Status {
        match self {
            Self::Queued => Status::Queued,
            Self::Running if begun => Status::InProgress,
            Self::Running => Status::Queued,
            Self::Completed => Status::Completed,
            Self::Failed | Self::Cancelled => Status::Failed,
        }
    }
}

impl JobEvent {
    /// Every event.
    pub const ALL: [Self; 6] = [Self::Claim, Self::Requeue, Self::Complete, Self::Fail, Self::Cancel, Self::Retry];
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for JobEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claim => "be claimed",
            Self::Requeue => "be queued again",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Cancel => "be cancelled",
            Self::Retry => "be retried",
        })
    }
}

/// Says that a text names no state or no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} {text:?}, expected one of {expected}")]
pub struct UnknownName {
    /// What kind of name it should have been.
    pub kind: &'static str,
    /// What was given.
    pub text: String,
    /// The names there are.
    pub expected: &'static str,
}

impl FromStr for JobState {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| UnknownName {
            kind: "job state",
            text: text.to_owned(),
            expected: "queued, running, completed, failed, cancelled",
        })
    }
}

/// What a client is told about a job: the four words of the OpenAI videos API.
///
/// A job that a worker has claimed ahead is still `queued` until the worker begins it, and a cancelled job is `failed`
/// with the code `cancelled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waits.
    Queued,
    /// A worker has begun it.
    InProgress,
    /// Its result can be fetched.
    Completed,
    /// It ended without a result.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Queued, Self::InProgress, Self::Completed, Self::Failed];

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownName {
            kind: "status",
            text: text.to_owned(),
            expected: "queued, in_progress, completed, failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrows_are_those_of_the_diagram_and_no_others() {
        use JobState::*;
        let arrows: Vec<(JobState, JobState)> = JobState::ALL
            .into_iter()
            .flat_map(|from| JobEvent::ALL.into_iter().filter_map(move |event| Some((from, from.on(event).ok()?))))
            .collect();
        let drawn = [
            (Queued, Running),
            (Queued, Failed),
            (Queued, Cancelled),
            (Running, Queued),
            (Running, Completed),
            (Running, Failed),
            (Running, Cancelled),
            (Failed, Queued),
        ];
        assert_eq!(arrows.len(), drawn.len());
        assert!(drawn.iter().all(|arrow| arrows.contains(arrow)), "{arrows:?}");
    }

    #[test]
    fn only_an_operator_leads_out_of_an_end_and_only_of_a_failure() {
        for state in JobState::ALL.into_iter().filter(|state| state.is_final()) {
            for event in JobEvent::ALL {
                if (state, event) == (JobState::Failed, JobEvent::Retry) {
                    continue;
                }
                assert_eq!(state.on(event), Err(IllegalTransition { from: state, event }));
            }
        }
        let refused = JobState::Completed.on(JobEvent::Claim).unwrap_err();
        assert_eq!(refused.to_string(), "a completed job cannot be claimed");
    }

    #[test]
    fn a_claimed_job_is_queued_on_the_wire_until_it_has_begun() {
        assert_eq!(JobState::Running.status(false), Status::Queued);
        assert_eq!(JobState::Running.status(true), Status::InProgress);
        assert_eq!(JobState::Cancelled.status(true), Status::Failed);
    }

    #[test]
    fn names_are_read_back_and_others_are_listed() {
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse::<JobState>().unwrap(), state);
        }
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
        let refused = "done".parse::<Status>().unwrap_err().to_string();
        assert_eq!(refused, "unknown status \"done\", expected one of queued, in_progress, completed, failed");
    }
}
