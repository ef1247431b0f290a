//! Why a checkpoint could not be written.

use std::io;
use std::path::{Path, PathBuf};

/// Why a tiny or sparse checkpoint could not be written. Nothing of it is left on disk then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target is there already and not empty.
    #[error("output directory {} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The target is a file.
    #[error("output path {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The operating system refused a file or folder.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// What was tried, such as `write`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file of the golden folder is not the JSON it should be.
    #[error("golden file {file} could not be understood")]
    Json {
        /// The file, relative to the golden folder.
        file: String,
        /// Where the parser stopped.
        source: serde_json::Error,
    },
    /// Files of the golden folder do not fit together.
    #[error("golden file {file}: {reason}")]
    Golden {
        /// The file, relative to the golden folder.
        file: String,
        /// What does not fit.
        reason: String,
    },
}

impl Error {
    /// Names what was tried on which path.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(super) fn golden(file: &str, reason: impl Into<String>) -> Self {
        Self::Golden { file: file.to_owned(), reason: reason.into() }
    }
}
