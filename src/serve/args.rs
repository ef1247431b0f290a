//! The settings of the standalone service as they are given.

use std::path::PathBuf;

use crate::settings::{
    EngineArgs, HttpArgs, MediaArgs, PartitionArgs, PolicyArgs, SweepArgs, TelemetryArgs, WebhookArgs, WorkerArgs,
};

/// Run the whole service in one process: API, scheduler and one worker over a data directory
///
/// Jobs survive any end of the process. SIGTERM or SIGINT drains: nothing new is accepted, the running job is handed
/// back and goes on after the next start. A second signal exits at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) partitions: PartitionArgs,
    #[command(flatten)]
    pub(super) media: MediaArgs,
    #[command(flatten)]
    pub(super) http: HttpArgs,
    /// The directory of jobs, media and unfinished files; one service at a time may use it
    #[arg(long, env = "CLAPBOARD_DATA", value_name = "DIR", help_heading = "Jobs")]
    pub(super) data: PathBuf,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) worker: WorkerArgs,
    #[command(flatten)]
    pub(super) sweeps: SweepArgs,
    #[command(flatten)]
    pub(super) webhooks: WebhookArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}
