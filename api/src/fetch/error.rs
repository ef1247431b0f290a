//! Why a URL's file did not come.

use std::io;

use clapboard_outbound::{Cause, Error, Failed as Unanswered, Forbidden};

use super::MAX_REDIRECTS;
use crate::media::TooLarge;

/// Why a URL's file did not come, in words for whoever sent the URL: without the URL, which may be signed, and without
/// addresses. The causes are for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// It is one that no request may lead to, or redirects to one.
    #[error("{0}")]
    Forbidden(#[from] Forbidden),
    /// It could not be fetched.
    #[error("{why}")]
    Failed {
        /// Why.
        why: Failed,
        /// What was said of it, where somebody did.
        #[source]
        cause: Option<Cause>,
    },
    /// The fault lies with this machine, or it cannot be told whose it is: the same may work soon.
    #[error("could not {doing}")]
    Machine {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        #[source]
        cause: Cause,
    },
    /// It could not be written down here.
    #[error("could not keep the file")]
    Spool(#[source] io::Error),
}

impl From<Failed> for FetchError {
    fn from(why: Failed) -> Self {
        Self::Failed { why, cause: None }
    }
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        match error {
            Error::Forbidden(forbidden) => Self::Forbidden(forbidden),
            Error::Failed { why, cause } => Self::Failed { why: why.into(), cause },
            Error::Machine { doing, cause } => Self::Machine { doing, cause },
        }
    }
}

/// Why a fetch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    /// A request was not answered.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// The host says no.
    #[error("the host answered with status {0}")]
    Status(u16),
    /// A redirect leads nowhere.
    #[error("the host answered with a redirect that leads nowhere")]
    Redirect,
    /// One redirect leads to another, and so on.
    #[error("it redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    /// The file comes compressed, which was not asked for.
    #[error("the answer is compressed, and must not be")]
    Encoded,
    /// The file is larger than its kind may be.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}
