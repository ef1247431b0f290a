//! Where the hints are.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clapboard_dispatch::{OpenError, RedisOptions};

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
    /// What every key begins with, so that several deployments may share a server. All processes need the same
    #[arg(long, env = "CLAPBOARD_REDIS_PREFIX", value_name = "PREFIX", default_value = RedisOptions::PREFIX)]
    redis_prefix: String,
    /// How many hints a queue holds at most, of which new jobs take up to one half: at least twice --refill-window. All
    /// processes need the same
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
        let url = secret::given("--redis-url", self.redis_url.clone(), self.redis_url_file.clone())?;
        let Some(url) = url else { return Ok(None) };
        let options = RedisOptions {
            url: url.reveal(),
            prefix: self.redis_prefix.clone(),
            window: self.redis_window,
            timeout: self.redis_timeout,
        };
        options.validate().map_err(|error| match error {
            OpenError::Setting { setting, rule, given } => anyhow!("--redis-{setting} {rule}, not {given}"),
            error => anyhow::Error::new(error).context("--redis-url cannot be used"),
        })?;
        Ok(Some(options))
    }

    /// Returns how the server is reached.
    ///
    /// Errors: those of [`options`](Self::options), and when it is not said where the server is.
    pub(crate) fn required(&self) -> anyhow::Result<RedisOptions> {
        self.options()?.context("--redis-url is missing: say where the Redis server is (or set REDIS_URL)")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        redis: RedisArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<RedisOptions> {
        Cli::try_parse_from(["api"].iter().chain(arguments))?.redis.required()
    }

    #[test]
    fn the_defaults_are_those_of_the_dispatcher_itself() {
        let (given, usual) = (options(&["--redis-url", "redis://h"]).unwrap(), RedisOptions::new("redis://h"));
        assert_eq!(given.prefix, usual.prefix);
        assert_eq!((given.url, given.window, given.timeout), (usual.url, usual.window, usual.timeout));
    }

    #[test]
    fn a_refusal_names_the_flag_and_not_the_url() {
        for (arguments, expected) in [
            (
                ["--redis-url", "redis://:hunter2@h", "--redis-window=0"],
                "--redis-window must be from 1 to 1000000, not 0",
            ),
            (["--redis-url", "redis://:hunter2@h", "--redis-timeout=0s"], "--redis-timeout must be more than nothing"),
            (["--redis-url", "redis://:hunter2@h", "--redis-prefix=a b"], "--redis-prefix must be 1 to 64 of a-z"),
            (
                ["--redis-url", "http://:hunter2@h", "--redis-window=1"],
                "--redis-url cannot be used: the url of redis must",
            ),
        ] {
            let refused = format!("{:#}", options(&arguments).unwrap_err());
            assert!(refused.starts_with(expected) && !refused.contains("hunter2"), "{refused}");
        }
    }
}
