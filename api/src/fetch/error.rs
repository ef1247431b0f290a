//! Why a URL's file did not come.

use std::io;

use super::{LEAST_HIGH_PORT, MAX_REDIRECTS};
use crate::media::TooLarge;

/// What a program said of a failure, for the log.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a URL's file did not come, in words for whoever sent the URL: without the URL, which may be signed, and without
/// addresses. The causes are for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// It is one that no request may lead to.
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

/// Why a URL is not fetched at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Forbidden {
    /// Its host is, or resolves to, something other than the public internet.
    #[error("the host is not on the public internet")]
    Address,
    /// Its port is one of other services.
    #[error("the port must be 80, 443 or at least {LEAST_HIGH_PORT}, got {0}")]
    Port(u16),
    /// A redirect leads to another scheme.
    #[error("it redirects to what is neither http nor https")]
    Scheme,
    /// A redirect leads to an address with a name and a password.
    #[error("it redirects to a URL with a user name or password")]
    Credentials,
}

/// Why a fetch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    /// No address belongs to the host's name.
    #[error("the host is not known")]
    UnknownHost,
    /// Nobody answers there.
    #[error("the host could not be reached")]
    Unreachable,
    /// The host cannot prove who it is.
    #[error("the host could not be trusted: TLS failed")]
    Tls,
    /// What came is not HTTP, or ended early.
    #[error("the answer is broken or ended early")]
    Broken,
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

impl Failed {
    /// Makes a failure that keeps what was said of it.
    pub(super) fn because<E: Into<Cause>>(self) -> impl FnOnce(E) -> FetchError {
        move |cause| FetchError::Failed { why: self, cause: Some(cause.into()) }
    }
}
