//! The settings of the service as they are given: one group per concern.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use clapboard_jobs::Policy;
use clapboard_scheduler::Options;

use crate::duration;
use crate::engine_args::{EngineArgs, MediaArgs};

/// Run the whole service in one process: API, scheduler and one worker over a data directory
///
/// Jobs survive any end of the process. SIGTERM or SIGINT drains: nothing new is accepted, the running job is handed
/// back and runs again after the next start. A second signal exits at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) media: MediaArgs,
    #[command(flatten)]
    pub(super) http: HttpArgs,
    #[command(flatten)]
    pub(super) jobs: JobArgs,
    #[command(flatten)]
    pub(super) sweeps: SweepArgs,
}

/// Where the service listens and what it accepts.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "HTTP")]
pub(super) struct HttpArgs {
    /// The address to listen on, such as 127.0.0.1:8000; port 0 takes a free one
    #[arg(long, env = "CLAPBOARD_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000",
          value_parser = address)]
    pub(super) listen: SocketAddr,
    /// Say twice to listen beyond this machine, where anybody may use the service: it knows no keys yet
    /// [as an environment variable: 2]
    #[arg(long, env = "CLAPBOARD_NO_AUTH", action = ArgAction::Count)]
    pub(super) no_auth: u8,
    /// Further names under which requests may ask for the served model
    #[arg(long, env = "CLAPBOARD_MODEL_ALIAS", value_name = "NAME", value_delimiter = ',',
          default_values_t = clapboard_api::Options::default().model_aliases)]
    pub(super) model_alias: Vec<String>,
    /// The seed of requests that name none [default: a random one for each]
    #[arg(long, env = "CLAPBOARD_DEFAULT_SEED", value_name = "SEED")]
    pub(super) default_seed: Option<u32>,
    /// The largest request body
    #[arg(long, env = "CLAPBOARD_MAX_BODY_MIB", value_name = "MIB", default_value_t = 1)]
    pub(super) max_body_mib: usize,
    /// How long a request body may take to come
    #[arg(long, env = "CLAPBOARD_BODY_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    pub(super) body_timeout: Duration,
    /// How long a request's head may take to come, and an idle connection is kept
    #[arg(long, env = "CLAPBOARD_HEADER_TIMEOUT", value_name = "DURATION", default_value = "15s",
          value_parser = duration::parse)]
    pub(super) header_timeout: Duration,
    /// How long a client may take nothing of its answer before it is cut off
    #[arg(long, env = "CLAPBOARD_WRITE_TIMEOUT", value_name = "DURATION", default_value = "300s",
          value_parser = duration::parse)]
    pub(super) write_timeout: Duration,
    /// How many connections are served at a time, as far as the limit of open files allows; others wait
    #[arg(long, env = "CLAPBOARD_MAX_CONNECTIONS", value_name = "N",
          default_value_t = clapboard_api::Options::default().max_connections)]
    pub(super) max_connections: usize,
    /// How long requests in flight get to end once the service drains, before they are cut off
    #[arg(long, env = "CLAPBOARD_CLOSING_GRACE", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    pub(super) closing_grace: Duration,
    /// How long POST /v1/videos/sync waits for its video; OpenAI's clients hang up after 600 s
    #[arg(long, env = "CLAPBOARD_SYNC_TIMEOUT", value_name = "DURATION", default_value = "570s",
          value_parser = duration::parse)]
    pub(super) sync_timeout: Duration,
    /// How long clients are asked to wait between two looks at a job
    #[arg(long, env = "CLAPBOARD_POLL_AFTER", value_name = "DURATION", default_value = "2s",
          value_parser = duration::parse)]
    pub(super) poll_after: Duration,
}

