//! Whether the file at a path still is the one that was opened.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The open file is no longer where it was: what is written to it would be lost with this process.
#[derive(Debug, thiserror::Error)]
#[error("{} was removed or replaced while it was open", path.display())]
pub(crate) struct Unlinked {
    path: PathBuf,
    /// What the system said, where the file could not be looked at.
    source: Option<io::Error>,
}

/// A file as the system tells it from others.
#[derive(Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Identity {
    /// Takes note of the file at `path`.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Looks whether the file is still there: one call of the system's, which a local disk answers from memory.
    pub(crate) fn check(&self) -> Result<(), Unlinked> {
        let source = match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (self.device, self.inode) => return Ok(()),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        Err(Unlinked { path: self.path.clone(), source })
    }
}
