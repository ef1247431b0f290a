//! Where the hints are.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clapboard_dispatch::RedisOptions;

use super::{Secret, duration, secret};

/// The Redis server of the hints. It may be lost, flushed or absent: jobs then begin later, and none is lost.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Redis")]
pub(crate) struct RedisArgs {
    /// The server, such as redis://user:password@host:6379/0; rediss:// for TLS
    #[arg(long, env = "REDIS_URL", value_name = "URL", hide_env_values = true)]
    redis_url: Option<Secret>,
    /// A file that holds the server's URL
    #[arg(long, env = "REDIS_URL_FILE", value_name = "FILE", value_parser = secret::file())]
    redis_url_file: Option<PathBuf>,
    /// What every key begins with, so that several deployments may share a server
    #[arg(long, env = "CLAPBOARD_REDIS_PREFIX", value_name = "PREFIX", default_value = RedisOptions::PREFIX)]
    redis_prefix: String,
    /// How many hints a queue holds at most
    #[arg(long, env = "CLAPBOARD_REDIS_WINDOW", value_name = "N", default_value_t = RedisOptions::WINDOW)]
    redis_window: usize,
    /// How long the server may take to answer before the caller goes on without it
    #[arg(long, env = "CLAPBOARD_REDIS_TIMEOUT", value_name = "DURATION", default_value = "100ms",
          value_parser = duration::parse)]
    redis_timeout: Duration,
}

impl RedisArgs {
    /// Returns how the server is reached; none when it is not said where it is.
    ///
    /// Errors: a sentence about the first setting that cannot be, without the URL.
    pub(crate) fn options(&self) -> anyhow::Result<Option<RedisOptions>> {
        ensure!(!self.redis_timeout.is_zero(), "--redis-timeout must not be zero");
        let url = secret::given("--redis-url", self.redis_url.clone(), self.redis_url_file.clone())?;
        Ok(url.map(|url| RedisOptions {
            url: url.reveal(),
            prefix: self.redis_prefix.clone(),
            window: self.redis_window,
            timeout: self.redis_timeout,
        }))
    }

    /// Returns how the server is reached.
    ///
    /// Errors: those of [`options`](Self::options), and when it is not said where the server is.
    pub(crate) fn required(&self) -> anyhow::Result<RedisOptions> {
        self.options()?.context("--redis-url is missing: say where the Redis server is (or set REDIS_URL)")
    }
}
