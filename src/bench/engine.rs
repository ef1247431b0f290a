//! `clapboard bench engine`: how fast a part of a generation is on a device.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::value_parser;
use clapboard_engine::bench::{self, BenchOptions, Measurement, Stage};
use clapboard_engine::ops::DType;
use clapboard_engine::{MemoryBounds, Placement, ResidentLayers};
use serde_json::{Value, json};

use crate::output;
use crate::settings::OffloadArgs;
use crate::settings::device::DeviceArgs;
use crate::table::Table;

/// Measure a part of a generation over released shapes, with drawn weights: no checkpoint is needed
///
/// Prints the median of the measured times by the device's own clock, what is computed and moved in it, the share of the
/// device's roofline where that is known, and the memory in use at the most.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to measure
    #[arg(long, value_name = "STAGE", value_parser = stage())]
    stage: Stage,
    /// Rows of the sequence (dit-block, dit-step, text), or frames of the film; a usual request's if none are given
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// The film's frames (vae-decode, vae-encode)
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1344x768")]
    size: Size,
    /// What it computes in; the release's type if none is given
    #[arg(long, value_name = "DTYPE", value_parser = dtype())]
    dtype: Option<DType>,
    /// Memory for a feed-forward layer's inner activations at a time, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = value_parser!(u32).range(1..))]
    feed_forward_scratch_mib: u32,
    /// Memory for the transformer's queries, keys and values at a time, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = value_parser!(u32).range(1..))]
    qkv_scratch_mib: u32,
    /// How many times to measure, after two runs that are not
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// What weights and inputs are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Do not measure: run it once and write what is seen inside and comes out to this safetensors file, for
    /// scripts/compare-released
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print an object instead of lines
    #[arg(long, conflicts_with = "write")]
    json: bool,
    #[command(flatten)]
    offload: OffloadArgs,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Columns and rows of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    width: usize,
    height: usize,
}

/// A text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no size: WIDTHxHEIGHT in pixels, such as 1344x768")]
struct NoSize {
    text: String,
}

impl FromStr for Size {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let sides = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        sides.map(|(width, height)| Self { width, height }).ok_or_else(|| NoSize { text: text.to_owned() })
    }
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (device, attention) = args.device.prepared();
    let options = BenchOptions {
        stage: args.stage,
        rows: args.rows.unwrap_or(args.stage.usual_rows()),
        size: (args.size.width, args.size.height),
        dtype: args.dtype.unwrap_or(args.stage.dtypes()[0]),
        device,
        attention,
        memory: MemoryBounds {
            feed_forward_bytes: (args.feed_forward_scratch_mib as usize) << 20,
            qkv_bytes: (args.qkv_scratch_mib as usize) << 20,
            ..MemoryBounds::default()
        },
        placement: args.offload.placement()?,
        budgets: args.offload.budgets(),
        repeats: args.repeats,
        seed: args.seed,
    };
    if let Some(path) = args.write {
        let written = bench::write(&options, &path)?;
        output::line(format_args!("{} tensors of {} in {}", written.tensors, options.stage, path.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let measurement = bench::run(&options)?;
    if args.json {
        output::json(&object(&options, &measurement));
    } else {
        output::line(format_args!("{}", table(&options, &measurement)));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(options: &BenchOptions, measurement: &Measurement) -> Table<2> {
    let mut table = Table::new(["measure", "value"]);
    let mut add = |name: &str, value: String| table.add([name.to_owned(), value]);
    let BenchOptions { stage, rows, dtype, .. } = options;
    add("stage", format!("{stage}, {rows} {}, {dtype}", stage.counts()));
    add("device", measurement.device.clone());
    add("weights", placement(options.placement));
    let shortest = measurement.seconds.first().copied().unwrap_or_default();
    let longest = measurement.seconds.last().copied().unwrap_or_default();
    let [median, shortest, longest] = [measurement.median_seconds(), shortest, longest].map(|seconds| 1e3 * seconds);
    let repeats = measurement.seconds.len();
    add("time", format!("{median:.3} ms, median of {repeats} from {shortest:.3} to {longest:.3}"));
    let (work, rate) = (measurement.work.flops / 1e12, measurement.flops_per_second() / 1e12);
    add("computed", format!("{work:.3} TFLOP, {rate:.1} TFLOP/s"));
    let (moved, rate) = (measurement.work.bytes / 1e9, measurement.bytes_per_second() / 1e9);
    add("moved", format!("{moved:.2} GB, {rate:.0} GB/s"));
    let share = measurement.roofline_share().map(|share| format!("{:.1} %", 1e2 * share));
    add("share of the roofline", share.unwrap_or_else(|| "unknown for this device".to_owned()));
    let peak = measurement.peak_bytes.map(|bytes| format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30)));
    add("memory at the most", peak.unwrap_or_else(|| "not counted on this device".to_owned()));
    table
}

/// Says where the weights of the transformer and the text encoder are.
fn placement(placement: Placement) -> String {
    match placement {
        Placement::Resident | Placement::Modules => "on the device".to_owned(),
        Placement::Layers { resident } => {
            let stay = match resident {
                ResidentLayers::Auto => 0,
                ResidentLayers::Fixed(blocks) => blocks,
            };
            format!("stream to the device, {stay} blocks of the transformer stay")
        }
    }
}

fn object(options: &BenchOptions, measurement: &Measurement) -> Value {
    json!({
        "stage": options.stage.as_str(),
        "rows": options.rows,
        "dtype": options.dtype.to_string(),
        "device": measurement.device,
        "weights": placement(options.placement),
        "seconds": measurement.seconds,
        "median_seconds": measurement.median_seconds(),
        "flops": measurement.work.flops,
        "bytes": measurement.work.bytes,
        "roofline_share": measurement.roofline_share(),
        "peak_bytes": measurement.peak_bytes,
    })
}

fn stage() -> impl TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::as_str)).try_map(|name| name.parse())
}

