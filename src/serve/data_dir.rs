//! The directory that holds all of a standalone service: jobs, media, unfinished files, and the lock.

use std::path::{Path, PathBuf};

use crate::locked_dir::{Error, LockedDir};

/// Returns where the jobs of a data directory are.
pub(crate) fn jobs_of(data: &Path) -> PathBuf {
    data.join("jobs.db")
}

/// The data directory of this process.
#[derive(Debug)]
pub(super) struct DataDir(LockedDir);

impl DataDir {
    /// Makes the directory where it is missing, and locks it.
    ///
    /// Errors: those of [`LockedDir::open`].
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        LockedDir::open("data", path).map(Self)
    }

    /// The job store's file.
    pub(super) fn jobs(&self) -> PathBuf {
        jobs_of(self.0.path())
    }

    /// The folder of finished media.
    pub(super) fn media(&self) -> PathBuf {
        self.0.path().join("media")
    }

    /// The folder of what is being uploaded.
    pub(super) fn spool(&self) -> PathBuf {
        self.0.path().join("spool")
    }

    /// The folder of unfinished files.
    pub(super) fn scratch(&self) -> PathBuf {
        self.0.path().join("scratch")
    }
}
