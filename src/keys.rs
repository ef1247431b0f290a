//! `clapboard keys`: the API keys by which clients are known.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;

use clap::Subcommand;
use clapboard_jobs::{ApiKey, Micros};
use serde_json::{Value, json};

use crate::process::block_on;
use crate::utc;

/// Make API keys, list them and revoke them
///
/// Works over the database of the distributed mode, or over the data directory of a standalone service, which may be
/// running. Keys are asked for by a service that runs with --auth keys.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Args),
    List(list::Args),
    Revoke(revoke::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    block_on(async {
        match args.command {
            Command::Create(args) => create::run(args).await,
            Command::List(args) => list::run(args).await,
            Command::Revoke(args) => revoke::run(args).await,
        }
    })
    .map(|()| ExitCode::SUCCESS)
}

/// Describes a key for a program.
fn object(key: &ApiKey) -> Value {
    json!({
        "id": key.id.to_string(),
        "tenant": key.tenant,
        "name": key.name,
        "hint": key.hint,
        "scopes": scopes(key),
        "requests_per_minute": key.rate.map(|rate| rate.per_minute),
        "created_at": utc::rfc3339(key.created_at),
        "revoked_at": key.revoked_at.map(utc::rfc3339),
    })
}

fn scopes(key: &ApiKey) -> Vec<&'static str> {
    key.scopes.iter().map(|scope| scope.as_str()).collect()
}

/// Says since when a key is good for nothing.
fn revoked(at: Option<Micros>) -> String {
    at.map_or_else(String::new, utc::seconds)
}
