//! How much waits, for metrics.

use clapboard_h3::Partition;

use crate::time::Micros;

/// How far anything is counted: what is shown of a longer backlog costs no more than this.
pub const MOST_COUNTED: u32 = 10_000;

/// Things that wait, counted no further than [`MOST_COUNTED`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub count: u64,
    /// When the oldest of those that were counted was made; none where nothing waits.
    pub oldest: Option<Micros>,
}

/// The jobs of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// The partition.
    pub partition: Partition,
    /// Jobs that wait, of the smallest capacity class first and in their order, so that the oldest of a backlog that is longer
    /// than what is counted is about the oldest of all.
    pub queued: Waiting,
    /// How many jobs are claimed and have not ended.
    pub running: u64,
}

/// How much waits at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// The moment, by the store's clock.
    pub at: Micros,
    /// The jobs of each partition.
    pub depths: Vec<Depth>,
    /// The deliveries that nobody has got yet.
    pub deliveries: Waiting,
}
