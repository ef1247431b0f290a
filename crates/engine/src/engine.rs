//! A loaded checkpoint, ready to generate.

use std::path::PathBuf;

use clapboard_h3::packing::PackedLayout;
use clapboard_h3::{ModelProfile, Partition};

use crate::checkpoint::Checkpoint;
use crate::control::Control;
use crate::device::{Backend, Device, HostBounds};
use crate::fingerprint::fingerprint;
use crate::generate::{GenerateError, GenerationReport, Networks, Request};
use crate::load::{LoadError, Loading, Mapped};
use crate::ops::DType;
use crate::ops::cpu::Cpu;
use crate::ops::cuda::{AttentionChoice, Cuda};
use crate::progress::Progress;
use crate::residency::MemoryBudgets;
use crate::resume::Continuation;
use crate::run::Run;
use crate::sink::FrameSink;
use crate::tap::Tap;
use crate::text::Presented;
use crate::video_vae::DecodePrecision;
use crate::weights::Placement;

/// The type that the text encoder and the DiT compute in. What the release keeps in F32 stays F32 in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeDtype {
    /// F32, for verification and for CPUs.
    F32,
    /// BF16, as the model was released.
    Bf16,
}

impl ComputeDtype {
    pub(crate) fn dtype(self) -> DType {
        match self {
            ComputeDtype::F32 => DType::F32,
            ComputeDtype::Bf16 => DType::Bf16,
        }
    }
}

/// Bounds of buffers whose size is a choice. A matrix product may sum in another order for another number of rows, so
/// runs agree to the last bit only under equal bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBounds {
    /// Bytes of attention scores held at a time.
    pub attention_bytes: usize,
    /// Bytes of a feed-forward layer's inner activations held at a time.
    pub feed_forward_bytes: usize,
    /// Bytes of the transformer's queries, keys and values held at a time: what is beyond goes by groups of heads.
    pub qkv_bytes: usize,
}

impl Default for MemoryBounds {
    fn default() -> Self {
        Self { attention_bytes: 256 << 20, feed_forward_bytes: 512 << 20, qkv_bytes: 1 << 30 }
    }
}

/// What to load and how to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// The checkpoint's directory, in either released layout.
    pub checkpoint: PathBuf,
    /// Whose transformers to serve, one at a time; the first is loaded to begin with. One that is named twice counts once.
    pub partitions: Vec<Partition>,
    /// What to compute in.
    pub dtype: ComputeDtype,
    /// What the video decoder's projections compute in.
    pub decode: DecodePrecision,
    /// Bounds of buffers.
    pub memory: MemoryBounds,
    /// What computes.
    pub device: Device,
    /// Which attention computes in 16-bit types on a GPU.
    pub attention: AttentionChoice,
    /// Which weights stay on the device.
    pub placement: Placement,
    /// Memory that it may take where layers stream.
    pub budgets: MemoryBudgets,
    /// Host memory in which the DiT keeps what its AdaLN projections made of schedules, for later requests.
    pub adaln_cache_bytes: usize,
}

impl EngineConfig {
    /// Serves `partition` of `checkpoint` alone, computing in F32 on the processor under the default bounds.
    pub fn new(checkpoint: impl Into<PathBuf>, partition: Partition) -> Self {
        Self {
            checkpoint: checkpoint.into(),
            partitions: vec![partition],
            dtype: ComputeDtype::F32,
            decode: DecodePrecision::F32,
            memory: MemoryBounds::default(),
            device: Device::Cpu,
            attention: AttentionChoice::Auto,
            placement: Placement::Resident,
            budgets: MemoryBudgets::default(),
            adaln_cache_bytes: 2 << 30,
        }
    }

    /// Returns what the configured partitions of the checkpoint serve together, without loading a weight.
    ///
    /// Errors: [`LoadError::NoPartition`]; [`LoadError::Checkpoint`] when the checkpoint cannot be read, lacks one of them,
    /// or gives them different schedules.
    pub fn profile(&self) -> Result<ModelProfile, LoadError> {
        Ok(Checkpoint::open(&self.checkpoint)?.profile(&self.distinct_partitions()?)?)
    }

    /// What a backend may take of the host.
    pub(crate) fn host_bounds(&self) -> HostBounds {
        HostBounds {
            attention_bytes: self.memory.attention_bytes,
            masters_bytes: self.budgets.masters_bytes(self.adaln_cache_bytes),
        }
    }

    /// The partitions without repetitions, in their order.
    ///
    /// Errors: [`LoadError::NoPartition`].
    pub(crate) fn distinct_partitions(&self) -> Result<Vec<Partition>, LoadError> {
        let mut distinct = Vec::new();
        for &partition in &self.partitions {
            if !distinct.contains(&partition) {
                distinct.push(partition);
            }
        }
        if distinct.is_empty() { Err(LoadError::NoPartition) } else { Ok(distinct) }
    }
}

