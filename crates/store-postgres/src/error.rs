//! What Postgres's refusals mean.

use std::fmt;
use std::time::Duration;

pub(crate) use clapboard_jobs::rows::{unavailable, unreadable};
use clapboard_jobs::{LeaseError, StoreError};

/// SQLSTATEs that mean something of their own to the store. Every other one is an answer that was not expected, so the
/// store counts as out of reach.
mod sqlstate {
    pub(super) const UNIQUE_VIOLATION: &str = "23505";
    pub(super) const SERIALIZATION_FAILURE: &str = "40001";
    pub(super) const DEADLOCK_DETECTED: &str = "40P01";
    pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub(super) const INVALID_CATALOG_NAME: &str = "3D000";
    pub(super) const INVALID_AUTHORIZATION: &str = "28000";
    pub(super) const INVALID_PASSWORD: &str = "28P01";
    pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";
}

/// What a refusal by the server means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A row of that key is there.
    Duplicate,
    /// The transaction was rolled back for another's sake and can be done again.
    Conflict,
    /// Others hold a lock, and have been waited for long enough.
    Locked,
    /// There is no such database.
    NoDatabase,
    /// The role may not come in, or may not do what was asked.
    NotAllowed,
    /// Anything else, and everything that did not come from the server.
    Other,
}

impl Refusal {
    /// Classes an error by its SQLSTATE.
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        match code.as_deref() {
            Some(sqlstate::UNIQUE_VIOLATION) => Self::Duplicate,
            Some(sqlstate::SERIALIZATION_FAILURE | sqlstate::DEADLOCK_DETECTED) => Self::Conflict,
            Some(sqlstate::LOCK_NOT_AVAILABLE) => Self::Locked,
            Some(sqlstate::INVALID_CATALOG_NAME) => Self::NoDatabase,
            Some(sqlstate::INVALID_AUTHORIZATION | sqlstate::INVALID_PASSWORD | sqlstate::INSUFFICIENT_PRIVILEGE) => {
                Self::NotAllowed
            }
            _ => Self::Other,
        }
    }
}

/// Says that there was no connection to be had in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {:?}: the server does not answer, or every connection is in use", waited)]
pub(crate) struct NoConnection {
    pub(crate) waited: Duration,
}

/// Says that no answer came in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {:?}", waited)]
pub(crate) struct NoAnswer {
    pub(crate) waited: Duration,
}

/// An error of a verb, which can say what to do about it.
pub(crate) trait VerbError: From<StoreError> {
    /// Returns what the server said, if it was the server that refused.
    fn refused(&self) -> Option<&sqlx::Error>;

    /// Tells whether the server has rolled the transaction back for another's sake, so that it can be done again.
    fn is_conflict(&self) -> bool {
        self.refused().is_some_and(|error| Refusal::of(error) == Refusal::Conflict)
    }

    /// Says how long was waited where the pool says only that it was too long.
    fn with_wait(self, waited: Duration, doing: &'static str) -> Self {
        match self.refused() {
            Some(sqlx::Error::PoolTimedOut) => {
                StoreError::Unavailable { doing, source: NoConnection { waited }.into() }.into()
            }
            _ => self,
        }
    }
}

impl VerbError for StoreError {
    fn refused(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Unavailable { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}

impl VerbError for LeaseError {
    fn refused(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Store(error) => error.refused(),
            _ => None,
        }
    }
}

/// Migrations by number, for sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub(crate) Vec<i64>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(i64::to_string).collect();
        let plural = if self.0.len() == 1 { "migration" } else { "migrations" };
        write!(f, "{plural} {}", numbers.join(", "))
    }
}

/// Why a job store cannot be opened. No variant shows a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server does not answer.
    #[error("{address} cannot be reached")]
    Unreachable {
        /// Host, port and database.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server does not let the role in, or does not let it do what is needed.
    #[error("{address} refuses the role {role:?}")]
    NotAllowed {
        /// Host, port and database.
        address: String,
        /// The role.
        role: String,
        /// What the server said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server has no such database.
    #[error("there is no database {address}: create it first")]
    NoDatabase {
        /// Host, port and database.
        address: String,
    },
    /// The server is older than what the statements need.
    #[error("{address} is PostgreSQL {found}, and the job store needs {needed} or newer")]
    ServerTooOld {
        /// Host, port and database.
        address: String,
        /// The server's version.
        found: String,
        /// The first version that will do.
        needed: u32,
    },
    /// The tables are not there yet, or an older program made them.
    #[error("{address} lacks {missing}: run `clapboard migrate`")]
    NotMigrated {
        /// Host, port and database.
        address: String,
        /// What it lacks.
        missing: Missing,
    },
    /// A later program has changed the tables so that this one cannot work with them.
    #[error(
        "{address} was migrated by a newer clapboard: programs have to know migration {needed}, this one knows them up to \
         {known}"
    )]
    NewerSchema {
        /// Host, port and database.
        address: String,
        /// The migration that a program has to know.
        needed: i64,
        /// The last migration that this program knows.
        known: i64,
    },
    /// A migration was applied in another wording.
    #[error("{address} was migrated by a clapboard of another line: its migration {version} differs from ours")]
    ForeignSchema {
        /// Host, port and database.
        address: String,
        /// The migration that differs.
        version: i64,
    },
    /// A migration has waited in vain for those who use its tables.
    #[error(
        "a table of {address} was in use for {} s, so that migration {version} could not be applied: end what holds it, a \
         backup for example, or migrate later",
        waited.as_secs()
    )]
    InUse {
        /// Host, port and database.
        address: String,
        /// The migration.
        version: i64,
        /// For how long it was tried.
        waited: Duration,
        /// What the server said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The policy makes no sense.
    #[error("the lease policy cannot be used")]
    Policy(#[from] clapboard_jobs::policy::InvalidPolicy),
    /// Anything else.
    #[error("{address} could not be opened")]
    Other {
        /// Host, port and database.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
