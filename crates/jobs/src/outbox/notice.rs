//! What is told.

use std::fmt;
use std::str::FromStr;

use crate::state::{JobState, UnknownName};

/// What a delivery tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The job has its result.
    Completed,
    /// The job has ended without one: it failed or was cancelled.
    Failed,
}

impl Notice {
    /// Every notice.
    pub const ALL: [Self; 2] = [Self::Completed, Self::Failed];

    /// Returns what the end of a job in `state` is told as; none for a state that is no end.
    pub const fn of(state: JobState) -> Option<Self> {
        match state {
            JobState::Completed => Some(Self::Completed),
            JobState::Failed | JobState::Cancelled => Some(Self::Failed),
            JobState::Queued | JobState::Running => None,
        }
    }

    /// Returns the name that stores keep and receivers hear.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "video.completed",
            Self::Failed => "video.failed",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Notice {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|notice| notice.as_str() == text).ok_or_else(|| UnknownName {
            kind: "notice",
            text: text.to_owned(),
            expected: "video.completed, video.failed",
        })
    }
}
