//! Which weights stay on the device.

/// Where weights are on the device, and when. It changes no bit of any result, only memory and time.
///
/// Source: the offload strategies of vLLM-Omni 0.30.0 (none, module and layer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Everything, always.
    #[default]
    Resident,
    /// Each network while it is computed with.
    Modules,
    /// Each network while it is computed with, and of the text encoder, the vision tower and the DiT one block at a time.
    Layers {
        /// How many leading DiT blocks stay as long as it denoises.
        resident_blocks: usize,
    },
}

impl Placement {
    /// How many of a DiT's leading blocks stay even when layers come one at a time.
    pub(crate) fn resident_blocks(self) -> usize {
        match self {
            Self::Resident | Self::Modules => 0,
            Self::Layers { resident_blocks } => resident_blocks,
        }
    }
}
