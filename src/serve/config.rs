//! The settings of the service as they are used, checked against each other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clapboard_engine::EngineConfig;
use clapboard_jobs::{Policy, WorkerId};
use clapboard_media::Ffmpeg;
use clapboard_worker::StallLimits;

use super::args::Args;

/// The settings of the service, checked against each other.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) engine: EngineConfig,
    pub(crate) ffmpeg: Ffmpeg,
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) policy: Policy,
    pub(crate) api: clapboard_api::Options,
    pub(crate) worker: WorkerSettings,
    pub(crate) scheduler: clapboard_scheduler::Options,
}

/// What the worker goes by, apart from its id and folder.
#[derive(Debug)]
pub(crate) struct WorkerSettings {
    beat_interval: Duration,
    fence_margin: Duration,
    poll_interval: Duration,
    stall_limit: Duration,
    encode_timeout: Duration,
    upload_deadline: Duration,
    unwell_pause: Duration,
    pub(crate) drain_timeout: Duration,
}

impl WorkerSettings {
    /// Gives the worker its options.
    pub(crate) fn options(&self, worker: WorkerId, scratch: PathBuf, policy: &Policy) -> clapboard_worker::Options {
        clapboard_worker::Options {
            lease: policy.lease,
            beat_interval: self.beat_interval,
            fence_margin: self.fence_margin,
            stall_limits: StallLimits::all(self.stall_limit),
            poll_interval: self.poll_interval,
            encode_timeout: self.encode_timeout,
            upload_deadline: self.upload_deadline,
            unwell_pause: self.unwell_pause,
            drain_timeout: self.drain_timeout,
            ..clapboard_worker::Options::new(worker, scratch)
        }
    }
}

impl TryFrom<Args> for Config {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting, or pair of settings, that cannot be.
    fn try_from(args: Args) -> anyhow::Result<Self> {
        let Args { engine, media, http, jobs, sweeps } = args;
        if !http.listen.ip().is_loopback() && http.no_auth < 2 {
            let advice = match http.no_auth {
                0 => "listen on 127.0.0.1, or say --no-auth twice",
                _ => "--no-auth was said once; say it twice, or listen on 127.0.0.1",
            };
            bail!(
                "--listen {} is reachable from other machines, and this service knows no keys: anybody there could use \
                 it; {advice}",
                http.listen
            );
        }
        ensure!(
            (1..=1024).contains(&http.max_body_mib),
            "--max-body-mib must be from 1 to 1024, got {}",
            http.max_body_mib
        );
        for (name, duration) in [
            ("--sync-timeout", http.sync_timeout),
            ("--body-timeout", http.body_timeout),
            ("--header-timeout", http.header_timeout),
            ("--write-timeout", http.write_timeout),
        ] {
            ensure!(!duration.is_zero(), "{name} must not be zero");
        }
        ensure!(http.max_connections > 0, "--max-connections must be at least 1");
        let policy = Policy { lease: jobs.lease, max_attempts: jobs.max_attempts };
        let policy = policy.validated().context("--lease and --max-attempts")?;
        let worker = WorkerSettings {
            beat_interval: jobs.beat_interval,
            fence_margin: jobs.fence_margin,
            poll_interval: jobs.poll_interval,
            stall_limit: jobs.stall_limit,
            encode_timeout: jobs.encode_timeout,
            upload_deadline: jobs.upload_deadline,
            unwell_pause: jobs.unwell_pause,
            drain_timeout: jobs.drain_timeout,
        };
        // Only the durations matter here; id and folder are known once the data directory is locked.
        worker
            .options(WorkerId::new(), PathBuf::new(), &policy)
            .validated()
            .context("--lease, --beat-interval, --fence-margin, --poll-interval, --unwell-pause and --stall-limit")?;
        let scheduler = clapboard_scheduler::Options {
            refill_interval: sweeps.refill_interval,
            refill_window: sweeps.refill_window,
            reaper_interval: sweeps.reaper_interval,
            garbage_interval: sweeps.garbage_interval,
            orphan_interval: sweeps.orphan_interval,
            orphan_age: sweeps.orphan_age,
            ..clapboard_scheduler::Options::default()
        };
        let scheduler = scheduler.validated().context("the settings of the sweeps")?;
        Ok(Self {
            engine: engine.config()?,
            ffmpeg: media.find()?,
            listen: http.listen,
            data: jobs.data,
            policy,
            api: clapboard_api::Options {
                model_aliases: http.model_alias,
                default_seed: http.default_seed,
                max_body_bytes: http.max_body_mib << 20,
                body_timeout: http.body_timeout,
                header_read_timeout: http.header_timeout,
                write_timeout: http.write_timeout,
                max_connections: http.max_connections,
                closing_grace: http.closing_grace,
                sync_timeout: http.sync_timeout,
                poll_after: http.poll_after,
                ..clapboard_api::Options::default()
            },
            worker,
            scheduler,
        })
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(config.listen.to_string(), "127.0.0.1:8000");
        assert_eq!(config.policy, Policy::default());
    }

    #[test]
    fn other_machines_are_let_in_only_when_it_is_said_twice() {
        assert!(refusal(&["--listen", "0.0.0.0:8000"]).contains("say --no-auth twice"));
        assert!(refusal(&["--listen", "[::]:8000", "--no-auth"]).contains("--no-auth was said once; say it twice"));
        assert!(config(&["--listen", "0.0.0.0:8000", "--no-auth", "--no-auth"]).is_ok());
        assert!(config(&["--listen", "[::1]:8000"]).is_ok());
    }

    #[test]
    fn settings_that_contradict_each_other_are_named() {
        let refused = refusal(&["--lease", "10s", "--beat-interval", "8s"]);
        assert!(refused.contains("--beat-interval") && refused.contains("too slow for a lease of 10s"), "{refused}");
        let refused = refusal(&["--max-attempts", "0"]);
        assert!(refused.contains("--max-attempts: a job needs at least one attempt"), "{refused}");
        assert!(refusal(&["--max-body-mib", "0"]).contains("--max-body-mib must be from 1 to 1024, got 0"));
        assert!(refusal(&["--attention-scratch-mib", "0"]).contains("--attention-scratch-mib must be at least 1"));
    }

    #[test]
    fn an_address_is_asked_for_by_example() {
        for text in ["8000", "localhost:8000", "127.0.0.1"] {
            let refused = refusal(&["--listen", text]);
            let expected = format!("{text:?} is not an address and a port such as 127.0.0.1:8000");
            assert!(refused.contains(&expected), "{refused}");
        }
    }

    #[test]
    fn weights_of_tasks_that_are_not_built_are_refused() {
        let refused = refusal(&["--partition", "ref2va"]);
        assert_eq!(refused, "--partition ref2va serves no task that is built: t2va needs fl2va");
    }

    #[test]
    fn a_missing_ffmpeg_stops_the_start() {
        let refused = refusal(&["--ffmpeg", "/nowhere/ffmpeg"]);
        assert!(refused.contains("could not find ffmpeg at /nowhere/ffmpeg: install ffmpeg"), "{refused}");
    }
}
