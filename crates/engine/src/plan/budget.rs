//! What a plan may spend.

use serde::Serialize;

use crate::weights::ResidentLayers;

/// The memory that a generation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Budgets {
    /// Bytes of the device, what its driver keeps for itself included.
    pub hbm_bytes: u64,
    /// Bytes of the host that may be pinned or private; none for as many as there are.
    pub host_bytes: Option<u64>,
    /// The transformer's resident blocks.
    pub resident_layers: ResidentLayers,
}
