//! What is to be told when a job ends: written in the transaction that ends it, delivered later.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::id::{JobId, Tenant};
use crate::state::{JobState, UnknownName};
use crate::time::Micros;

/// Names an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub Uuid);

impl EndpointId {
    /// Makes a new id.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for EndpointId {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a tenant wants to hear of its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name.
    pub id: EndpointId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where to send to.
    pub url: String,
}

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

/// One notice for one endpoint: there is exactly one for each end of a job and each endpoint that its tenant had then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The same at every try, so that a receiver can tell repeats.
    pub id: Uuid,
    /// For whom.
    pub endpoint: EndpointId,
    /// About which job.
    pub job: JobId,
    /// What is told.
    pub notice: Notice,
    /// When the job ended.
    pub created_at: Micros,
}
