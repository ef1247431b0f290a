//! The settings of the standalone service as they are used, checked against each other.

use std::net::SocketAddr;
use std::path::PathBuf;

use clapboard_engine::EngineConfig;
use clapboard_jobs::Policy;
use clapboard_media::MediaTools;

use super::args::Args;
use crate::settings::{Http, WorkerSettings};

/// The settings of the service, checked against each other.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) engine: EngineConfig,
    pub(super) tools: MediaTools,
    pub(super) http: Http,
    pub(super) data: PathBuf,
    pub(super) policy: Policy,
    pub(super) worker: WorkerSettings,
    pub(super) scheduler: clapboard_scheduler::Options,
    /// How many hints a queue holds.
    pub(super) window: usize,
    pub(super) metrics_listen: Option<SocketAddr>,
}

impl TryFrom<Args> for Config {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting, or pair of settings, that cannot be.
    fn try_from(args: Args) -> anyhow::Result<Self> {
        let Args { mut engine, partitions, media, http, data, policy, worker, sweeps, webhooks, telemetry } = args;
        engine.set_data(&data);
        let mut http = Http::try_from(http)?;
        webhooks.apply(&mut http.options);
        let policy = policy.policy()?;
        let worker = worker.settings(&policy)?;
        Ok(Self {
            scheduler: sweeps.options(&webhooks)?,
            window: sweeps.window(),
            metrics_listen: telemetry.metrics_listen(),
            engine: engine.config(partitions.partitions())?,
            tools: media.find()?,
            http,
            data,
            policy,
            worker,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn config(more: &[&str]) -> anyhow::Result<Config> {
        let base = ["serve", "--checkpoint", "checkpoint", "--data", "data"];
        Config::try_from(Cli::try_parse_from(base.iter().chain(more))?.args)
    }

    fn refusal(more: &[&str]) -> String {
        format!("{:#}", config(more).unwrap_err())
    }

    #[test]
    fn the_defaults_are_sound() {
        let config = config(&[]).unwrap();
        assert_eq!(config.http.listen.to_string(), "127.0.0.1:8000");
        assert_eq!(config.policy, Policy::default());
    }

    #[test]
    fn settings_that_contradict_each_other_are_named() {
        let refused = refusal(&["--lease", "10s", "--beat-interval", "8s"]);
        assert!(refused.contains("--beat-interval") && refused.contains("too slow for a lease of 10s"), "{refused}");
        let refused = refusal(&["--max-attempts", "0"]);
        assert!(
            refused.contains("--max-attempts") && refused.ends_with("a job needs at least one attempt"),
            "{refused}"
        );
        let refused = refusal(&["--result-life", "30d", "--record-life", "7d"]);
        assert!(refused.contains("--result-life and --record-life: a job that is kept for"), "{refused}");
        for life in ["--result-life", "--record-life"] {
            assert_eq!(refusal(&[life, "0s"]), format!("{life} must not be zero: leave it out to keep what there is"));
        }
        assert!(refusal(&["--attention-scratch-mib", "0"]).contains("--attention-scratch-mib must be at least 1"));
    }

    #[test]
    fn a_life_may_be_counted_in_days() {
        let policy = config(&["--result-life", "7d", "--record-life", "30d"]).unwrap().policy;
        let days = |days: u64| Some(Duration::from_secs(days * 24 * 3600));
        assert_eq!((policy.result_life, policy.record_life), (days(7), days(30)));
    }

    #[test]
    fn a_missing_ffmpeg_stops_the_start() {
        let refused = refusal(&["--ffmpeg", "/nowhere/ffmpeg"]);
        assert!(refused.contains("could not find ffmpeg at /nowhere/ffmpeg: install ffmpeg"), "{refused}");
    }
}
