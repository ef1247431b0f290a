//! Files that somebody else wrote: regular ones only, and no more of them than can make sense.
//!
//! A device or a pipe in the place of a config would be read for ever; it is refused before it is opened.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The most bytes that a config may have.
pub(crate) const CONFIG_LIMIT: u64 = 4 << 20;

/// The most bytes that a tokenizer, a weight index or a recipe may have.
pub(crate) const TABLE_LIMIT: u64 = 64 << 20;

/// The most bytes that a file of golden tensors may have.
pub(crate) const GOLDEN_LIMIT: u64 = 1 << 30;

/// Which rule a file breaks that the operating system would let be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// It is a directory, a device, a pipe or a socket.
    #[error("it is not a regular file")]
    NotRegular,
    /// It is larger than any file of its kind.
    #[error("it is larger than {limit} bytes, the most that such a file may have")]
    TooLarge {
        /// The most bytes.
        limit: u64,
    },
}

/// Why a file was not opened or not read.
#[derive(Debug)]
pub(crate) enum FileError {
    /// The operating system refused it.
    Io {
        /// What was tried, such as `read`.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// It breaks a rule.
    Problem(FileProblem),
}

impl FileError {
    /// Returns what stands behind the failure, for an error that names the file itself.
    pub(crate) fn into_source(self) -> Box<dyn std::error::Error + Send + Sync> {
        match self {
            Self::Io { source, .. } => Box::new(source),
            Self::Problem(problem) => Box::new(problem),
        }
    }
}

/// Looks at what `path` leads to. Only a path with nothing at its end is absent: a link that leads nowhere or a folder
/// that may not be entered is an error.
pub(crate) fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) => {
            let absent = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
            if absent && fs::symlink_metadata(path).is_err() { Ok(None) } else { Err(error) }
        }
    }
}

/// Opens a regular file for reading; links are followed.
pub(crate) fn open(path: &Path) -> Result<File, FileError> {
    let io = |source| FileError::Io { doing: "open", source };
    let regular = |metadata: Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(FileError::Problem(FileProblem::NotRegular)),
    };
    // Before opening, since a pipe without a writer blocks there; and after, since the path may lead elsewhere by then.
    regular(fs::metadata(path).map_err(io)?)?;
    let file = File::open(path).map_err(io)?;
    regular(file.metadata().map_err(io)?)?;
    Ok(file)
}

/// Reads a whole regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let mut file = open(path)?.take(limit + 1);
    file.read_to_end(&mut bytes).map_err(|source| FileError::Io { doing: "read", source })?;
    if bytes.len() as u64 > limit {
        return Err(FileError::Problem(FileProblem::TooLarge { limit }));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_of_the_limit_is_read_and_a_larger_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let refused = read(&path, 4).unwrap_err();
        assert!(matches!(refused, FileError::Problem(FileProblem::TooLarge { limit: 4 })), "{refused:?}");
    }

    #[test]
    fn devices_folders_and_links_to_them_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/dev/zero", &link).unwrap();
        for path in [link.as_path(), Path::new("/dev/zero"), folder.path()] {
            let refused = read(path, 5).unwrap_err();
            assert!(matches!(refused, FileError::Problem(FileProblem::NotRegular)), "{refused:?}");
        }
    }

    #[test]
    fn only_nothing_at_all_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        assert!(look(&folder.path().join("absent/file")).unwrap().is_none());
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(look(&file.join("inside")).unwrap().is_none());
        for (name, target) in [("nowhere", "absent"), ("loop", "loop")] {
            let link = folder.path().join(name);
            symlink(target, &link).unwrap();
            assert!(look(&link).is_err(), "{name}");
        }
    }
}
