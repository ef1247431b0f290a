//! Loading an engine, step by step, and why it could not be.

use clapboard_h3::Partition;

use crate::checkpoint::Checkpoint;
use crate::components::Components;
use crate::control::Control;
use crate::control::Uninterrupted;
use crate::engine::EngineConfig;
use crate::ops::cuda::CudaError;
use crate::ops::{Masters, OpError, Ops};
use crate::progress::{Progress, Unwatched};
use crate::run::{Stop, stop_of};
use crate::video_vae::TileGeometry;
use crate::weights::{Placement, ResidentWeights, StreamedWeights, WeightLoader, WeightSource};
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
    /// The device cannot be used.
    #[error("the device cannot be used")]
    Device(#[from] CudaError),
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
    /// The device's memory is too small for any request.
    #[error("a GPU budget of {hbm_bytes} bytes has no room for even the shortest film of the largest canvas")]
    Budget {
        /// What it may take.
        hbm_bytes: u64,
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
    /// The generation that needed it was stopped from outside while it was loaded.
    #[error("the generation was stopped while its weights were loaded: {0:?}")]
    Stopped(Stop),
    /// The engine's thread could not be started.
    #[error("cannot start the engine's thread")]
    Thread(#[source] std::io::Error),
    /// Loading panicked.
    #[error("the engine's thread panicked while loading")]
    Panicked,
}

/// One partition of a checkpoint whose files are there and hold the tensors that the configs speak of. Headers have been
/// read, and no weights.
pub(crate) struct Mapped {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) components: Components,
    pub(crate) partition: Partition,
}

impl Mapped {
    /// Maps what `partition` needs.
    ///
    /// Errors: [`LoadError::Checkpoint`].
    pub(crate) fn open(config: &EngineConfig, partition: Partition) -> Result<Self, LoadError> {
        let checkpoint = Checkpoint::open(&config.checkpoint)?;
        let components = Components::map(&checkpoint, partition)?;
        Ok(Self { checkpoint, components, partition })
    }
}

/// What of a network is brought to the device, what that obeys, and what hears that it moves: asked and told after each
/// of its parts.
#[derive(Clone, Copy)]
pub struct Loading<'a> {
    /// Which weights stay there.
    pub placement: Placement,
    /// Says whether to go on.
    pub control: &'a dyn Control,
    /// Hears that it moves.
    pub progress: &'a dyn Progress,
}

/// How often a request goes through a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// In every step of the denoising; leading blocks may stay.
    EveryStep,
    /// Once, or as often as it has pictures.
    Once,
}

impl Loading<'_> {
    /// Brings in what stays by `placement`; nobody stops it or watches.
    pub fn unwatched(placement: Placement) -> Self {
        Self { placement, control: &Uninterrupted, progress: &Unwatched }
    }

    /// Makes the source of a stack of `len` blocks: where layers come one at a time, they stream through slots, but for the
    /// leading ones that stay.
    ///
    /// Errors: what `load` says of a block that is brought now; [`LoadError::Stopped`].
    pub(crate) fn stack<O, W>(
        self,
        ops: &O,
        len: usize,
        passing: Passing,
        load: impl Fn(&dyn WeightLoader<O::Buffer>, usize) -> Result<W, LoadError> + Send + Sync + 'static,
    ) -> Result<Box<dyn WeightSource<O, W>>, LoadError>
    where
        O: Ops + 'static,
        W: Send + Sync + 'static,
    {
        let Placement::Layers { resident } = self.placement else {
            let blocks = (0..len).map(|index| self.then(load(ops, index))).collect::<Result<_, _>>()?;
            return Ok(Box::new(ResidentWeights::new(blocks)));
        };
        let (resident, masters) = match passing {
            Passing::EveryStep => (resident.at_most(len), Masters::Recurring),
            Passing::Once => (0, Masters::Passing),
        };
        Ok(Box::new(StreamedWeights::new(len, resident, masters, load)))
    }

    /// Takes note that something is loaded, and looks whether the rest is still wanted.
    ///
    /// Errors: [`LoadError::Stopped`].
    pub(crate) fn goes_on(&self) -> Result<(), LoadError> {
        self.progress.loading();
        stop_of(self.control).map_or(Ok(()), |stop| Err(LoadError::Stopped(stop)))
    }

    /// Passes on what was loaded, if the rest is still wanted.
    ///
    /// Errors: those of `loaded`; [`LoadError::Stopped`].
    pub(crate) fn then<T, E: Into<LoadError>>(&self, loaded: Result<T, E>) -> Result<T, LoadError> {
        let loaded = loaded.map_err(Into::into)?;
        self.goes_on().map(|()| loaded)
    }
}
