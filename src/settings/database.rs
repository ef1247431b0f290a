//! Where the jobs are.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clapboard_store_postgres::{DatabaseUrl, Options};

use super::{Secret, duration, secret};

/// The Postgres database of the jobs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Database")]
pub(crate) struct DatabaseArgs {
    /// The database, such as postgres://user:password@host:5432/name?sslmode=verify-full
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<Secret>,
    /// A file that holds the database's URL
    #[arg(long, env = "DATABASE_URL_FILE", value_name = "FILE", value_parser = secret::file())]
    database_url_file: Option<PathBuf>,
    /// How many connections this process opens at most, from 1 to 1000, besides the one of a worker's heartbeat
    #[arg(long, env = "CLAPBOARD_DATABASE_CONNECTIONS", value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    database_connections: u32,
    /// How long a statement waits for a connection, while all are in use or a new one is made, before it fails
    #[arg(long, env = "CLAPBOARD_DATABASE_ACQUIRE_TIMEOUT", value_name = "DURATION", default_value = "3s",
          value_parser = duration::parse)]
    database_acquire_timeout: Duration,
    /// How long the database may take to answer at the start, before the start fails
    #[arg(long, env = "CLAPBOARD_DATABASE_CONNECT_TIMEOUT", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    database_connect_timeout: Duration,
}

impl DatabaseArgs {
    /// Returns how the database is reached; none when it is not said where it is.
    ///
    /// Errors: a sentence about the first setting that cannot be, without the URL.
    pub(crate) fn options(&self) -> anyhow::Result<Option<Options>> {
        for (name, duration) in [
            ("--database-acquire-timeout", self.database_acquire_timeout),
            ("--database-connect-timeout", self.database_connect_timeout),
        ] {
            ensure!(!duration.is_zero(), "{name} must not be zero");
        }
        let url = secret::given("--database-url", self.database_url.clone(), self.database_url_file.clone())?;
        let Some(url) = url else { return Ok(None) };
        let url: DatabaseUrl = url.reveal().parse().context("--database-url cannot be used")?;
        Ok(Some(Options {
            max_connections: self.database_connections,
            acquire_timeout: self.database_acquire_timeout,
            connect_timeout: self.database_connect_timeout,
            ..Options::new(url)
        }))
    }

    /// Returns how the database is reached.
    ///
    /// Errors: those of [`options`](Self::options), and when it is not said where the database is.
    pub(crate) fn required(&self) -> anyhow::Result<Options> {
        self.options()?.context("--database-url is missing: say where the Postgres database is (or set DATABASE_URL)")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        database: DatabaseArgs,
    }

    fn options(arguments: &[&str]) -> anyhow::Result<Options> {
        Cli::try_parse_from(["migrate"].iter().chain(arguments))?.database.required()
    }

    #[test]
    fn a_url_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, "postgres://u:hunter2@h/d\n").unwrap();
        let options = options(&["--database-url-file", file.to_str().unwrap(), "--database-connections", "3"]).unwrap();
        assert_eq!((options.url.to_string().as_str(), options.max_connections), ("postgres://u@h:5432/d", 3));
    }

    #[test]
    fn a_refusal_does_not_show_the_url() {
        for arguments in [
            ["--database-url", "mysql://u:hunter2@h/d"],
            ["--database-url", "postgres://u:hunter2@h"],
            ["--database-url=postgres://u:hunter2@h/d", "--database-connect-timeout=0s"],
            ["--database-url=postgres://u:hunter2@h/d", "--database-connections=0"],
            ["--database-url=postgres://u:hunter2@h/d", "--database-connections=4294967295"],
        ] {
            let refused = format!("{:#}", options(&arguments).unwrap_err());
            assert!(refused.contains("--database-") && !refused.contains("hunter2"), "{refused}");
        }
        let missing = options(&["--database-url-file", ""]).unwrap_err().to_string();
        assert!(missing.starts_with("--database-url is missing"), "{missing}");
    }
}
