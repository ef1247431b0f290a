//! Files that are there for as long as their request.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tempfile::{Builder, NamedTempFile, TempDir, TempPath};

/// How the names of the files begin; the rest is random. Clients have no say in them.
const PREFIX: &str = "clapboard-input-";
/// How many bytes are collected before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// Where the files of requests lie until they are stored.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    folder: PathBuf,
}

impl Spool {
    /// Uses a folder, which is made when it is first needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Begins a file that only this user can read. It is made once there is something to write, and removed with what is
    /// returned.
    pub(crate) fn begin(&self) -> SpoolWriter {
        SpoolWriter { spool: self.clone(), file: None, unwritten: Vec::new(), size_bytes: 0, digest: Sha256::new() }
    }

    fn file(&self) -> io::Result<NamedTempFile> {
        self.make(|ours, folder| ours.tempfile_in(folder))
    }

    /// Makes a folder for whatever looks into a file. It is removed with what is returned. Blocks.
    pub(super) fn scratch(&self) -> io::Result<TempDir> {
        self.make(|ours, folder| ours.tempdir_in(folder))
    }

    /// Makes something under a name of ours, and the folder before it, if need be.
    fn make<T>(&self, make: impl Fn(&Builder<'_, '_>, &Path) -> io::Result<T>) -> io::Result<T> {
        let mut ours = Builder::new();
        ours.prefix(PREFIX);
        match make(&ours, &self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&self.folder)?;
                make(&ours, &self.folder)
            }
            made => made,
        }
    }
}

/// A file that is being written, and removed if it is not finished.
#[derive(Debug)]
pub(crate) struct SpoolWriter {
    spool: Spool,
    /// None before anything was written.
    file: Option<NamedTempFile>,
    unwritten: Vec<u8>,
    size_bytes: u64,
    digest: Sha256,
}

impl SpoolWriter {
    /// Returns how many bytes were written.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Adds bytes, without holding up other requests.
    ///
    /// It takes the file with it: whoever gives up in between has not left it behind.
    pub(crate) async fn write(mut self, chunk: Bytes) -> io::Result<Self> {
        self.size_bytes += chunk.len() as u64;
        self.unwritten.extend_from_slice(&chunk);
        if self.unwritten.len() < WRITE_BYTES {
            return Ok(self);
        }
        blocking(move || {
            self.flush()?;
            Ok(self)
        })
        .await
    }

    /// Adds bytes. Blocks.
    pub(super) fn write_blocking(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.size_bytes += chunk.len() as u64;
        self.unwritten.extend_from_slice(chunk);
        if self.unwritten.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    /// Ends the file, without holding up other requests.
    pub(crate) async fn finish(self) -> io::Result<Spooled> {
        blocking(move || self.finish_blocking()).await
    }

    /// Ends the file. Blocks.
    pub(super) fn finish_blocking(mut self) -> io::Result<Spooled> {
        self.flush()?;
        let Self { spool, file, size_bytes, digest, .. } = self;
        let file = file.map_or_else(|| spool.file(), Ok)?;
        let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Spooled { path: file.into_temp_path(), size_bytes, sha256 })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.digest.update(&self.unwritten);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.spool.file()?),
        };
        file.write_all(&self.unwritten)?;
        self.unwritten.clear();
        Ok(())
    }
}

/// Runs a step that waits for the disk where that holds up nobody.
async fn blocking<T: Send + 'static>(step: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(step).await.map_err(io::Error::other)?
}

/// A whole file, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Spooled {
    path: TempPath,
    /// Its length.
    pub(crate) size_bytes: u64,
    /// The SHA-256 of its bytes, as 64 lower-case hex digits.
    pub(crate) sha256: String,
}

impl Spooled {
    /// Returns where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[tokio::test]
    async fn a_file_holds_what_was_written_and_goes_with_its_handle() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path().join("made/when/needed"));
        let mut writer = spool.begin();
        assert!(!spool.folder.exists());
        let bytes: Vec<u8> = (0..600_000u32).map(|at| (at % 251) as u8).collect();
        for chunk in bytes.chunks(70_000) {
            writer = writer.write(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        let file = writer.finish().await.unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), bytes);
        assert_eq!((file.size_bytes, file.sha256.len()), (600_000, 64));
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(file.sha256, digest);
        drop(file);
        assert_eq!(names(&spool.folder), 0);
    }

    #[tokio::test]
    async fn a_file_that_is_given_up_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path().to_owned());
        let writer = spool.begin().write(Bytes::from(vec![1; 2 * WRITE_BYTES])).await.unwrap();
        assert_eq!(names(folder.path()), 1);
        drop(writer);
        assert_eq!(names(folder.path()), 0);
    }

    #[tokio::test]
    async fn nothing_is_made_for_a_file_that_is_given_up_before_it_holds_anything() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path().to_owned());
        let writer = spool.begin().write(Bytes::from_static(b"little")).await.unwrap();
        assert_eq!(names(folder.path()), 0);
        drop(writer);
        assert_eq!(names(folder.path()), 0);
        let empty = spool.begin().finish().await.unwrap();
        assert_eq!((empty.size_bytes, names(folder.path())), (0, 1));
    }
}
