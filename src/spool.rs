//! The folder in which an API keeps what is being uploaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use uuid::Uuid;

use crate::locked_dir::LockedDir;

/// What the folders of processes are called.
const PREFIX: &str = "uploads-";
/// How often what the dead have left is looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(120);
/// How old a folder is at least that nobody is about to lock.
const SETTLED: Duration = Duration::from_secs(60);

/// A folder of this process alone, removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Spool {
    place: Place,
}

/// Where the folder is.
#[derive(Debug)]
enum Place {
    /// Among the system's temporary files, under a name that nobody can foresee.
    Temporary(tempfile::TempDir),
    /// Below a folder that other processes may use as well.
    Shared(LockedDir),
}

impl Spool {
    /// Makes the folder of a process that alone uses `root`, and removes all that others left there.
    ///
    /// Errors: when `root` cannot be made or read, or no folder can be made in it.
    pub(crate) fn alone(root: &Path) -> anyhow::Result<Self> {
        match fs::remove_dir_all(root) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("could not clear {}", root.display()));
            }
            _ => {}
        }
        Self::open(Some(root))
    }

    /// Makes a folder below `root`, which other processes may use as well; without a root, one among the system's temporary
    /// files.
    ///
    /// Errors: when `root` cannot be made or read, or no folder can be made in it.
    pub(crate) fn open(root: Option<&Path>) -> anyhow::Result<Self> {
        let place = match root {
            Some(root) => {
                Place::Shared(LockedDir::open("spool", &root.join(format!("{PREFIX}{}", Uuid::new_v4().simple())))?)
            }
            None => {
                let made = tempfile::Builder::new().prefix("clapboard-").tempdir();
                Place::Temporary(made.context("could not make a folder for uploads: name one with --spool")?)
            }
        };
        let spool = Self { place };
        let files = spool.path();
        fs::create_dir(&files).with_context(|| format!("could not create {}", files.display()))?;
        Ok(spool)
    }

    /// Returns what removes, at once and from time to time, what processes left that were killed and shared the root.
    pub(crate) fn sweeper(&self) -> impl Future<Output = ()> + Send + 'static {
        let own = match &self.place {
            Place::Shared(folder) => Some(folder.path().to_owned()),
            Place::Temporary(_) => None,
        };
        async move {
            let Some(own) = own else { return };
            let mut turns = tokio::time::interval(SWEEP_INTERVAL);
            loop {
                turns.tick().await;
                let own = own.clone();
                // What went wrong once may go right the next time.
                let _ = tokio::task::spawn_blocking(move || remove_dead(&own)).await;
            }
        }
    }

    /// The folder for files.
    pub(crate) fn path(&self) -> PathBuf {
        let folder = match &self.place {
            Place::Temporary(folder) => folder.path(),
            Place::Shared(folder) => folder.path(),
        };
        folder.join("files")
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Place::Shared(folder) = &self.place {
            remove(folder.path());
        }
    }
}

/// Removes the folders beside `own` whose processes are dead.
fn remove_dead(own: &Path) {
    // What cannot be listed now is listed another time.
    let Some(Ok(others)) = own.parent().map(fs::read_dir) else { return };
    for other in others.filter_map(Result::ok).map(|entry| entry.path()) {
        let is_spool = other.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if is_spool && other != own {
            remove_if_dead(&other);
        }
    }
}

/// Removes a spool that nobody has locked. Two processes that start at once may both try, and one finds it gone.
fn remove_if_dead(path: &Path) {
    let lock = path.join("lock");
    // One without a lock is being made, or its process was killed before it had locked it or while it removed it.
    let made = fs::metadata(if lock.exists() { &lock } else { path }).and_then(|found| found.modified());
    let is_settled = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > SETTLED));
    if is_settled && LockedDir::open("spool", path).is_ok() {
        tracing::info!(path = %path.display(), "removing what an API left that was killed");
        remove(path);
    }
}

/// Removes a spool, its lock last; what stays the next process removes.
fn remove(path: &Path) {
    let _ = fs::remove_dir_all(path.join("files"));
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn age(path: &Path) {
        fs::File::open(path).unwrap().set_modified(SystemTime::now() - SETTLED * 2).unwrap();
    }

    #[test]
    fn processes_share_a_root_and_the_dead_leave_nothing() {
        let root = tempfile::tempdir().unwrap();
        let first = Spool::open(Some(root.path())).unwrap();
        fs::write(first.path().join("a"), "x").unwrap();
        let second = Spool::open(Some(root.path())).unwrap();
        assert!(first.path().join("a").is_file() && second.path() != first.path());

        // As it is after a kill: the files stay, and the lock is gone, or was never made.
        let (dead, lockless) = (root.path().join("uploads-dead"), root.path().join("uploads-lockless"));
        for folder in [&dead, &lockless] {
            fs::create_dir_all(folder.join("files")).unwrap();
            fs::write(folder.join("files/b"), "x").unwrap();
        }
        fs::write(dead.join("lock"), "1\n").unwrap();
        let young = root.path().join("uploads-young");
        fs::create_dir(&young).unwrap();
        fs::create_dir(root.path().join("something-else")).unwrap();
        age(&dead.join("lock"));
        age(&lockless);
        let third = Spool::open(Some(root.path())).unwrap();
        remove_dead(third.path().parent().unwrap());
        assert!(!dead.exists() && !lockless.exists() && young.is_dir());

        drop((first, second, third));
        let mut left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["something-else", "uploads-young"]);
    }

    #[test]
    fn who_is_alone_waits_for_no_lock_to_grow_old() {
        let root = tempfile::tempdir().unwrap();
        let spool = root.path().join("spool");
        fs::create_dir_all(spool.join("uploads-dead/files")).unwrap();
        fs::write(spool.join("uploads-dead/lock"), "1\n").unwrap();
        let own = Spool::alone(&spool).unwrap();
        assert!(own.path().is_dir());
        assert_eq!(fs::read_dir(&spool).unwrap().count(), 1);
    }

    #[test]
    fn without_a_root_the_folder_goes_with_its_process() {
        let spool = Spool::open(None).unwrap();
        let files = spool.path();
        assert!(files.is_dir());
        drop(spool);
        assert!(!files.parent().unwrap().exists());
    }
}
