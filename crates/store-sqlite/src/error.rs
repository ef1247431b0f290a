//! What SQLite's refusals mean.

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use clapboard_jobs::rows::{unavailable, unreadable};
use sqlx::migrate::MigrateError;

/// Primary result codes of SQLite, the low byte of the extended ones.
const BUSY: i32 = 5;
const READONLY: i32 = 8;
const CORRUPT: i32 = 11;
const CANTOPEN: i32 = 14;
const NOTADB: i32 = 26;

/// Why a job store cannot be opened. The file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A later program has changed the tables.
    #[error(
        "{} was written by a newer clapboard: it has migration {found}, this program knows them up to {known}",
        path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The migration that this program does not have.
        found: i64,
        /// The last migration that it has.
        known: i64,
    },
    /// A migration was applied in another wording.
    #[error("{} was written by a clapboard of another line: its migration {version} differs from ours", path.display())]
    ForeignSchema {
        /// The file.
        path: PathBuf,
        /// The migration that differs.
        version: i64,
    },
    /// The file is a database, but not a job store.
    #[error("{} is the database of another program: it has tables, but no record of our migrations", path.display())]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is no SQLite database.
    #[error("{} is not a SQLite database", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{} is damaged", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        #[source]
        source: sqlx::Error,
    },
    /// The file or its folder cannot be written.
    #[error("{} cannot be written: the file or its folder is read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened or made.
    #[error("{} cannot be opened: does its folder exist, and may this user write there?", path.display())]
    CannotOpen {
        /// The file.
        path: PathBuf,
    },
    /// Another process has held the file for longer than the time-out.
    #[error("{} is in use by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The policy makes no sense.
    #[error("the lease policy cannot be used")]
    Policy(#[from] clapboard_jobs::policy::InvalidPolicy),
    /// Anything else.
    #[error("{} could not be opened", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl OpenError {
    /// Classes an error that came while opening `path`.
    pub(crate) fn from_sqlx(path: &Path, error: sqlx::Error) -> Self {
        let path = path.to_owned();
        match primary_code(&error) {
            Some(NOTADB) => Self::NotADatabase { path },
            Some(CORRUPT) => Self::Corrupt { path, source: error },
            Some(READONLY) => Self::ReadOnly { path },
            Some(CANTOPEN) => Self::CannotOpen { path },
            Some(BUSY) => Self::Busy { path },
            _ => Self::Other { path, source: error.into() },
        }
    }

    /// Says what the system answered when it was asked about `path`.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        Self::Other { path: path.to_owned(), source: source.into() }
    }

    /// Classes an error that came while bringing the tables of `path` up to migration `known`.
    pub(crate) fn from_migrate(path: &Path, known: i64, error: MigrateError) -> Self {
        let path_buf = path.to_owned();
        match error {
            MigrateError::VersionMissing(found) => Self::NewerSchema { path: path_buf, found, known },
            MigrateError::VersionMismatch(version) => Self::ForeignSchema { path: path_buf, version },
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => Self::from_sqlx(path, error),
            other => Self::Other { path: path_buf, source: other.into() },
        }
    }
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}
