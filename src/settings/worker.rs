//! What a worker goes by.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_jobs::{Policy, WorkerId};
use clapboard_worker::{DrainMode, Options, StallLimits};

use super::duration;
use crate::host::host_name;

/// How jobs are run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Worker")]
pub(crate) struct WorkerArgs {
    /// How often a running job's lease is renewed, its progress written and a cancel heard; less than half of --lease
    #[arg(long, env = "CLAPBOARD_BEAT_INTERVAL", value_name = "DURATION", default_value = "2s",
          value_parser = duration::parse)]
    beat_interval: Duration,
    /// How long before the end of its lease the engine is stopped when no heartbeat gets through; with --beat-interval it
    /// is shorter than --lease
    #[arg(long, env = "CLAPBOARD_FENCE_MARGIN", value_name = "DURATION", default_value = "15s",
          value_parser = duration::parse)]
    fence_margin: Duration,
    /// How often an idle worker looks for jobs itself, whatever hints it gets
    #[arg(long, env = "CLAPBOARD_POLL_INTERVAL", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    poll_interval: Duration,
    /// How long before the engine is predicted to be free the next job is claimed, so that its inputs are ready then;
    /// 0s for only when it is
    #[arg(long, env = "CLAPBOARD_PREFETCH_WINDOW", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    prefetch_window: Duration,
    /// How often a running job's denoising state is stored, so that another attempt goes on from it; 0s for only
    /// when the worker drains
    #[arg(long, env = "CLAPBOARD_CHECKPOINT_INTERVAL", value_name = "DURATION", default_value = "60s",
          value_parser = duration::parse)]
    checkpoint_interval: Duration,
    /// The longest packed sequence that this worker takes, in rows, as `clapboard jobs show` tells those of a job
    /// [default: the longest that the GPU's budget holds with --offload layer, otherwise any that the model allows]
    #[arg(long, env = "CLAPBOARD_MAX_ROWS", value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    max_rows: Option<u64>,
    /// How long the engine may stay at one layer, block, tile or part of loading its weights before it counts as wedged and
    /// the process ends; and how long a decoder of inputs may do nothing before its attempt fails: more than 2m
    #[arg(long, env = "CLAPBOARD_STALL_LIMIT", value_name = "DURATION", default_value = "10m",
          value_parser = duration::parse)]
    stall_limit: Duration,
    /// How long ffmpeg may take to finish a file after its last frame; less than --stall-limit
    #[arg(long, env = "CLAPBOARD_ENCODE_TIMEOUT", value_name = "DURATION", default_value = "5m",
          value_parser = duration::parse)]
    encode_timeout: Duration,
    /// How long a stored video waits for its thumbnail and spritesheet to be made, before it is completed without them
    #[arg(long, env = "CLAPBOARD_PREVIEW_TIMEOUT", value_name = "DURATION", default_value = "60s",
          value_parser = duration::parse)]
    preview_timeout: Duration,
    /// How long storing a finished file is tried
    #[arg(long, env = "CLAPBOARD_UPLOAD_DEADLINE", value_name = "DURATION", default_value = "30m",
          value_parser = duration::parse)]
    upload_deadline: Duration,
    /// How long fetching a job's inputs is tried, before the job is handed back uncounted
    #[arg(long, env = "CLAPBOARD_INPUT_DEADLINE", value_name = "DURATION", default_value = "30m",
          value_parser = duration::parse)]
    input_deadline: Duration,
    /// How long a worker claims nothing after a fault of the machine, such as a full disk; doubled with each further one,
    /// up to 2m
    #[arg(long, env = "CLAPBOARD_UNWELL_PAUSE", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    unwell_pause: Duration,
    /// What a draining worker does with its running job: hand it back, to be gone on with elsewhere; or finish it
    #[arg(long, env = "CLAPBOARD_DRAIN", value_name = "HOW", default_value = "hand-back", value_parser = drain())]
    drain: DrainMode,
    /// How long a draining worker waits for its engine to stop at the next block and for uploads, before it hands jobs
    /// back all the same; --drain finish knows no limit
    #[arg(long, env = "CLAPBOARD_DRAIN_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    drain_timeout: Duration,
}

