//! `clapboard checkpoint`: writing tiny checkpoints and explaining any.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_engine::checkpoint::{Layout, inspect, tiny};

use crate::output;

/// Write a tiny checkpoint, or explain one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Tiny(TinyArgs),
    Inspect(InspectArgs),
}

/// Write a checkpoint of a few megabytes that exercises everything a released one has
///
/// Its weights follow from the seed alone, and it holds both partitions. It makes noise, not pictures.
#[derive(Debug, clap::Args)]
struct TinyArgs {
    /// What the weights are drawn from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How folders and tensors are named
    #[arg(long, default_value = "original", value_parser = layout())]
    layout: Layout,
    /// The directory to write, which must be absent or empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Print layout, partitions and sizes of a checkpoint, and what in it is missing, unknown or of the wrong shape
///
/// Reads configs and headers, no weights. Exits with 1 when the checkpoint cannot be served.
#[derive(Debug, clap::Args)]
struct InspectArgs {
    /// The checkpoint's directory
    #[arg(value_name = "DIR")]
    checkpoint: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Tiny(args) => write_tiny(&args),
        Command::Inspect(args) => explain(&args),
    }
}

fn write_tiny(args: &TinyArgs) -> anyhow::Result<ExitCode> {
    tiny::write_tiny(args.seed, args.layout, &args.out)?;
    output::line(format_args!(
        "wrote a tiny checkpoint of seed {} in the {} layout to {}",
        args.seed,
        args.layout,
        args.out.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn explain(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let inspection = inspect(&args.checkpoint)?;
    if args.json {
        let json = serde_json::to_string_pretty(&inspection).context("could not write the inspection as JSON")?;
        output::line(format_args!("{json}"));
    } else {
        output::line(format_args!("{inspection}"));
    }
    Ok(if inspection.is_usable() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn layout() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new([Layout::Original, Layout::Diffusers].map(Layout::as_str))
        .try_map(|name| name.parse::<Layout>())
}
