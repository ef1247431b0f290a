//! A directory that one process uses at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Another process lives in it.
    #[error("the {kind} directory {} is in use by another clapboard (process {process})", path.display())]
    InUse { kind: &'static str, path: PathBuf, process: String },
    /// It is not there and cannot be made.
    #[error("could not create the {kind} directory {}", path.display())]
    Create { kind: &'static str, path: PathBuf, source: io::Error },
    /// The operating system refused.
    #[error("could not {doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// A directory that this process alone uses, for as long as this value lives.
///
/// The lock is the kernel's, on the file `lock`: it ends with the process, however that ends, so that a killed service
/// never has to be cleaned up after.
#[derive(Debug)]
pub(crate) struct LockedDir {
    path: PathBuf,
    _lock: File,
}

impl LockedDir {
    /// Makes the directory where it is missing, and locks it. `kind` says in messages what it is: `data` or `scratch`.
    ///
    /// Errors: [`Error::InUse`] names the process that holds it; [`Error::Create`], [`Error::Io`].
    pub(crate) fn open(kind: &'static str, path: &Path) -> Result<Self, Error> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { doing, path, source }
        };
        fs::create_dir_all(path).map_err(|source| Error::Create { kind, path: path.to_owned(), source })?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path);
        let mut lock = lock.map_err(failed("open the lock file", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                // What the holder wrote is only for the message.
                let _ = lock.read_to_string(&mut process);
                let process = process.trim();
                let process = if process.is_empty() { "unknown" } else { process }.to_owned();
                return Err(Error::InUse { kind, path: path.to_owned(), process });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Io { doing: "lock", path: lock_path, source });
            }
        }
        write_process_id(&mut lock).map_err(failed("write to the lock file", &lock_path))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn write_process_id(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_per_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/data");
        let first = LockedDir::open("data", &path).unwrap();
        let message = LockedDir::open("data", &path).unwrap_err().to_string();
        let expected = format!(
            "the data directory {} is in use by another clapboard (process {})",
            path.display(),
            std::process::id()
        );
        assert_eq!(message, expected);
        drop(first);
        LockedDir::open("data", &path).unwrap();
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        for kind in ["data", "scratch"] {
            let message = LockedDir::open(kind, &path).unwrap_err().to_string();
            assert_eq!(message, format!("could not create the {kind} directory {}", path.display()));
        }
    }
}
