//! `clapboard bench`: measures, for docs/benchmarks.md and for whoever doubts it.

mod client;
mod engine;
mod figures;
mod generation;
mod library;
mod loaded_claims;
mod noop;
mod post_to_start;
mod processes;
mod queue;
mod recovery;

use std::process::ExitCode;

use clap::Subcommand;

/// Measure parts of the service on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Engine(engine::Args),
    Generation(generation::Args),
    Queue(queue::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Engine(args) => engine::run(args),
        What::Generation(args) => generation::run(args),
        What::Queue(args) => queue::run(args),
    }
}
