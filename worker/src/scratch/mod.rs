//! Folders for unfinished files.

pub(crate) mod digest;
pub(crate) mod disk;
pub(crate) mod kept_claim;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clapboard_jobs::{Lease, WorkerId};

use crate::error::Error;
use crate::scratch::kept_claim::KeptClaim;

/// What every attempt's folder begins with, so that nothing else is ever removed.
const PREFIX: &str = "attempt-";
/// How much a probe writes: more than a file system finds room for without a new block.
const PROBE_BYTES: usize = 64 * 1024;

/// Returns the folder in which a worker works below the folder that an operator gave it: [`Options::scratch`].
///
/// [`Options::scratch`]: crate::Options::scratch
pub fn work_folder(root: &Path) -> PathBuf {
    root.join("work")
}

/// Makes the scratch folder where it is missing, removes what attempts of dead processes left in it, and returns the
/// finished videos that lie there with their claims.
///
/// Errors: [`Error::Scratch`].
pub(crate) fn prepare(root: &Path) -> Result<Vec<Orphan>, Error> {
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Scratch { doing, path, source }
    };
    let mut orphans = Vec::new();
    fs::create_dir_all(root).map_err(failed("create the scratch folder", root))?;
    for entry in fs::read_dir(root).map_err(failed("list the scratch folder", root))? {
        let entry = entry.map_err(failed("list the scratch folder", root))?;
        let name = entry.file_name();
        let path = entry.path();
        if !name.to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        if let Some(claim) = KeptClaim::read(&path) {
            orphans.push(Orphan { folder: AttemptFolder { path, kept: true }, claim });
            continue;
        }
        remove(&path).map_err(failed("remove the leftover", &path))?;
        tracing::info!(path = %path.display(), "removed what a dead attempt had left");
    }
    Ok(orphans)
}

/// Returns who held the claims that lie in the scratch folder with their finished videos; nobody where it cannot be read.
pub(crate) fn owners(root: &Path) -> Vec<WorkerId> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let mut owners: Vec<WorkerId> =
        folders.filter_map(|entry| KeptClaim::read(&entry.path())).map(|claim| claim.worker).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// A finished video that a dead process has left, and the claim under which it was made.
pub(crate) struct Orphan {
    pub(crate) folder: AttemptFolder,
    pub(crate) claim: KeptClaim,
}

/// Makes the scratch folder where it is missing, and writes a file in it once.
///
/// Errors: what the system said.
pub(crate) fn probe(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    // A leftover of this name would be removed with those of dead attempts.
    let path = root.join(format!("{PREFIX}probe"));
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&[0; PROBE_BYTES])?;
        file.sync_all()
    });
    let removed = remove(&path);
    written.and(removed)
}

/// The folder of one attempt, removed with all in it when dropped, unless it is [kept](Self::keep).
#[derive(Debug)]
pub(crate) struct AttemptFolder {
    path: PathBuf,
    kept: bool,
}

impl AttemptFolder {
    /// Makes the folder of a claim, and the scratch folder where somebody has removed it.
    ///
    /// Errors: what the system said.
    pub(crate) fn create(root: &Path, lease: &Lease) -> io::Result<Self> {
        let path = root.join(format!("{PREFIX}{}-{}-{}", lease.job, lease.fence, lease.token.short()));
        fs::create_dir_all(root)?;
        fs::create_dir(&path)?;
        Ok(Self { path, kept: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file of the `index`th input lies while it is read.
    pub(crate) fn input(&self, index: usize) -> PathBuf {
        self.path.join(format!("input-{index}"))
    }

    /// Where the finished video lies.
    pub(crate) fn video(&self) -> PathBuf {
        self.path.join("video.mp4")
    }

    /// Lets the folder outlive this process, should that end before the attempt does.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes the folder, whether it is kept or not. Blocks.
    pub(crate) fn remove(mut self) {
        self.kept = false;
    }
}

impl Drop for AttemptFolder {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove an attempt's folder");
        }
    }
}

/// Removes a folder, or a file of such a name; what is not there is removed already.
fn remove(path: &Path) -> io::Result<()> {
    // An encode that nobody waits for may rename its file while the folder is emptied, once.
    let mut again = true;
    loop {
        let result = match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && again => again = false,
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dead_attempts_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("deep/scratch");
        assert!(prepare(&root).unwrap().is_empty());
        let dead = root.join("attempt-video_gen_0-1-abcdef01");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(".out.mp4.0123456789abcdef.partial"), "x").unwrap();
        fs::write(dead.join(".out.mp4.0123456789abcdef.f32"), "x").unwrap();
        fs::write(root.join("notes.txt"), "mine").unwrap();
        assert!(prepare(&root).unwrap().is_empty());
        let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }

    #[test]
    fn a_probe_makes_the_folder_and_leaves_nothing_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("scratch");
        probe(&root).unwrap();
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        probe(&file).unwrap_err();
    }

    #[test]
    fn a_scratch_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let message = prepare(&file).err().unwrap().to_string();
        assert_eq!(message, format!("could not create the scratch folder {}", file.display()));
    }
}