/// The checked settings of a worker: all that it goes by apart from its id and its folder.
#[derive(Debug)]
pub(crate) struct WorkerSettings(Options);

impl WorkerArgs {
    /// Checks the settings against each other and the policy.
    ///
    /// Errors: a sentence about the first pair that cannot be.
    pub(crate) fn settings(&self, policy: &Policy) -> anyhow::Result<WorkerSettings> {
        let options = Options {
            lease: policy.lease,
            host: host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            max_rows: self.max_rows,
            beat_interval: self.beat_interval,
            fence_margin: self.fence_margin,
            stall_limits: StallLimits::all(self.stall_limit),
            poll_interval: self.poll_interval,
            prefetch_window: self.prefetch_window,
            checkpoint_interval: Some(self.checkpoint_interval).filter(|interval| !interval.is_zero()),
            encode_timeout: self.encode_timeout,
            preview_timeout: self.preview_timeout,
            upload_deadline: self.upload_deadline,
            input_fetch_deadline: self.input_deadline,
            unwell_pause: self.unwell_pause,
            drain: self.drain,
            drain_timeout: self.drain_timeout,
            ..Options::new(WorkerId::new(), PathBuf::new())
        };
        ensure!(!self.input_deadline.is_zero(), "--input-deadline must not be zero");
        let options = options.validated().context(
            "--lease, --beat-interval, --fence-margin, --poll-interval, --unwell-pause, --encode-timeout and --stall-limit",
        )?;
        Ok(WorkerSettings(options))
    }
}

impl WorkerSettings {
    /// The same for an engine that has memory for sequences of at most `rows`, if anything bounds them.
    pub(crate) fn within(self, rows: Option<u64>) -> Self {
        let max_rows = [self.0.max_rows, rows].into_iter().flatten().min();
        Self(Options { max_rows, ..self.0 })
    }

    /// Returns the options of a worker that begins now and works in `scratch`.
    pub(crate) fn options(&self, scratch: PathBuf) -> Options {
        Options { worker: WorkerId::new(), scratch, ..self.0.clone() }
    }

    /// Returns the longest packed sequence that the worker takes, in rows.
    pub(crate) fn max_rows(&self) -> Option<u64> {
        self.0.max_rows
    }

    /// Returns how long the worker may take to drain; none when it finishes its job first, however long that takes.
    pub(crate) fn drain_limit(&self) -> Option<Duration> {
        match self.0.drain {
            DrainMode::HandBack => Some(self.0.drain_timeout),
            DrainMode::Finish => None,
        }
    }
}

fn drain() -> impl TypedValueParser<Value = DrainMode> {
    PossibleValuesParser::new(["hand-back", "finish"]).map(|name| match name.as_str() {
        "finish" => DrainMode::Finish,
        _ => DrainMode::HandBack,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        worker: WorkerArgs,
    }

    #[test]
    fn the_defaults_are_those_of_the_worker_itself() {
        let settings = Cli::try_parse_from(["worker"]).unwrap().worker.settings(&Policy::default()).unwrap();
        let usual = Options::new(WorkerId::new(), PathBuf::new());
        let given = Options { worker: usual.worker, host: usual.host.clone(), ..settings.options(PathBuf::new()) };
        assert_eq!(given, usual);
    }

    #[test]
    fn a_worker_takes_no_longer_sequence_than_its_engine_has_memory_for() {
        let settings = |line: &[&str]| {
            let line = [&["worker"], line].concat();
            Cli::try_parse_from(line).unwrap().worker.settings(&Policy::default()).unwrap()
        };
        let asked = ["--max-rows", "50000"];
        for (line, engine, rows) in [
            (&[][..], None, None),
            (&[], Some(40_000), Some(40_000)),
            (&asked, None, Some(50_000)),
            (&asked, Some(40_000), Some(40_000)),
            (&asked, Some(60_000), Some(50_000)),
        ] {
            assert_eq!(settings(line).within(engine).options(PathBuf::new()).max_rows, rows);
        }
    }
}
