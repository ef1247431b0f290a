//! The folder in which an API keeps what is being uploaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use uuid::Uuid;

use crate::locked_dir::LockedDir;

/// A folder of this process alone below one that others may use as well. It is removed when this value is dropped; what a
/// process left that was killed, the next one removes.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: LockedDir,
}

impl Spool {
    /// Makes a folder below `root`, and removes those whose processes are dead.
    ///
    /// Errors: when `root` cannot be made or read, or no folder can be made in it.
    pub(crate) fn open(root: &Path) -> anyhow::Result<Self> {
        let folder = LockedDir::open("spool", &root.join(format!("uploads-{}", Uuid::new_v4().simple())))?;
        let others = fs::read_dir(root).with_context(|| format!("could not read {}", root.display()))?;
        for other in others.filter_map(Result::ok).map(|entry| entry.path()) {
            if other != folder.path() && is_spool(&other) {
                remove_if_dead(&other);
            }
        }
        let files = folder.path().join("files");
        fs::create_dir(&files).with_context(|| format!("could not create {}", files.display()))?;
        Ok(Self { folder })
    }

    /// The folder for files.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("files")
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // What stays the next process removes.
        let _ = fs::remove_dir_all(self.folder.path());
    }
}

fn is_spool(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("uploads-"))
}

/// How old a folder is at least that nobody is about to lock.
const SETTLED: Duration = Duration::from_secs(60);

/// Removes a spool that nobody has locked. Two processes that start at once may both try, and one finds it gone.
fn remove_if_dead(path: &Path) {
    let made = fs::metadata(path.join("lock")).and_then(|lock| lock.modified());
    if made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > SETTLED))
        && let Ok(dead) = LockedDir::open("spool", path)
    {
        tracing::info!(path = %path.display(), "removing what an API left that was killed");
        let _ = fs::remove_dir_all(dead.path());
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn processes_share_a_root_and_the_dead_leave_nothing() {
        let root = tempfile::tempdir().unwrap();
        let first = Spool::open(root.path()).unwrap();
        fs::write(first.path().join("a"), "x").unwrap();
        let second = Spool::open(root.path()).unwrap();
        assert!(first.path().join("a").is_file() && second.path() != first.path());

        // As it is after a kill: the files stay, and the lock is gone.
        let dead = root.path().join("uploads-dead");
        fs::create_dir_all(dead.join("files")).unwrap();
        fs::write(dead.join("files/b"), "x").unwrap();
        let lock = fs::File::create(dead.join("lock")).unwrap();
        lock.set_modified(SystemTime::now() - SETTLED * 2).unwrap();
        fs::create_dir(root.path().join("something-else")).unwrap();
        let third = Spool::open(root.path()).unwrap();
        assert!(!dead.exists() && root.path().join("something-else").is_dir());

        drop((first, second, third));
        let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["something-else"]);
    }
}
