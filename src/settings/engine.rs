//! Which checkpoint to load, and how it computes: the settings of every command that has an engine.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clapboard_engine::video_vae::DecodePrecision;
use clapboard_engine::{ComputeDtype, EngineConfig, MemoryBounds};
use clapboard_h3::Partition;

use super::device::DeviceArgs;
use super::offload::OffloadArgs;

/// Settings of the engine.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// The checkpoint's directory, in the original or the diffusers layout
    #[arg(long, env = "CLAPBOARD_CHECKPOINT", value_name = "DIR")]
    pub(crate) checkpoint: PathBuf,
    /// What the text encoder and the transformer compute in
    #[arg(long, env = "CLAPBOARD_DTYPE", value_name = "DTYPE", default_value = "f32", value_parser = dtype())]
    dtype: ComputeDtype,
    /// What the video decoder computes in
    #[arg(long, env = "CLAPBOARD_DECODE_PRECISION", value_name = "DTYPE", default_value = "f32",
          value_parser = decode_precision())]
    decode_precision: DecodePrecision,
    /// Memory for attention scores at a time, in MiB; another bound may change the last digits of sums
    #[arg(long, env = "CLAPBOARD_ATTENTION_SCRATCH_MIB", value_name = "MIB", default_value_t = 256)]
    attention_scratch_mib: usize,
    /// Memory for a feed-forward layer's inner activations at a time, in MiB; another bound may change the last digits of
    /// sums
    #[arg(long, env = "CLAPBOARD_FEED_FORWARD_SCRATCH_MIB", value_name = "MIB", default_value_t = 512)]
    feed_forward_scratch_mib: usize,
    /// Memory for the transformer's queries, keys and values at a time, in MiB: what is beyond goes by groups of heads; another bound
    /// may change the last digits of sums
    #[arg(long, env = "CLAPBOARD_QKV_SCRATCH_MIB", value_name = "MIB", default_value_t = 1024)]
    qkv_scratch_mib: usize,
    /// Host memory for what the transformer has made of schedules, which later requests with the same one need not wait for,
    /// in MiB
    #[arg(long, env = "CLAPBOARD_ADALN_CACHE_MIB", value_name = "MIB", default_value_t = 2048)]
    adaln_cache_mib: usize,
    #[command(flatten)]
    offload: OffloadArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

impl EngineArgs {
    /// Takes note of the data directory, below which some things are looked for.
    pub(crate) fn set_data(&mut self, data: &Path) {
        self.device.set_data(data);
    }

    /// Checks the settings against each other; the engine serves `partitions`, the first of which it loads at its start.
    ///
    /// Errors: a sentence about the setting that cannot be.
    pub(crate) fn config(&self, partitions: Vec<Partition>) -> anyhow::Result<EngineConfig> {
        let bytes = |name: &str, mebibytes: usize| {
            ensure!(mebibytes > 0, "{name} must be at least 1");
            mebibytes
                .checked_mul(1 << 20)
                .with_context(|| format!("{name} {mebibytes} is more than a machine can address"))
        };
        let (device, attention) = self.device.prepared();
        Ok(EngineConfig {
            checkpoint: self.checkpoint.clone(),
            partitions,
            dtype: self.dtype,
            decode: self.decode_precision,
            memory: MemoryBounds {
                attention_bytes: bytes("--attention-scratch-mib", self.attention_scratch_mib)?,
                feed_forward_bytes: bytes("--feed-forward-scratch-mib", self.feed_forward_scratch_mib)?,
                qkv_bytes: bytes("--qkv-scratch-mib", self.qkv_scratch_mib)?,
            },
            device,
            attention,
            placement: self.offload.placement()?,
            budgets: self.offload.budgets(),
            // No machine has more than it can address, and all of it is as good as no bound.
            adaln_cache_bytes: self.adaln_cache_mib.saturating_mul(1 << 20),
        })
    }
}

pub(crate) fn dtype() -> impl TypedValueParser<Value = ComputeDtype> {
    PossibleValuesParser::new(["f32", "bf16"]).map(|name| match name.as_str() {
        "bf16" => ComputeDtype::Bf16,
        _ => ComputeDtype::F32,
    })
}

pub(crate) fn decode_precision() -> impl TypedValueParser<Value = DecodePrecision> {
    PossibleValuesParser::new(["f32", "f16", "bf16"]).map(|name| match name.as_str() {
        "f16" => DecodePrecision::F16,
        "bf16" => DecodePrecision::Bf16,
        _ => DecodePrecision::F32,
    })
}
