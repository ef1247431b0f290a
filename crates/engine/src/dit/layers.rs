//! What every layer of the transformer is computed with.

use crate::checkpoint::DitConfig;
use crate::ops::Ops;
use crate::parallel::Rank;

/// Operations, this rank, and the sizes of the network; each layer is a method in its own file.
pub(super) struct Layers<'a, O: Ops> {
    pub(super) ops: &'a O,
    pub(super) rank: &'a dyn Rank<O>,
    pub(super) config: &'a DitConfig,
}
