//! The one binary: it parses arguments, wires the rooms together, and does nothing else.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod checkpoint;
mod duration;
mod engine_args;
mod generate;
mod interrupt;
mod log_args;
mod output;
mod profile;
mod serve;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::interrupt::Stopped;
use crate::log_args::LogArgs;

/// Clapboard turns a prompt into an MP4 with MiniMax-H3: a durable job queue, and the engine behind it.
#[derive(Debug, Parser)]
#[command(name = "clapboard", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Generate(generate::Args),
    Checkpoint(checkpoint::Args),
    Verify(verify::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            output::error_line(format_args!("clapboard: {}", causes(&error)));
            error.downcast_ref().map_or(ExitCode::FAILURE, |Stopped(signal)| signal.exit_code().into())
        }
    }
}

/// Joins an error with its causes on one line, each said once: some errors repeat their cause in their own words.
fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => {
            cli.log.init("info")?;
            serve::run(args)
        }
        Command::Generate(args) => {
            cli.log.init("warn")?;
            generate::run(args)
        }
        Command::Checkpoint(args) => {
            cli.log.init("warn")?;
            checkpoint::run(args)
        }
        Command::Verify(args) => {
            cli.log.init("warn")?;
            verify::run(args)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_cause_is_told_once() {
        let error = anyhow::anyhow!("no level").context("bad filter: no level").context("could not start");
        assert_eq!(causes(&error), "could not start: bad filter: no level");
    }

    #[test]
    fn what_is_not_built_does_not_parse() {
        for absent in ["api", "worker", "scheduler", "migrate", "plan", "bench", "doctor", "jobs", "workers", "keys"] {
            assert!(Cli::try_parse_from(["clapboard", absent]).is_err(), "{absent} parses");
        }
    }

    #[test]
    fn every_setting_of_the_service_has_an_environment_twin_and_a_help_text() {
        let mut command = Cli::command();
        command.build();
        let serve = command.find_subcommand("serve").unwrap();
        for argument in serve.get_arguments() {
            let name = argument.get_id().as_str();
            if ["help", "version"].contains(&name) {
                continue;
            }
            let twin = format!("CLAPBOARD_{}", name.to_uppercase());
            assert_eq!(argument.get_env().and_then(|env| env.to_str()), Some(twin.as_str()), "{name}");
            assert!(argument.get_help().is_some(), "{name} has no help");
        }
    }
}
