//! Why a request came to nothing.

use crate::rules::LEAST_HIGH_PORT;

/// What a program said of a failure, for the log.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a request came to nothing, in words for whoever gave the URL: without the URL, which may be signed, and without
/// addresses. The causes are for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It would have gone where no request may; nothing was sent.
    #[error("{0}")]
    Forbidden(#[from] Forbidden),
    /// It was not answered.
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
}

impl From<Failed> for Error {
    fn from(why: Failed) -> Self {
        Self::Failed { why, cause: None }
    }
}

/// Why nothing is sent to a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// Its host is, or resolves to, something other than the public internet.
    #[error("the host is not on the public internet")]
    Address,
    /// Its port is one of other services.
    #[error("the port must be 80, 443 or at least {LEAST_HIGH_PORT}, got {0}")]
    Port(u16),
    /// It is of another scheme.
    #[error("the scheme must be http or https")]
    Scheme,
    /// It is not encrypted, and its host is none that may go without.
    #[error("the scheme must be https")]
    Plaintext,
    /// It holds a name or a password.
    #[error("the URL must not hold a user name or password")]
    Credentials,
}

/// Why a request was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
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
}

impl Failed {
    /// Makes a failure that keeps what was said of it.
    pub(crate) fn because<E: Into<Cause>>(self) -> impl FnOnce(E) -> Error {
        move |cause| Error::Failed { why: self, cause: Some(cause.into()) }
    }
}
