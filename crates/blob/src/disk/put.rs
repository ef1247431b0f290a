//! Storing and removing files so that a loss of power leaves all or nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clapboard_jobs::blob::Put;
use clapboard_jobs::{BlobError, BlobKey};

use super::unavailable;
use crate::hash::{self, CopyError, Seen};

/// A file that is removed when it goes out of scope.
struct Incoming<'a>(&'a Path);

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the store is opened next.
        let _ = fs::remove_file(self.0);
    }
}

/// Copies `file` to `incoming`, links it as `target` and removes `incoming`; calls `moved` after each chunk.
pub(super) fn put(
    key: &BlobKey,
    file: &Path,
    incoming: &Path,
    target: &Path,
    objects: &Path,
    folders: &Mutex<()>,
    moved: &dyn Fn(),
) -> Result<Put, BlobError> {
    let writing = unavailable("writing an object");
    let unreadable = |source| BlobError::Source { path: file.to_owned(), source };
    let mut source = File::open(file).map_err(unreadable)?;

    let mut sink = File::create_new(incoming).map_err(&writing)?;
    let _incoming = Incoming(incoming);
    let seen = hash::copy(&mut source, &mut sink, moved).map_err(|error| match error {
        CopyError::Read(source) => unreadable(source),
        CopyError::Write(source) => writing(source),
    })?;
    sink.sync_all().map_err(&writing)?;

    let created = link(incoming, target, folders).map_err(&writing)?;
    if !created {
        let there = read_back(target, moved).map_err(&writing)?;
        if there.as_ref() != Some(&seen) {
            return Err(BlobError::Conflict { key: key.clone() });
        }
    }
    // Also where the object was there already: the put that made it may have been cut off before this.
    sync_folders(target, objects).map_err(&writing)?;
    Ok(Put { created, size_bytes: seen.size_bytes, sha256: seen.sha256.to_string() })
}

/// Links `incoming` as `target`; false when something is there already.
///
/// Holds `folders`, so that no delete removes a folder as empty between its making and the link in it.
fn link(incoming: &Path, target: &Path, folders: &Mutex<()>) -> io::Result<bool> {
    let _held = hold(folders);
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::hard_link(incoming, target) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// A panic elsewhere leaves nothing half done that the lock guards: the folders are what they are.
fn hold(folders: &Mutex<()>) -> MutexGuard<'_, ()> {
    folders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns length and hash of the object that is there; none when it is a folder.
fn read_back(target: &Path, moved: &dyn Fn()) -> io::Result<Option<Seen>> {
    let mut file = File::open(target)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    match hash::copy(&mut file, &mut io::sink(), moved) {
        Ok(seen) => Ok(Some(seen)),
        Err(CopyError::Read(error) | CopyError::Write(error)) => Err(error),
    }
}

/// Makes the entries of `target` and of all folders from it up to `objects` durable. A folder that is gone went with
/// the object, by a delete since.
fn sync_folders(target: &Path, objects: &Path) -> io::Result<()> {
    let mut folder = target;
    while folder != objects {
        let Some(parent) = folder.parent() else {
            break;
        };
        if let Some(parent) = super::found(File::open(parent))? {
            parent.sync_all()?;
        }
        folder = parent;
    }
    Ok(())
}

/// Makes a folder and its entry durable.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    if let Some(parent) = folder.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Removes an object and the folders that it leaves empty.
pub(super) fn remove(target: &Path, objects: &Path, folders: &Mutex<()>) -> io::Result<()> {
    if super::found(fs::symlink_metadata(target))?.is_none_or(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    match fs::remove_file(target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let remaining = remove_empty(target, objects, folders);
    match super::found(File::open(&remaining))? {
        Some(remaining) => remaining.sync_all(),
        None => Ok(()),
    }
}

/// Removes the empty folders above `target`, below `objects`; returns the first one that stays.
fn remove_empty(target: &Path, objects: &Path, folders: &Mutex<()>) -> PathBuf {
    let _held = hold(folders);
    let mut folder = target.to_owned();
    while folder.pop() && folder != objects {
        // Not empty, or gone already: either way the folders above are not ours to remove.
        if fs::remove_dir(&folder).is_err() {
            break;
        }
    }
    folder
}
