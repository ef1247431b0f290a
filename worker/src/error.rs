//! Why a worker's run ended by itself.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clapboard_h3::Partition;
use clapboard_jobs::{BlobError, JobId, Phase};

use crate::options::InvalidOptions;

/// Why a worker could not start, or cannot go on: its process has to end, and be started anew.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] InvalidOptions),
    /// The scratch folder cannot be used.
    #[error("could not {doing} {}", path.display())]
    Scratch {
        /// What was tried, as a verb.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The media store is away, or does not let the worker put something or remove it.
    #[error("the media store did not take an object and give it up again")]
    MediaStore(#[source] BlobError),
    /// The heartbeat's thread could not be started.
    #[error("could not start the heartbeat")]
    Heartbeat(#[source] io::Error),
    /// The examination of a machine that could run no job hangs, as a disk may; its thread cannot be taken back.
    #[error("an examination of this machine did not end within {limit:?}")]
    Hung {
        /// The stall limit of the phase that prepares a job.
        limit: Duration,
    },
    /// The weights of a partition are others than those that the engine had loaded first, so what it says of its results is
    /// no longer true. A process that starts anew takes them as they are.
    #[error(
        "the weights of partition {partition} have changed since this process loaded them first: it has to start anew"
    )]
    Changed {
        /// The partition.
        partition: Partition,
    },
    /// A fault has taken the GPU from this process for good; a process that starts anew can use it, or says what is wrong
    /// with it. The job has been handed back.
    #[error("the GPU was lost in a generation of job {job}: this process has to start anew")]
    DeviceLost {
        /// The job it was at.
        job: JobId,
    },
    /// The engine, an upload, a decoder or the scratch disk stopped moving; its thread cannot be taken back. The job has been
    /// handed back.
    #[error("no progress was made for {limit:?} in {phase} of job {job}")]
    Wedged {
        /// The job it was at.
        job: JobId,
        /// The phase it was in.
        phase: Phase,
        /// The phase's stall limit.
        limit: Duration,
    },
}
