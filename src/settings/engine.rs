//! Which checkpoint to load, and how it computes: the settings of every command that has an engine.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use clapboard_engine::video_vae::DecodePrecision;
use clapboard_engine::{ComputeDtype, EngineConfig, MemoryBounds};
use clapboard_h3::{Partition, Task};
use clapboard_media::Ffmpeg;

/// Settings of the engine.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// The checkpoint's directory, in the original or the diffusers layout
    #[arg(long, env = "CLAPBOARD_CHECKPOINT", value_name = "DIR")]
    pub(crate) checkpoint: PathBuf,
    /// Which transformer weights to load; only fl2va serves a task that is built
    #[arg(long, env = "CLAPBOARD_PARTITION", value_name = "PARTITION", default_value = "fl2va", value_parser = partition())]
    partition: Partition,
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
}

impl EngineArgs {
    /// Checks the settings against each other.
    ///
    /// Errors: a sentence about the setting that cannot be.
    pub(crate) fn config(&self) -> anyhow::Result<EngineConfig> {
        ensure!(
            self.partition.tasks().iter().any(|task| Task::BUILT.contains(task)),
            "--partition {} serves no task that is built: {} needs {}",
            self.partition,
            Task::BUILT[0],
            Task::BUILT[0].partition()
        );
        let bytes = |name: &str, mebibytes: usize| {
            ensure!(mebibytes > 0, "{name} must be at least 1");
            mebibytes
                .checked_mul(1 << 20)
                .with_context(|| format!("{name} {mebibytes} is more than a machine can address"))
        };
        Ok(EngineConfig {
            checkpoint: self.checkpoint.clone(),
            partition: self.partition,
            dtype: self.dtype,
            decode: self.decode_precision,
            memory: MemoryBounds {
                attention_bytes: bytes("--attention-scratch-mib", self.attention_scratch_mib)?,
                feed_forward_bytes: bytes("--feed-forward-scratch-mib", self.feed_forward_scratch_mib)?,
            },
        })
    }
}

/// Where the programs are that write and read video files.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Media")]
pub(crate) struct MediaArgs {
    /// The ffmpeg program: a path, or a name on the PATH
    #[arg(long, env = "CLAPBOARD_FFMPEG", value_name = "PROGRAM", default_value = "ffmpeg")]
    ffmpeg: PathBuf,
    /// The ffprobe program: a path, or a name on the PATH
    #[arg(long, env = "CLAPBOARD_FFPROBE", value_name = "PROGRAM", default_value = "ffprobe")]
    ffprobe: PathBuf,
}

impl MediaArgs {
    /// Finds and checks the programs.
    pub(crate) fn find(&self) -> anyhow::Result<Ffmpeg> {
        self.programs().context("videos cannot be encoded on this machine")
    }

    /// Finds and checks the programs.
    ///
    /// Errors: those of [`Ffmpeg::at`].
    pub(crate) fn programs(&self) -> Result<Ffmpeg, clapboard_media::Error> {
        Ffmpeg::at(&self.ffmpeg, &self.ffprobe)
    }
}

/// Reads the name of a partition.
pub(crate) fn partition() -> impl TypedValueParser<Value = Partition> {
    PossibleValuesParser::new(Partition::ALL.map(Partition::as_str)).try_map(|name| name.parse::<Partition>())
}

fn dtype() -> impl TypedValueParser<Value = ComputeDtype> {
    PossibleValuesParser::new(["f32", "bf16"]).map(|name| match name.as_str() {
        "bf16" => ComputeDtype::Bf16,
        _ => ComputeDtype::F32,
    })
}

fn decode_precision() -> impl TypedValueParser<Value = DecodePrecision> {
    PossibleValuesParser::new(["f32", "f16", "bf16"]).map(|name| match name.as_str() {
        "f16" => DecodePrecision::F16,
        "bf16" => DecodePrecision::Bf16,
        _ => DecodePrecision::F32,
    })
}
