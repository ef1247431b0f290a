//! How an attempt ends.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::blob::BlobKey;
use crate::preview::Preview;
use crate::state::{JobEvent, UnknownName};

/// Why a job ended without a result: the `error.code` that clients see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// The engine could not make the video.
    GenerationFailed,
    /// Its workers were lost, as often as attempts are allowed.
    WorkerLost,
    /// No worker began it in time.
    StartDeadlineExceeded,
    /// Somebody cancelled it.
    Cancelled,
    /// An input could not be read.
    InputFetchFailed,
    /// Its content is not allowed.
    ModerationBlocked,
    /// The result could not be stored.
    StorageFailed,
    /// A fault of the service itself.
    InternalError,
}

impl FailureCode {
    /// Every code.
    pub const ALL: [Self; 8] = [
        Self::GenerationFailed,
        Self::WorkerLost,
        Self::StartDeadlineExceeded,
        Self::Cancelled,
        Self::InputFetchFailed,
        Self::ModerationBlocked,
        Self::StorageFailed,
        Self::InternalError,
    ];

    /// Returns the name on the wire and in stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GenerationFailed => "generation_failed",
            Self::WorkerLost => "worker_lost",
            Self::StartDeadlineExceeded => "start_deadline_exceeded",
            Self::Cancelled => "cancelled",
            Self::InputFetchFailed => "input_fetch_failed",
            Self::ModerationBlocked => "moderation_blocked",
            Self::StorageFailed => "storage_failed",
            Self::InternalError => "internal_error",
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FailureCode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|code| code.as_str() == text).ok_or_else(|| UnknownName {
            kind: "failure code",
            text: text.to_owned(),
            expected: "generation_failed, worker_lost, start_deadline_exceeded, cancelled, input_fetch_failed, \
                       moderation_blocked, storage_failed, internal_error",
        })
    }
}

/// The error of a job: its code and a sentence for the person who asked.
///
/// The message reaches the client, so it holds no path, no address and no chain of causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct JobError {
    /// What kind of failure it was.
    pub code: FailureCode,
    /// What happened, for people.
    pub message: String,
}

impl JobError {
    /// Makes an error.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns the error of a cancelled job.
    pub fn cancelled() -> Self {
        Self::new(FailureCode::Cancelled, "the job was cancelled")
    }

    /// Returns what ending with this error does to the job's state.
    pub const fn event(&self) -> JobEvent {
        match self.code {
            FailureCode::Cancelled => JobEvent::Cancel,
            _ => JobEvent::Fail,
        }
    }
}

/// What an error means for its job; decided once, where the error is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorClass {
    /// Another attempt may work, not before `after` where that is known, else after the usual backoff.
    Retryable {
        /// How long to wait at least.
        after: Option<Duration>,
    },
    /// Another attempt would fail as well.
    Fatal {
        /// What the client is told.
        code: FailureCode,
    },
    /// Nothing was wrong with the job: its worker was told to stop.
    Interrupted,
    /// Nothing was wrong with the job: its worker had claimed it before it was free for it.
    Premature,
    /// Nothing was wrong with the job: its worker lacks what every job needs, such as room on its disk.
    Unwell,
}

/// An object that a finished job names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultObject {
    /// Where it lies: always [`Lease::result_key`](crate::Lease::result_key) of the claim that made it.
    pub key: BlobKey,
    /// Its length.
    pub size_bytes: u64,
    /// The SHA-256 of its bytes, as 64 lower-case hex digits.
    pub sha256: String,
}

/// What a finished run reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunReport {
    /// Seconds from the begin of the run to its stored result.
    pub inference_s: f64,
    /// Seconds per stage.
    pub stage_durations_s: BTreeMap<String, f64>,
    /// The most memory that the process held, in bytes.
    pub peak_memory_bytes: u64,
}

/// How an attempt ends for good.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The result is stored under the claim's own key.
    Completed {
        /// The stored file.
        object: ResultObject,
        /// The pictures of it that were made and stored, at most one of a kind.
        previews: Vec<Preview>,
        /// Timings and memory of the run.
        report: RunReport,
    },
    /// The job cannot be done.
    Failed(JobError),
    /// The worker has seen the cancel and stopped.
    Cancelled,
}

impl Outcome {
    /// Returns what this outcome does to the job's state.
    pub const fn event(&self) -> JobEvent {
        match self {
            Self::Completed { .. } => JobEvent::Complete,
            Self::Failed(error) => error.event(),
            Self::Cancelled => JobEvent::Cancel,
        }
    }
}

/// Why a worker gives a job back unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandBack {
    /// The worker stops; the job is not to blame, so its attempt does not count.
    Drained,
    /// The worker had claimed the job ahead and is not free for it in time, as another may be. It has not begun, and its
    /// attempt does not count.
    Returned,
    /// The worker lacks what every job needs, such as room on its disk; the job is not to blame, so its attempt does not
    /// count, unless that has come to pass [too often](crate::tally::MAX_SPARED).
    Unwell {
        /// How long the job waits, for another worker or for this one to recover.
        after: Duration,
        /// What went wrong, for the attempt's record.
        error: JobError,
    },
    /// The attempt failed, another may work.
    Retry {
        /// How long to wait at least; none for the usual backoff.
        after: Option<Duration>,
        /// What went wrong: the job's error if this was its last attempt.
        error: JobError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back_by_name() {
        for code in FailureCode::ALL {
            assert_eq!(code.as_str().parse::<FailureCode>().unwrap(), code);
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn a_report_of_an_older_program_still_reads() {
        let report: RunReport = serde_json::from_str(r#"{"inference_s": 1.5}"#).unwrap();
        assert_eq!(report, RunReport { inference_s: 1.5, ..RunReport::default() });
    }
}