/// How jobs are kept and run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Jobs")]
pub(super) struct JobArgs {
    /// The directory of jobs, media and unfinished files; one service at a time may use it
    #[arg(long, env = "CLAPBOARD_DATA", value_name = "DIR")]
    pub(super) data: PathBuf,
    /// How often a job is tried before it fails
    #[arg(long, env = "CLAPBOARD_MAX_ATTEMPTS", value_name = "N", default_value_t = Policy::default().max_attempts)]
    pub(super) max_attempts: u32,
    /// How long a claim on a job holds without a heartbeat
    #[arg(long, env = "CLAPBOARD_LEASE", value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub(super) lease: Duration,
    /// How often a running job's lease is renewed, its progress written and a cancel heard
    #[arg(long, env = "CLAPBOARD_BEAT_INTERVAL", value_name = "DURATION", default_value = "2s",
          value_parser = duration::parse)]
    pub(super) beat_interval: Duration,
    /// How long before the end of its lease the engine is stopped when no heartbeat gets through
    #[arg(long, env = "CLAPBOARD_FENCE_MARGIN", value_name = "DURATION", default_value = "15s",
          value_parser = duration::parse)]
    pub(super) fence_margin: Duration,
    /// How long the worker waits for a hint before it looks for jobs itself
    #[arg(long, env = "CLAPBOARD_POLL_INTERVAL", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    pub(super) poll_interval: Duration,
    /// How long the engine may stay at one layer, block or tile before it counts as wedged and the process ends
    #[arg(long, env = "CLAPBOARD_STALL_LIMIT", value_name = "DURATION", default_value = "10m",
          value_parser = duration::parse)]
    pub(super) stall_limit: Duration,
    /// How long ffmpeg may take to finish a file after its last frame
    #[arg(long, env = "CLAPBOARD_ENCODE_TIMEOUT", value_name = "DURATION", default_value = "5m",
          value_parser = duration::parse)]
    pub(super) encode_timeout: Duration,
    /// How long storing a finished file is tried
    #[arg(long, env = "CLAPBOARD_UPLOAD_DEADLINE", value_name = "DURATION", default_value = "30m",
          value_parser = duration::parse)]
    pub(super) upload_deadline: Duration,
    /// How long the worker claims nothing after a fault of the machine, such as a full disk; doubled up to 2m
    #[arg(long, env = "CLAPBOARD_UNWELL_PAUSE", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    pub(super) unwell_pause: Duration,
    /// How long a draining service waits for the engine to stop at the next block
    #[arg(long, env = "CLAPBOARD_DRAIN_TIMEOUT", value_name = "DURATION", default_value = "30s",
          value_parser = duration::parse)]
    pub(super) drain_timeout: Duration,
}

/// How often what time does to jobs is looked after.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sweeps")]
pub(super) struct SweepArgs {
    /// How often hints are pushed again for every job that can run
    #[arg(long, env = "CLAPBOARD_REFILL_INTERVAL", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    pub(super) refill_interval: Duration,
    /// How many hints are kept at most
    #[arg(long, env = "CLAPBOARD_REFILL_WINDOW", value_name = "N", default_value_t = Options::default().refill_window)]
    pub(super) refill_window: u32,
    /// How often ended leases are looked for, besides the moments when they end
    #[arg(long, env = "CLAPBOARD_REAPER_INTERVAL", value_name = "DURATION", default_value = "5s",
          value_parser = duration::parse)]
    pub(super) reaper_interval: Duration,
    /// How often files of deleted jobs are looked for, besides the moments when they may be deleted
    #[arg(long, env = "CLAPBOARD_GARBAGE_INTERVAL", value_name = "DURATION", default_value = "60s",
          value_parser = duration::parse)]
    pub(super) garbage_interval: Duration,
    /// How often all stored files are compared with the jobs
    #[arg(long, env = "CLAPBOARD_ORPHAN_INTERVAL", value_name = "DURATION", default_value = "6h",
          value_parser = duration::parse)]
    pub(super) orphan_interval: Duration,
    /// How old a stored file that no job knows must be before it is deleted
    #[arg(long, env = "CLAPBOARD_ORPHAN_AGE", value_name = "DURATION", default_value = "24h",
          value_parser = duration::parse)]
    pub(super) orphan_age: Duration,
}

/// Reads an address and a port; names are not looked up, since one may stand for several addresses.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address and a port such as 127.0.0.1:8000"))
}
