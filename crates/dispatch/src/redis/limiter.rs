//! Counting requests in Redis, for all processes together.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Allowance, Causes, Limiter, Rate};
use redis::pipe;
use tokio::time::Instant;

use super::failure::Failure;
use super::link::Link;
use super::options::{OpenError, RedisOptions};
use crate::limiter::MemoryLimiter;

/// Counts one request by the clock of the server.
const TAKE: &str = include_str!("take.lua");
/// How often it is said that the server is away, while it is.
const SAY_AGAIN: Duration = Duration::from_secs(30);

/// Counts requests in Redis by its clock, whichever process they come to.
///
/// While Redis is away or slow, each process counts for itself: a request waits for one timeout at most, and for a second
/// after that none waits at all. What Redis has forgotten, or a process counted meanwhile, lets some more through than the
/// rate says. A request whose answer was lost may have been counted: it is counted once more, on a new connection or by the
/// process, so that one or the other that follows may be refused a little earlier than the rate says.
///
/// It needs Redis 6.0 or later (or a server that speaks as one) with `EVAL` and `TIME` within it.
pub struct RedisLimiter {
    prefix: String,
    link: Link,
    /// Counts while Redis does not.
    alone: MemoryLimiter,
    /// Since when it was last said that Redis is away; none while it is not.
    said: Mutex<Option<Instant>>,
}

impl RedisLimiter {
    /// Makes a limiter; it connects when it is used first. The window of the options means nothing here.
    ///
    /// # Errors
    ///
    /// Fails only if a setting breaks its rule. A server that cannot be reached is no error here.
    pub fn open(options: &RedisOptions) -> Result<Self, OpenError> {
        Ok(Self {
            prefix: options.prefix.clone(),
            link: Link::new(options.client()?, options.timeout),
            alone: MemoryLimiter::new(),
            said: Mutex::default(),
        })
    }

    async fn take_in_redis(&self, who: &str, rate: Rate) -> Result<Allowance, Failure> {
        let mut commands = pipe();
        commands.cmd("EVAL").arg(TAKE).arg(1).arg(format!("{}:rate:{who}", self.prefix)).arg(rate.per_minute.max(1));
        let ((allowed, remaining, reset, retry_after),): ((bool, u32, u64, u64),) = self.link.query(&commands).await?;
        Ok(Allowance {
            allowed,
            limit: rate.per_minute.max(1),
            remaining,
            reset: Duration::from_nanos(reset),
            retry_after: Duration::from_nanos(retry_after),
        })
    }

    /// Takes note of how Redis answers, and says so when that changes, and rarely while it does not answer.
    fn note(&self, failure: Option<&Failure>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => {
                if said.take().is_some() {
                    tracing::info!("redis counts requests again");
                }
            }
            Some(failure) if said.is_none_or(|at| at.elapsed() >= SAY_AGAIN) => {
                *said = Some(Instant::now());
                tracing::warn!(error = %Causes(failure), "redis does not count requests: each process counts its own");
            }
            Some(_) => {}
        }
    }
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[async_trait]
impl Limiter for RedisLimiter {
    async fn take(&self, who: &str, rate: Rate) -> Allowance {
        match self.take_in_redis(who, rate).await {
            Ok(allowance) => {
                self.note(None);
                allowance
            }
            Err(failure) => {
                self.note(Some(&failure));
                self.alone.take(who, rate).await
            }
        }
    }
}
