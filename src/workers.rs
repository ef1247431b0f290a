//! `clapboard workers`: who works, and asking them not to.

use std::process::ExitCode;

use anyhow::ensure;
use clap::Subcommand;
use clapboard_h3::Partition;
use clapboard_jobs::{Micros, WorkerId, WorkerRecord};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::output;
use crate::process::block_on;
use crate::settings::{JobStoreArgs, partition};
use crate::table::Table;
use crate::utc;

/// List workers, ask one to drain, pause a partition or let it go on
///
/// Works over the database of the distributed mode, or over the data directory of a standalone service, which may be
/// running.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(ListArgs),
    Drain(DrainArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
}

/// Where the workers take their jobs from, and how they are told.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    #[command(flatten)]
    from: JobStoreArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// List the workers that were heard of in the last minute, and the paused partitions
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    common: CommonArgs,
}

/// Ask a worker to drain: its process ends as at SIGTERM
#[derive(Debug, clap::Args)]
struct DrainArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// The worker, by the id that `workers list` shows
    #[arg(value_name = "ID", value_parser = worker_id)]
    worker: Uuid,
}

/// Let no job of a partition begin; running ones go on, and new ones are accepted and wait
#[derive(Debug, clap::Args)]
struct PauseArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// The partition
    #[arg(value_name = "PARTITION", value_parser = partition())]
    partition: Partition,
}

/// Let a paused partition go on
#[derive(Debug, clap::Args)]
struct ResumeArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// The partition
    #[arg(value_name = "PARTITION", value_parser = partition())]
    partition: Partition,
}

/// Reads the id of a worker.
fn worker_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| format!("{text:?} is not the id of a worker, such as `clapboard workers list` shows"))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    block_on(async {
        match args.command {
            Command::List(args) => list(args.common).await,
            Command::Drain(args) => drain(args).await,
            Command::Pause(PauseArgs { common, partition }) => set_paused(common, partition, true).await,
            Command::Resume(ResumeArgs { common, partition }) => set_paused(common, partition, false).await,
        }
    })
    .map(|()| ExitCode::SUCCESS)
}

async fn list(common: CommonArgs) -> anyhow::Result<()> {
    let store = common.from.open().await?;
    let (workers, paused) = (store.workers().await?, store.paused().await?);
    if common.json {
        let workers: Vec<Value> = workers.iter().map(object).collect();
        output::json(&json!({ "workers": workers, "paused": paused }));
        return Ok(());
    }
    let now = store.now().await?;
    output::line(format_args!("{}", table(&workers, now)));
    for partition in paused {
        output::line(format_args!("{partition} is paused: none of its jobs begins"));
    }
    Ok(())
}

async fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let DrainArgs { common, worker } = args;
    let known = common.from.open().await?.ask_drain(WorkerId(worker)).await?;
    ensure!(known, "there is no worker {worker}: `clapboard workers list` shows those that there are");
    if common.json {
        output::json(&json!({ "id": worker, "drain_requested": true }));
    } else {
        output::line(format_args!("worker {worker} drains as soon as it hears of it, and its process ends"));
    }
    Ok(())
}

async fn set_paused(common: CommonArgs, partition: Partition, paused: bool) -> anyhow::Result<()> {
    common.from.open().await?.set_paused(partition, paused).await?;
    if common.json {
        output::json(&json!({ "partition": partition, "paused": paused }));
    } else if paused {
        output::line(format_args!("{partition} is paused: none of its jobs begins until it is resumed"));
    } else {
        output::line(format_args!("{partition} goes on"));
    }
    Ok(())
}

fn table(workers: &[WorkerRecord], now: Micros) -> Table<8> {
    let mut table = Table::new(["ID", "HOST", "VERSION", "PARTITIONS", "MAX ROWS", "STATE", "STARTED", "SEEN"]);
    for WorkerRecord { card, started_at, seen_at, drain_requested } in workers {
        let asked = if *drain_requested { " (asked to drain)" } else { "" };
        table.add([
            card.id.to_string(),
            card.host.clone(),
            card.version.clone(),
            names(&card.partitions).join(","),
            card.max_rows.map_or_else(|| "any".to_owned(), |rows| rows.to_string()),
            format!("{}{asked}", card.state),
            utc::seconds(*started_at),
            format!("{} s ago", now.since(*seen_at).as_secs()),
        ]);
    }
    table
}

fn object(worker: &WorkerRecord) -> Value {
    json!({
        "id": worker.card.id,
        "host": worker.card.host,
        "version": worker.card.version,
        "partitions": worker.card.partitions,
        "max_rows": worker.card.max_rows,
        "state": worker.card.state.as_str(),
        "started_at": utc::rfc3339(worker.started_at),
        "seen_at": utc::rfc3339(worker.seen_at),
        "drain_requested": worker.drain_requested,
    })
}

fn names(partitions: &[Partition]) -> Vec<&'static str> {
    partitions.iter().map(|partition| partition.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_named_by_its_id() {
        let id = WorkerId::new();
        assert_eq!(worker_id(&id.to_string()), Ok(id.0));
        for wrong in ["", "xx", "fl2va", "0197f000-0000-7000-8000-0000000000a"] {
            let expected = format!("{wrong:?} is not the id of a worker, such as `clapboard workers list` shows");
            assert_eq!(worker_id(wrong), Err(expected));
        }
    }
}
