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
mod keys;
mod locked_dir;
mod migrate;
mod monitor;
mod output;
mod plan;
mod process;
mod profile;
mod rooms;
mod scheduler;
mod serve;
mod settings;
mod spool;
mod table;
mod tenants;
mod utc;
mod verify;
mod worker;
mod workers;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::interrupt::Stopped;
use crate::settings::{LogArgs, TelemetryArgs};

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
    Keys(keys::Args),
    Tenants(tenants::Args),
    Bench(bench::Args),
    Generate(generate::Args),
    Checkpoint(checkpoint::Args),
    Plan(plan::Args),
    Verify(verify::Args),
}

fn main() -> ExitCode {
    choose_tls();
    let matches = explained(without_variables(Cli::command(), &is_empty)).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut Cli::command()).exit());
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            output::error_line(format_args!("clapboard: {}", causes(&error)));
            error.downcast_ref().map_or(ExitCode::FAILURE, |Stopped(signal)| signal.exit_code().into())
        }
    }
}

/// Tells whether a variable is there and empty.
#[expect(
    clippy::disallowed_methods,
    reason = "clap reads the variable, this only asks whether there is anything to read"
)]
fn is_empty(variable: &OsStr) -> bool {
    std::env::var_os(variable).is_some_and(|value| value.is_empty())
}

/// Lets every setting do without its variable where that `is_empty`: it counts as not set, as one that a compose file
/// passes on without having it.
fn without_variables(command: clap::Command, is_empty: &impl Fn(&OsStr) -> bool) -> clap::Command {
    let command = command.mut_args(|argument| {
        if argument.get_env().is_some_and(is_empty) { argument.env(Resettable::Reset) } else { argument }
    });
    command.mut_subcommands(|command| without_variables(command, is_empty))
}

/// Says under the help of every command that takes durations how they are written.
fn explained(command: clap::Command) -> clap::Command {
    let names_one = |argument: &clap::Arg| argument.get_value_names().is_some_and(|names| names[0] == "DURATION");
    let takes_some = command.get_arguments().any(names_one);
    let command = if takes_some { command.after_help(settings::duration::FORM) } else { command };
    command.mut_subcommands(explained)
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
    let traces = cli.command.telemetry().and_then(|(args, command)| args.traces(command));
    let telemetry = cli.log.init(if cli.command.is_a_service() { "info" } else { "warn" }, traces.as_ref())?;
    interrupt::flush_at_exit(telemetry.last_lines());
    match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Api(args) => api::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Scheduler(args) => scheduler::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Workers(args) => workers::run(args),
        Command::Keys(args) => keys::run(args),
        Command::Tenants(args) => tenants::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Verify(args) => verify::run(args),
    }
}

impl Command {
    /// Tells whether it runs until it is asked to end.
    fn is_a_service(&self) -> bool {
        self.telemetry().is_some()
    }

    /// Returns what a service is to tell about itself, and its name.
    fn telemetry(&self) -> Option<(&TelemetryArgs, &'static str)> {
        match self {
            Self::Serve(args) => Some((&args.telemetry, "serve")),
            Self::Api(args) => Some((&args.telemetry, "api")),
            Self::Worker(args) => Some((&args.telemetry, "worker")),
            Self::Scheduler(args) => Some((&args.telemetry, "scheduler")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::builder::ValueParser;

    use super::*;
    use crate::settings::Secret;

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
        assert!(Cli::try_parse_from(["clapboard", "webhooks"]).is_err(), "webhooks parses");
    }

    /// What one call is to do, in contrast to what holds for a deployment.
    const OF_ONE_CALL: [&str; 17] = [
        "json",
        "status",
        "limit",
        "after",
        "oldest_first",
        "job",
        "worker",
        "partition",
        "check",
        "name",
        "scope",
        "requests_per_minute",
        "key",
        "weight",
        "max_running",
        "max_queued",
        "only_tenant",
    ];

    /// The variables that have a usual name.
    const USUAL: [(&str, &str); 11] = [
        ("otel_exporter_otlp_endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("database_url", "DATABASE_URL"),
        ("database_url_file", "DATABASE_URL_FILE"),
        ("redis_url", "REDIS_URL"),
        ("redis_url_file", "REDIS_URL_FILE"),
        ("s3_region", "AWS_REGION"),
        ("s3_access_key_id", "AWS_ACCESS_KEY_ID"),
        ("s3_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
        ("s3_secret_access_key_file", "AWS_SECRET_ACCESS_KEY_FILE"),
        ("s3_session_token", "AWS_SESSION_TOKEN"),
        ("s3_session_token_file", "AWS_SESSION_TOKEN_FILE"),
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

    /// Returns a command and all that are below it.
    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let below = command.get_subcommands().flat_map(all);
        std::iter::once(command).chain(below).collect()
    }

    #[test]
    fn every_secret_is_hidden_from_the_help_and_may_stand_in_a_file() {
        let mut command = Cli::command();
        command.build();
        let secret = ValueParser::from(clap::value_parser!(Secret)).type_id();
        let mut found = Vec::new();
        for command in all(&command) {
            for argument in command.get_arguments() {
                let (name, id) = (command.get_name(), argument.get_id().as_str());
                if argument.get_value_parser().type_id() == secret {
                    found.push(id);
                    assert!(argument.is_hide_env_values_set(), "{name} shows {id}");
                    let file = format!("{id}_file");
                    let twin = command.get_arguments().find(|argument| argument.get_id().as_str() == file);
                    assert!(twin.is_some(), "{name} takes {id} from no file");
                } else if id == "s3_access_key_id" {
                    // Half of a pair: no secret, and nobody's business.
                    assert!(argument.is_hide_env_values_set(), "{name} shows {id}");
                }
            }
        }
        for id in ["database_url", "redis_url", "s3_secret_access_key", "s3_session_token"] {
            assert!(found.contains(&id), "{id} is no secret");
        }
    }

    #[test]
    fn every_help_that_names_a_duration_says_how_one_is_written() {
        let mut command = explained(Cli::command());
        command.build();
        let mut told = 0;
        for command in all(&command) {
            let help = command.clone().render_long_help().to_string();
            assert_eq!(help.contains("<DURATION>"), help.contains(settings::duration::FORM), "{}", command.get_name());
            told += usize::from(help.contains(settings::duration::FORM));
        }
        assert!(told >= 6, "only {told} commands take durations");
    }

    #[test]
    fn a_variable_that_is_empty_counts_as_not_set() {
        let is_empty = |variable: &OsStr| ["CLAPBOARD_RESULT_LIFE", "CLAPBOARD_LOG"].iter().any(|it| variable == *it);
        let mut command = without_variables(Cli::command(), &is_empty);
        command.build();
        let scheduler = command.find_subcommand("scheduler").unwrap();
        let variable = |id: &str| scheduler.get_arguments().find(|it| it.get_id() == id).unwrap().get_env();
        assert_eq!((variable("result_life"), variable("log")), (None, None));
        assert_eq!(variable("record_life"), Some(OsStr::new("CLAPBOARD_RECORD_LIFE")));
    }

    #[test]
    fn every_number_with_a_unit_says_so() {
        let mut command = Cli::command();
        command.build();
        for command in all(&command) {
            for argument in command.get_arguments() {
                let is_mib = argument.get_value_names().is_some_and(|names| names[0] == "MIB");
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!is_mib || help.contains("in MiB"), "{}: {}", command.get_name(), argument.get_id());
            }
        }
    }
}
