//! Where weights live, and how much memory that may take.

use clapboard_engine::plan::ResidentLayers;

use super::bytes;

/// Settings of the residency plan.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Memory")]
pub(crate) struct ResidencyArgs {
    /// Memory of the GPU that a generation may take, what its driver keeps for itself included: 12GiB, 24GB; an engine takes
    /// what is free when it starts if none is given
    #[arg(long, visible_alias = "hbm", env = "CLAPBOARD_HBM_BUDGET", value_name = "BYTES", value_parser = bytes::parse)]
    pub(crate) hbm_budget: Option<u64>,
    /// Pinned and private memory of the host that weights may take; what does not fit is read from the checkpoint's files. If
    /// none is given a plan takes as much as they need, and an engine three quarters of what is available
    #[arg(long, visible_alias = "host", env = "CLAPBOARD_HOST_BUDGET", value_name = "BYTES", value_parser = bytes::parse)]
    pub(crate) host_budget: Option<u64>,
    /// How many of the transformer's leading blocks stay on the GPU while it denoises: a number, or auto for as many as the
    /// budget holds
    #[arg(long, env = "CLAPBOARD_RESIDENT_LAYERS", value_name = "N|auto")]
    pub(crate) resident_layers: Option<ResidentLayers>,
}