fn dtype() -> impl TypedValueParser<Value = DType> {
    PossibleValuesParser::new(["f32", "bf16", "f16"]).map(|name| match name.as_str() {
        "bf16" => DType::Bf16,
        "f16" => DType::F16,
        _ => DType::F32,
    })
}

#[cfg(test)]
mod tests {
    use clapboard_engine::MemoryBudgets;
    use clapboard_engine::bench::Work;
    use clapboard_engine::ops::cuda::AttentionChoice;

    use super::*;

    fn measured(has_roofline: bool) -> (BenchOptions, Measurement) {
        let options = BenchOptions {
            stage: Stage::DitBlock,
            rows: 9_750,
            size: (1344, 768),
            dtype: DType::Bf16,
            device: "cuda:0".parse().unwrap(),
            attention: AttentionChoice::Auto,
            memory: MemoryBounds::default(),
            placement: Placement::Resident,
            budgets: MemoryBudgets::default(),
            repeats: 3,
            seed: 0,
        };
        let work = Work { flops: 1e13, bytes: 2e9, floor_seconds: 0.01, ..Work::default() };
        let device = "a card".to_owned();
        (
            options,
            Measurement { device, seconds: vec![0.019, 0.02, 0.03], work, has_roofline, peak_bytes: Some(3 << 30) },
        )
    }

    #[test]
    fn a_measurement_is_told_by_its_median() {
        let (options, measurement) = measured(true);
        let text = table(&options, &measurement).to_string();
        for line in [
            "dit-block, 9750 rows, BF16",
            "20.000 ms, median of 3 from 19.000 to 30.000",
            "10.000 TFLOP, 500.0 TFLOP/s",
            "2.00 GB, 100 GB/s",
            "50.0 %",
            "3.00 GiB",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert_eq!(object(&options, &measurement)["roofline_share"], 0.5);
    }

    #[test]
    fn an_unknown_card_has_no_share() {
        let (options, measurement) = measured(false);
        assert!(table(&options, &measurement).to_string().contains("unknown for this device"));
        assert!(object(&options, &measurement)["roofline_share"].is_null());
    }

    #[test]
    fn sizes_are_two_numbers() {
        assert_eq!("64x32".parse(), Ok(Size { width: 64, height: 32 }));
        for text in ["", "64", "64x", "x32", "64x32x1", "-1x2"] {
            assert_eq!(Size::from_str(text), Err(NoSize { text: text.to_owned() }));
        }
    }
}
