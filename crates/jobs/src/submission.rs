//! By what a request is known again when it is sent once more.

use std::fmt;
use std::time::Duration;

/// A request that may come twice: whoever sends it again gets the job that it made the first time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// By what it is found again among its tenant's: a digest.
    pub token: [u8; 32],
    /// The digest of everything that it asks for, files included.
    pub fields: [u8; 32],
    /// How sure it is that it is the same request.
    pub resend: Resend,
}

/// What says that a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// The client has named it: the same name is the same request, however often it comes.
    Named,
    /// The client's library counts its tries, and `token` is that of the fields.
    Counted {
        /// It is not the first try.
        again: bool,
        /// How long ago it began to arrive: a job that a later try of the same has made since is its own.
        arrived: Duration,
    },
}

impl Resend {
    /// Returns for how long the request is known.
    pub const fn memory(self) -> Duration {
        match self {
            Self::Named => Duration::from_secs(24 * 3600),
            Self::Counted { .. } => Duration::from_secs(60),
        }
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("resend", &self.resend).finish_non_exhaustive()
    }
}
