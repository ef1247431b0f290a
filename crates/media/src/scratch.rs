//! Files that exist only while they are being made.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// A file under a name of its own, removed when dropped unless it was [`ScratchFile::persist`]ed.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    path: PathBuf,
    kept: bool,
}

impl ScratchFile {
    /// Creates an empty file `.{name}.{random}.{extension}` in `folder`.
    ///
    /// The name is random, not a process id or a counter: an encoder may outlive a killed worker for a moment and must
    /// not share its file with the worker's successor, which in a container has the same id.
    pub(crate) fn create(folder: &Path, name: &OsString, extension: &str) -> Result<(Self, File), Error> {
        loop {
            let path = folder.join(random_name(name, extension));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((Self { path, kept: false }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", path)(error)),
            }
        }
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes the file to the disk and gives it its final name, over a file that may be there; says its size in bytes.
    pub(crate) fn persist(mut self, output: &Path) -> Result<u64, Error> {
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        file.sync_all().map_err(Error::io("flush", &self.path))?;
        let size_bytes = file.metadata().map_err(Error::io("read the size of", &self.path))?.len();
        fs::rename(&self.path, output).map_err(Error::io("rename the finished video to", output))?;
        self.kept = true;
        // The name is durable only once its folder is.
        let folder = folder_of(output);
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("flush", folder))?;
        Ok(size_bytes)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "could not remove a scratch file");
        }
    }
}

/// A folder under a name of its own, removed with all that is in it when dropped.
#[derive(Debug)]
pub(crate) struct ScratchFolder {
    path: PathBuf,
}

impl ScratchFolder {
    /// Creates an empty folder `.{name}.{random}.partial` in `folder`.
    pub(crate) fn create(folder: &Path, name: &OsString) -> Result<Self, Error> {
        loop {
            let path = folder.join(random_name(name, "partial"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", path)(error)),
            }
        }
    }

    /// Where the folder is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove a scratch folder");
        }
    }
}

/// A hidden name that nothing else has: `.{name}.{random}.{extension}`.
fn random_name(name: &OsString, extension: &str) -> OsString {
    let random = RandomState::new().hash_one(name);
    let mut file_name = OsString::from(".");
    file_name.push(name);
    file_name.push(format!(".{random:016x}.{extension}"));
    file_name
}

/// The folder that holds `path`; the current one for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_file_is_gone_and_a_persisted_one_replaces_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.mp4");
        fs::write(&output, "old").unwrap();
        let (dropped, _) = ScratchFile::create(folder.path(), &"out.mp4".into(), "partial").unwrap();
        let (kept, _) = ScratchFile::create(folder.path(), &"out.mp4".into(), "partial").unwrap();
        assert_ne!(dropped.path(), kept.path());
        fs::write(kept.path(), "newer").unwrap();
        drop(dropped);
        assert_eq!(kept.persist(&output).unwrap(), 5);
        assert_eq!(fs::read_to_string(&output).unwrap(), "newer");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
