//! The one binary: it parses arguments, wires the rooms together, and does nothing else.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod api;
mod bench;
mod checkpoint;
mod doctor;
mod generate;
mod host;
mod interrupt;
mod jobs;
mod locked_dir;
mod migrate;
mod output;
mod process;
mod profile;
mod rooms;
mod scheduler;
mod serve;
mod settings;
mod table;
mod utc;
mod verify;
mod worker;
mod workers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::interrupt::Stopped;
use crate::settings::LogArgs;

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
    Api(api::Args),
    Worker(worker::Args),
    Scheduler(scheduler::Args),
    Migrate(migrate::Args),
    Doctor(doctor::Args),
    Jobs(jobs::Args),
    Workers(workers::Args),
    Bench(bench::Args),
    Generate(generate::Args),
    Checkpoint(checkpoint::Args),
    Verify(verify::Args),
}

fn main() -> ExitCode {
    choose_tls();
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            output::error_line(format_args!("clapboard: {}", causes(&error)));
            error.downcast_ref().map_or(ExitCode::FAILURE, |Stopped(signal)| signal.exit_code().into())
        }
    }
}

/// Chooses the one implementation of cryptography for every connection of the process.
fn choose_tls() {
    // It fails where one was chosen before, which nothing does.
    let _ = rustls::crypto::ring::default_provider().install_default();
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
    cli.log.init(if cli.command.is_a_service() { "info" } else { "warn" })?;
    match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Api(args) => api::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Scheduler(args) => scheduler::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Workers(args) => workers::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
        Command::Verify(args) => verify::run(args),
    }
}

impl Command {
    /// Tells whether it runs until it is asked to end.
    fn is_a_service(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Api(_) | Self::Worker(_) | Self::Scheduler(_))
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
        for absent in ["plan", "keys"] {
            assert!(Cli::try_parse_from(["clapboard", absent]).is_err(), "{absent} parses");
        }
    }

    /// What one call is to do, in contrast to what holds for a deployment.
    const OF_ONE_CALL: [&str; 9] =
        ["json", "status", "limit", "after", "oldest_first", "job", "worker", "partition", "check"];

    /// The variables that have a usual name.
    const USUAL: [(&str, &str); 9] = [
        ("database_url", "DATABASE_URL"),
        ("database_url_file", "DATABASE_URL_FILE"),
        ("redis_url", "REDIS_URL"),
        ("redis_url_file", "REDIS_URL_FILE"),
        ("s3_region", "AWS_REGION"),
        ("s3_access_key_id", "AWS_ACCESS_KEY_ID"),
        ("s3_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
        ("s3_secret_access_key_file", "AWS_SECRET_ACCESS_KEY_FILE"),
        ("s3_session_token", "AWS_SESSION_TOKEN"),
    ];

    #[test]
    fn every_setting_of_a_deployment_has_an_environment_twin_and_a_help_text() {
        let mut command = Cli::command();
        command.build();
        for name in ["serve", "api", "worker", "scheduler", "migrate", "doctor", "jobs", "workers"] {
            check(command.find_subcommand(name).unwrap(), name);
        }
    }

    fn check(command: &clap::Command, path: &str) {
        let is_service = ["serve", "api", "worker", "scheduler"].contains(&path);
        for argument in command.get_arguments() {
            let name = argument.get_id().as_str();
            if ["help", "version"].contains(&name) {
                continue;
            }
            assert!(argument.get_help().is_some(), "{path}: {name} has no help");
            if OF_ONE_CALL.contains(&name) && !is_service {
                continue;
            }
            let usual = USUAL.iter().find(|(setting, _)| *setting == name).map(|(_, twin)| (*twin).to_owned());
            let twin = usual.unwrap_or_else(|| format!("CLAPBOARD_{}", name.to_uppercase()));
            assert_eq!(argument.get_env().and_then(|env| env.to_str()), Some(twin.as_str()), "{path}: {name}");
        }
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            check(inner, &format!("{path} {}", inner.get_name()));
        }
    }

    #[test]
    fn the_help_shows_no_secret_of_the_environment() {
        let mut command = Cli::command();
        command.build();
        for name in ["api", "worker", "scheduler", "migrate", "doctor"] {
            let found = command.find_subcommand(name).unwrap();
            let secrets = ["database_url", "redis_url", "s3_secret_access_key", "s3_session_token"];
            for argument in found.get_arguments().filter(|argument| secrets.contains(&argument.get_id().as_str())) {
                assert!(argument.is_hide_env_values_set(), "{name} shows {}", argument.get_id());
            }
        }
    }
}
