//! The workers as operators see them, and what operators may ask of them.

use std::fmt;
use std::str::FromStr;

use clapboard_h3::Partition;

use crate::id::WorkerId;
use crate::state::UnknownName;
use crate::time::Micros;

/// What a worker is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkerState {
    /// It waits for a job.
    Idle,
    /// It runs one.
    Busy,
    /// It claims nothing: its machine lacks what every job needs.
    Unwell,
    /// It claims nothing any more and ends soon.
    Draining,
}

impl WorkerState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Busy, Self::Unwell, Self::Draining];

    /// Returns the name that stores keep.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Unwell => "unwell",
            Self::Draining => "draining",
        }
    }
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WorkerState {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| UnknownName {
            kind: "worker state",
            text: text.to_owned(),
            expected: "idle, busy, unwell, draining",
        })
    }
}

/// What a worker says about itself every few seconds, apart from its leases: nothing that must be right depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCard {
    /// This run of its process.
    pub id: WorkerId,
    /// The machine's name.
    pub host: String,
    /// The program's version.
    pub version: String,
    /// The weights it has loaded; not empty.
    pub partitions: Vec<Partition>,
    /// The spec versions it can decode; not empty.
    pub spec_versions: Vec<u32>,
    /// The longest packed sequence it can hold; none for any.
    pub max_rows: Option<u64>,
    /// What it is doing.
    pub state: WorkerState,
}

/// A worker as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRecord {
    /// What it said last.
    pub card: WorkerCard,
    /// When it was first heard of.
    pub started_at: Micros,
    /// When it was last heard of.
    pub seen_at: Micros,
    /// Somebody wants it to drain.
    pub drain_requested: bool,
}

/// What a worker is asked to do, in answer to its card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Orders {
    /// Drain and end.
    pub drain: bool,
}
