//! Why an engine could not be loaded.

use clapboard_h3::Partition;

use crate::ops::OpError;
use crate::video_vae::TileGeometry;
use crate::{checkpoint, text};

/// Why an engine, or one of its networks, could not be loaded. The message names the file, key or tensor.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration names no partition.
    #[error("no partition is named that could be loaded")]
    NoPartition,
    /// A partition was loaded again and is another than before, so that its fingerprint is no longer true.
    #[error("partition {partition} of the checkpoint has changed since it was loaded first")]
    Changed {
        /// The partition.
        partition: Partition,
    },
    /// The checkpoint lacks something, contradicts itself, or holds another tensor than its config says.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] text::Error),
    /// The backend could not hold a weight.
    #[error("the backend could not hold a weight")]
    Op(#[from] OpError),
    /// A weight-normalised convolution has a direction without length.
    #[error("tensor {tensor} of the audio VAE: row {row} has no finite positive norm to divide by")]
    Norm {
        /// The direction, `…weight_v`.
        tensor: String,
        /// The row along its first axis.
        row: usize,
    },
    /// Tiles do not lie on the latent grid, or do not advance.
    #[error(
        "tiles of {} pixels with an overlap of {} are not multiples of {step} pixels with the overlap below the size",
        geometry.size, geometry.min_overlap
    )]
    Tiles {
        /// The tiles.
        geometry: TileGeometry,
        /// Pixels per latent and side.
        step: usize,
    },
    /// The engine's thread could not be started.
    #[error("cannot start the engine's thread")]
    Thread(#[source] std::io::Error),
    /// Loading panicked.
    #[error("the engine's thread panicked while loading")]
    Panicked,
}
