//! The history of a job: one entry per claim.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{Fence, WorkerId};
use crate::outcome::JobError;
use crate::state::UnknownName;
use crate::time::Micros;

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// Its result became the job's.
    Completed,
    /// It ended the job with an error.
    Failed,
    /// It failed and the job may be tried again; [`tally`](crate::tally) says when it counts.
    Retried,
    /// Its worker drained and handed the job back uncounted.
    Drained,
    /// Its worker had claimed the job ahead, was not free for it in time, and handed it back uncounted.
    Returned,
    /// The job was cancelled under it.
    Cancelled,
    /// Its worker was not heard of until the lease had ended, or is known to be dead.
    LeaseLost,
}

impl AttemptEnd {
    /// Every end.
    pub const ALL: [Self; 7] =
        [Self::Completed, Self::Failed, Self::Retried, Self::Drained, Self::Returned, Self::Cancelled, Self::LeaseLost];

    /// Returns the name that stores keep.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Retried => "retried",
            Self::Drained => "drained",
            Self::Returned => "returned",
            Self::Cancelled => "cancelled",
            Self::LeaseLost => "lease_lost",
        }
    }
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AttemptEnd {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|end| end.as_str() == text).ok_or_else(|| UnknownName {
            kind: "attempt end",
            text: text.to_owned(),
            expected: "completed, failed, retried, drained, returned, cancelled, lease_lost",
        })
    }
}

/// One claim of a job and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The claim's fence: unique within the job.
    pub fence: Fence,
    /// Which attempt it was, from 1; a claim after one that does not count has the number of the one before.
    pub number: u32,
    /// Who claimed.
    pub worker: WorkerId,
    /// When it was claimed.
    pub claimed_at: Micros,
    /// When the worker really began, if it did.
    pub begun_at: Option<Micros>,
    /// When and how it ended; none while it runs.
    pub ended: Option<(Micros, AttemptEnd)>,
    /// What went wrong, where something did.
    pub error: Option<JobError>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_back_by_name() {
        for end in AttemptEnd::ALL {
            assert_eq!(end.as_str().parse::<AttemptEnd>().unwrap(), end);
        }
        assert!("lost".parse::<AttemptEnd>().is_err());
    }
}
