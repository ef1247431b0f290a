//! `clapboard migrate`: brings the tables of Postgres up to date.

use std::process::ExitCode;

use anyhow::Context;
use clapboard_jobs::Policy;
use clapboard_store_postgres::{Migrated, OpenError, Options, PostgresStore, migrate};

use crate::output;
use crate::process::block_on;
use crate::settings::DatabaseArgs;

/// Apply the migrations that the database lacks, and say which
///
/// May run while services use the database, and several times at once. Migrations go forward only.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Change nothing, and exit with 1 when there is something to apply
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = args.database.required()?;
    block_on(async { if args.check { check(&options).await } else { apply(&options).await } })
}

async fn apply(options: &Options) -> anyhow::Result<ExitCode> {
    let Migrated { applied, version } = migrate(options).await.context("could not migrate")?;
    for (number, name) in &applied {
        output::line(format_args!("applied {number}: {name}"));
    }
    let address = options.url.address();
    let done = if applied.is_empty() { "was up to date" } else { "is up to date now" };
    output::line(format_args!("{address} {done}, at migration {version}"));
    Ok(ExitCode::SUCCESS)
}

async fn check(options: &Options) -> anyhow::Result<ExitCode> {
    match PostgresStore::connect(options, Policy::default()).await {
        Ok(store) => {
            store.close().await;
            output::line(format_args!("{} is up to date", options.url.address()));
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ OpenError::NotMigrated { .. }) => {
            output::line(format_args!("{error}"));
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(anyhow::Error::new(error).context("could not look at the tables")),
    }
}
