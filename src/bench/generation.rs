//! `clapboard bench generation`: what a whole film takes of a device's memory and of time.

use std::process::ExitCode;

use anyhow::Context;
use clap::value_parser;
use clapboard_engine::bench::{GenerationMeasurement, GenerationOptions, run_generation};
use clapboard_engine::video_vae::DecodePrecision;
use clapboard_engine::{ComputeDtype, EngineConfig, MemoryBounds};
use clapboard_h3::Partition;
use serde_json::{Value, json};

use crate::output;
use crate::settings::OffloadArgs;
use crate::settings::device::DeviceArgs;
use crate::settings::engine::{decode_precision, dtype};
use crate::table::Table;

/// Make a whole film over drawn weights of released size: no checkpoint is needed, but 50 GB of memory
///
/// Prints the seconds of each phase and step, the most memory that the device had taken in each phase (the whole device's, looked
/// at before every layer, block and tile), the process's private memory on the host and a digest of what came out.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The film's frames
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1344x768")]
    size: String,
    /// How many frames it has
    #[arg(long, value_name = "N", default_value_t = 124)]
    frames: u32,
    /// Sigma points; the transformer runs once less
    #[arg(long, value_name = "POINTS", default_value_t = 50, value_parser = value_parser!(u32).range(2..))]
    steps: u32,
    /// What weights and noise are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// What the text encoder and the transformer compute in
    #[arg(long, value_name = "DTYPE", default_value = "bf16", value_parser = dtype())]
    dtype: ComputeDtype,
    /// What the video decoder computes in
    #[arg(long, value_name = "DTYPE", default_value = "f16", value_parser = decode_precision())]
    decode_precision: DecodePrecision,
    /// Memory for a feed-forward layer's inner activations at a time, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = value_parser!(u32).range(1..))]
    feed_forward_scratch_mib: u32,
    /// Memory for the transformer's queries, keys and values at a time, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = value_parser!(u32).range(1..))]
    qkv_scratch_mib: u32,
    /// Print an object instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    offload: OffloadArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (device, attention) = args.device.prepared();
    let folder = tempfile::tempdir().context("there is no folder for a checkpoint without data")?;
    let checkpoint = folder.path().join("checkpoint");
    let config = EngineConfig {
        dtype: args.dtype,
        decode: args.decode_precision,
        memory: MemoryBounds {
            feed_forward_bytes: (args.feed_forward_scratch_mib as usize) << 20,
            qkv_bytes: (args.qkv_scratch_mib as usize) << 20,
            ..MemoryBounds::default()
        },
        device,
        attention,
        placement: args.offload.placement()?,
        budgets: args.offload.budgets(),
        ..EngineConfig::new(&checkpoint, Partition::Fl2va)
    };
    let options = GenerationOptions { size: args.size, frames: args.frames, points: args.steps, seed: args.seed };
    let measurement = run_generation(&config, &options, &checkpoint)?;
    if args.json {
        output::json(&object(&options, &measurement));
    } else {
        output::line(format_args!("{}", table(&options, &measurement)));
    }
    Ok(ExitCode::SUCCESS)
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}

fn table(options: &GenerationOptions, measurement: &GenerationMeasurement) -> Table<2> {
    let mut table = Table::new(["measure", "value"]);
    let mut add = |name: &str, value: String| table.add([name.to_owned(), value]);
    let GenerationOptions { size, frames, points, .. } = options;
    add("film", format!("{size}, {frames} frames, {points} sigma points, {} rows", measurement.rows));
    add("device", measurement.device.clone());
    for (phase, seconds) in &measurement.phase_seconds {
        add(&format!("{phase}, time"), format!("{seconds:.2} s"));
    }
    let steps: Vec<String> = measurement.step_seconds.iter().map(|seconds| format!("{seconds:.3}")).collect();
    add("steps, time", format!("{} s", steps.join(", ")));
    if let Some(bytes) = measurement.taken_before_bytes {
        add("the device's memory before", gib(bytes));
    }
    for (phase, bytes) in &measurement.taken_bytes {
        add(&format!("{phase}, the device's memory"), gib(*bytes));
    }
    if let Some(bytes) = measurement.pool_bytes {
        add("the engine's own count", gib(bytes));
    }
    add("private memory of the host", gib(measurement.private_bytes));
    add("digest", measurement.digest.clone());
    table
}

fn object(options: &GenerationOptions, measurement: &GenerationMeasurement) -> Value {
    let seconds: Vec<Value> =
        measurement.phase_seconds.iter().map(|(phase, seconds)| json!([phase.as_str(), seconds])).collect();
    let taken: Vec<Value> =
        measurement.taken_bytes.iter().map(|(phase, bytes)| json!([phase.as_str(), bytes])).collect();
    json!({
        "size": options.size,
        "frames": options.frames,
        "points": options.points,
        "rows": measurement.rows,
        "device": measurement.device,
        "phase_seconds": seconds,
        "step_seconds": measurement.step_seconds,
        "taken_before_bytes": measurement.taken_before_bytes,
        "taken_bytes": taken,
        "pool_bytes": measurement.pool_bytes,
        "private_bytes": measurement.private_bytes,
        "digest": measurement.digest,
    })
}

#[cfg(test)]
mod tests {
    use clapboard_engine::Phase;

    use super::*;

    #[test]
    fn a_film_is_told_with_its_phases_and_what_the_device_had_taken() {
        let options = GenerationOptions { size: "1344x768".to_owned(), frames: 124, points: 4, seed: 0 };
        let measurement = GenerationMeasurement {
            device: "a card".to_owned(),
            rows: 37_810,
            phase_seconds: vec![(Phase::TextEncode, 1.5), (Phase::Denoise, 20.0)],
            step_seconds: vec![7.0, 6.5],
            taken_bytes: vec![(Phase::Denoise, 8 << 30)],
            taken_before_bytes: Some(1 << 29),
            pool_bytes: Some(7 << 30),
            private_bytes: 40 << 30,
            digest: "ab".to_owned(),
        };
        let text = table(&options, &measurement).to_string();
        for line in ["37810 rows", "7.000, 6.500 s", "8.00 GiB", "0.50 GiB", "40.00 GiB"] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let object = object(&options, &measurement);
        assert_eq!(object["phase_seconds"][1], json!(["denoise", 20.0]));
        assert_eq!(object["taken_bytes"][0], json!(["denoise", 8_u64 << 30]));
    }
}
