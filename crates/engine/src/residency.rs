//! The budgets that an engine keeps to, request by request.

use clapboard_h3::GenerationSpec;
use clapboard_h3::packing::PackedLayout;

use crate::checkpoint::Checkpoint;
use crate::dit::{DitShape, StepTimesteps};
use crate::engine::{EngineConfig, MemoryBounds};
use crate::generate::GenerateError;
use crate::host_memory;
use crate::load::{LoadError, Mapped};
use crate::plan::{Budgets, DEVICE_OVERHEAD_BYTES, LaidOut, ModelSizes, Planner, Precision, Rates};
use crate::weights::{Placement, ResidentLayers};

/// Memory that an engine may take; where none is named, what its machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryBudgets {
    /// Bytes of the device, what its driver keeps for itself included.
    pub hbm_bytes: Option<u64>,
    /// Bytes of the host that may be pinned or private.
    pub host_bytes: Option<u64>,
}

impl MemoryBudgets {
    /// Returns how many bytes of weights may be kept in the host's memory, when `beside` are needed for something else:
    /// without a budget three quarters of what is available.
    pub(crate) fn masters_bytes(self, beside: usize) -> usize {
        let bytes = match self.host_bytes {
            Some(bytes) => bytes.saturating_sub(beside as u64),
            None => host_memory::available().unwrap_or(0) / 4 * 3,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// Text rows of a long prompt, which a worker's promise allows for.
const PROMPT_ROWS: usize = 1_000;

/// The most runs of the transformer that a request may ask for.
const MOST_FORWARDS: usize = 199;

impl EngineConfig {
    /// Returns the rows of the longest packed sequence that its engine has memory for whatever the request; none where nothing
    /// bounds them: layers do not stream, or the device has no memory of its own. Reads configs, and no weights.
    ///
    /// Errors: [`LoadError::Checkpoint`], [`LoadError::Device`]; [`LoadError::Budget`] when not even the shortest film of the
    /// largest canvas fits.
    pub fn largest_rows(&self) -> Result<Option<u64>, LoadError> {
        if !matches!(self.placement, Placement::Layers { .. }) {
            return Ok(None);
        }
        let Some(hbm_bytes) =
            self.budgets.hbm_bytes.map_or_else(|| self.device.memory_bytes(), |bytes| Ok(Some(bytes)))?
        else {
            return Ok(None);
        };
        let checkpoint = Checkpoint::open(&self.checkpoint)?;
        let mut least = usize::MAX;
        for partition in self.distinct_partitions()? {
            let planner = planner(ModelSizes::of(&checkpoint, partition)?, self);
            let rows = planner.largest_rows(hbm_bytes, PROMPT_ROWS, MOST_FORWARDS);
            least = least.min(rows.ok_or(LoadError::Budget { hbm_bytes })?);
        }
        Ok(Some(least as u64))
    }
}

/// Makes the planner of an engine.
fn planner(sizes: ModelSizes, config: &EngineConfig) -> Planner {
    let precision = Precision::new(config.dtype, config.decode);
    // Rates change no place.
    Planner::new(sizes, precision, config.memory, Rates::H200, DEVICE_OVERHEAD_BYTES)
}

/// Chooses for each request how many of the transformer's blocks stay.
pub(crate) struct Residency {
    planner: Planner,
    budgets: Budgets,
    memory: MemoryBounds,
}

impl Residency {
    /// Plans for the weights of `mapped`; nothing where no layer streams, or nobody knows the device's memory. `free_bytes` were
    /// free when the device was opened.
    ///
    /// Errors: [`LoadError::Checkpoint`].
    pub(crate) fn of(
        mapped: &Mapped,
        config: &EngineConfig,
        free_bytes: Option<u64>,
    ) -> Result<Option<Self>, LoadError> {
        let Placement::Layers { resident } = config.placement else { return Ok(None) };
        let free_bytes = free_bytes.map(|free| free / 32 * 31 + DEVICE_OVERHEAD_BYTES);
        let Some(hbm_bytes) = config.budgets.hbm_bytes.or(free_bytes) else { return Ok(None) };
        let planner = planner(ModelSizes::of(&mapped.checkpoint, mapped.partition)?, config);
        let budgets = Budgets { hbm_bytes, host_bytes: config.budgets.host_bytes, resident_layers: resident };
        Ok(Some(Self { planner, budgets, memory: config.memory }))
    }

    /// Returns how the transformer is placed while it denoises `spec`, laid out as `layout`.
    ///
    /// Errors: [`GenerateError::OutOfMemory`] with what it needs when it does not fit.
    pub(crate) fn placement(&self, spec: &GenerationSpec, layout: &PackedLayout) -> Result<Placement, GenerateError> {
        let (video, audio) = (spec.video_sigmas.timesteps(), spec.audio_sigmas.timesteps());
        let steps = StepTimesteps::schedule(layout, &video, &audio);
        let laid_out = LaidOut {
            dit: DitShape::of(layout, &steps, self.memory),
            forwards: steps.len(),
            canvas: spec.canvas,
            num_frames: spec.num_frames,
        };
        let blocks = self.planner.place(&laid_out, &self.budgets);
        let blocks = blocks.map_err(|refusal| GenerateError::OutOfMemory(Box::new(refusal)))?;
        tracing::info!(blocks, rows = layout.rows(), "leading blocks of the transformer that stay on the device");
        Ok(Placement::Layers { resident: ResidentLayers::Fixed(blocks) })
    }
}
