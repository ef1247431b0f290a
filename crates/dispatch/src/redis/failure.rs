//! What can go wrong between us and Redis.

use std::time::Duration;

use clapboard_jobs::DispatchError;
use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::breaker::Open;

/// Why Redis gave no answer that can be used. No URL is in any of them.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Failure {
    #[error("redis did not answer within {limit:?}")]
    Silent { limit: Duration },
    #[error("redis is left alone for a moment after a failure: {}", .0.why)]
    Resting(Open),
    #[error("redis cannot use the key {key}")]
    Key {
        key: String,
        #[source]
        source: RedisError,
    },
    #[error("redis cannot be used")]
    Redis(#[from] RedisError),
    #[error("the runtime has ended")]
    Ended,
}

impl Failure {
    /// Returns whether the server, or the way to it, is at fault rather than what was asked.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::Silent { .. } => true,
            Self::Redis(error) => is_outage(error),
            Self::Resting(_) | Self::Key { .. } | Self::Ended => false,
        }
    }

    /// Wraps it for the caller.
    pub(super) fn while_doing(self, doing: &'static str) -> DispatchError {
        DispatchError { doing, source: Box::new(self) }
    }
}

/// Returns whether the connection is not worth keeping: it is broken, or its server is not (or no longer) one to write
/// to.
pub(super) fn is_outage(error: &RedisError) -> bool {
    use ServerErrorKind::{CrossSlot, NoPerm, ResponseError};
    !matches!(
        error.kind(),
        ErrorKind::Server(ResponseError | NoPerm | CrossSlot) | ErrorKind::Extension | ErrorKind::UnexpectedReturnType
    )
}