/// The networks of a partition, and what they compute with.
enum Loaded {
    Cpu(Cpu, Box<Networks<Cpu>>),
    Cuda(Box<Cuda>, Box<Networks<Cuda>>),
}

/// One partition of a loaded checkpoint on its device.
pub struct Engine {
    loaded: Loaded,
    profile: ModelProfile,
    fingerprint: String,
}

impl Engine {
    /// Loads the first of the configured partitions: see [`Engine::load_partition`].
    ///
    /// Errors: [`LoadError`] naming the file, key or tensor that is missing or wrong.
    pub fn load(config: &EngineConfig) -> Result<Self, LoadError> {
        Self::load_partition(config, *config.partitions.first().ok_or(LoadError::NoPartition)?)
    }

    /// Maps the weights of one partition, compares every tensor with the configs and makes the networks.
    ///
    /// Errors: [`LoadError`] naming the file, key or tensor that is missing or wrong.
    pub fn load_partition(config: &EngineConfig, partition: Partition) -> Result<Self, LoadError> {
        let unasked = Loading::unwatched(config.placement);
        Self::load_mapped(config, &Mapped::open(config, partition)?, unasked)
    }

    /// Makes the networks of a partition, as long as it is wanted.
    ///
    /// Errors: [`LoadError`] naming the file, key or tensor that is missing or wrong; [`LoadError::Stopped`].
    pub(crate) fn load_mapped(config: &EngineConfig, mapped: &Mapped, loading: Loading<'_>) -> Result<Self, LoadError> {
        let profile = mapped.checkpoint.profile(&[mapped.partition])?;
        let (loaded, fingerprint) = match Backend::open(config.device, config.attention, config.host_bounds())? {
            Backend::Cpu(ops) => {
                let networks = Networks::load(&ops, mapped, config, None, loading)?;
                let fingerprint = fingerprint(&ops, None, mapped, config, loading)?;
                (Loaded::Cpu(ops, Box::new(networks)), fingerprint)
            }
            Backend::Cuda(ops) => {
                let free_bytes = Some(ops.free_memory()?);
                let networks = Networks::load(&*ops, mapped, config, free_bytes, loading)?;
                let fingerprint = fingerprint(&*ops, Some(&ops.describe()), mapped, config, loading)?;
                (Loaded::Cuda(ops, Box::new(networks)), fingerprint)
            }
        };
        Ok(Self { loaded, profile, fingerprint })
    }

    /// What the loaded partition serves.
    pub fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    /// Returns what the engine's results depend on to the last bit, as 64 hex digits.
    ///
    /// Engines of the same fingerprint make the same bits of the same specification, and can go on with each other's
    /// [`DenoiseCheckpoint`](crate::DenoiseCheckpoint)s. It covers the loaded weights (by samples of every tensor), their
    /// configs and layout, the tokenizer, partition, types, memory bounds, this build's kernels and the libraries that
    /// compute, and what the machine itself does with them: its architecture, the instruction sets that kernels are
    /// chosen by, and the bits of a few computations. It does not cover the number of threads or where a checkpoint lies:
    /// they change no bit.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Presents a request to the text encoder and lays out its sequence, as a generation begins.
    pub(crate) fn arrange(&self, request: Request<'_>) -> Result<(Presented, PackedLayout), GenerateError> {
        match &self.loaded {
            Loaded::Cpu(_, networks) => networks.arrange(request),
            Loaded::Cuda(_, networks) => networks.arrange(request),
        }
    }

    /// Generates what `request` asks for into `sink`, from its noise or from where `continuation` says.
    ///
    /// Errors: [`GenerateError`]; nothing of the generation is kept but the states that were handed to the continuation's
    /// checkpoints.
    pub fn generate<'a>(
        &mut self,
        request: impl Into<Request<'a>>,
        control: &dyn Control,
        progress: &dyn Progress,
        sink: &mut dyn FrameSink,
        continuation: Continuation<'_>,
        tap: &mut dyn Tap,
    ) -> Result<GenerationReport, GenerateError> {
        let mut run = Run { control, progress, tap };
        let (request, fingerprint) = (request.into(), self.fingerprint.as_str());
        match &self.loaded {
            Loaded::Cpu(ops, networks) => networks.generate(ops, request, fingerprint, sink, continuation, &mut run),
            Loaded::Cuda(ops, networks) => {
                networks.generate(&**ops, request, fingerprint, sink, continuation, &mut run)
            }
        }
    }
}
