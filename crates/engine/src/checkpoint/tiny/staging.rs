//! A folder that appears whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::Error;

/// A folder being filled beside its final place. Dropping it without [`publish`](Self::publish) removes everything.
pub(super) struct Staging {
    folder: PathBuf,
    target: PathBuf,
    published: bool,
}

impl Staging {
    /// Begins a folder that is to become `target`, which must be absent or an empty directory.
    pub(super) fn begin(target: &Path) -> Result<Self, Error> {
        let target = match fs::canonicalize(target) {
            Ok(existing) => {
                if !existing.is_dir() {
                    return Err(Error::NotADirectory(existing));
                }
                let mut entries = fs::read_dir(&existing).map_err(Error::io("list", &existing))?;
                if entries.next().is_some() {
                    return Err(Error::NotEmpty(existing));
                }
                existing
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => target.to_owned(),
            Err(source) => return Err(Error::Io { doing: "open", path: target.to_owned(), source }),
        };
        let Some(name) = target.file_name() else { return Err(Error::NotADirectory(target)) };
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        fs::create_dir_all(&parent).map_err(Error::io("create", &parent))?;
        let mut attempt = 0_u32;
        loop {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".partial-{}-{attempt}", std::process::id()));
            let folder = parent.join(hidden);
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(Self { folder, target, published: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => attempt += 1,
                Err(source) => return Err(Error::Io { doing: "create", path: folder, source }),
            }
        }
    }

    /// Returns a file's path in the unfinished folder, whose parents it creates.
    pub(super) fn place(&self, relative: &Path) -> Result<PathBuf, Error> {
        let path = self.folder.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
        }
        Ok(path)
    }

    /// Writes one file.
    pub(super) fn write(&self, relative: &Path, bytes: &[u8]) -> Result<(), Error> {
        let path = self.place(relative)?;
        fs::write(&path, bytes).map_err(Error::io("write", &path))
    }

    /// Makes a file equal to one that is there already: as a hard link, or as a copy where links are not possible.
    pub(super) fn share(&self, existing: &Path, relative: &Path) -> Result<(), Error> {
        let path = self.place(relative)?;
        if fs::hard_link(existing, &path).is_ok() {
            return Ok(());
        }
        fs::copy(existing, &path).map(drop).map_err(Error::io("write", &path))
    }

    /// Moves the folder to its final place in one step.
    pub(super) fn publish(mut self) -> Result<(), Error> {
        fs::rename(&self.folder, &self.target).map_err(Error::io("create", &self.target))?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "unfinished folder could not be removed");
        }
    }
}
