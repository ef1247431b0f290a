//! `clapboard plan`: where weights would live for a request, and what it takes.

mod describe;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::value_parser;
use clapboard_engine::plan::{
    Budgets, DEVICE_OVERHEAD_BYTES, ModelSizes, Planner, Precision, Profile, Rates, Refusal, RequestShape,
    ResidentLayers,
};
use clapboard_engine::video_vae::DecodePrecision;
use clapboard_engine::{ComputeDtype, MemoryBounds};
use clapboard_h3::{Canvas, FrameCount, GeometryProfile, Partition, ReferenceCounts, Task};

use crate::output;
use crate::settings::engine::{decode_precision, dtype};
use crate::settings::{ResidencyArgs, bytes, partition};

/// Plan where weights would live for a request, and what that takes of GPU, host and time
///
/// Nothing is run and no GPU is needed. Exits with 1 when the request does not fit, and says what would. An engine with --offload
/// layer keeps to the same plan.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The checkpoint whose sizes to plan with; configs and headers are read, no weights
    #[arg(long, env = "CLAPBOARD_CHECKPOINT", value_name = "DIR", required_unless_present = "released")]
    checkpoint: Option<PathBuf>,
    /// Plan with the sizes of the release; no checkpoint is needed
    #[arg(long)]
    released: bool,
    /// The transformer weights; those that serve the task if none are named
    #[arg(long, value_name = "PARTITION", value_parser = partition())]
    partition: Option<Partition>,
    /// A card with the numbers of its published recipe, which the other options override: rtx5090 or rtx4090
    #[arg(long, value_name = "PROFILE")]
    profile: Option<Profile>,
    #[command(flatten)]
    residency: ResidencyArgs,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    numerics: NumericsArgs,
    #[command(flatten)]
    rates: RateArgs,
    /// Print an object instead of tables
    #[arg(long)]
    json: bool,
}

/// The request that is planned for.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Request")]
struct RequestArgs {
    /// What the video starts from
    #[arg(long, value_name = "TASK", default_value = "t2va", value_parser = task())]
    task: Task,
    /// The video's pixels; the profile's or 16:9 if none are given
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    size: Option<Size>,
    /// The video's frames; the profile's or the checkpoint's default if none are given
    #[arg(long, value_name = "N")]
    frames: Option<i64>,
    /// Sigma points
    #[arg(long, value_name = "N")]
    steps: Option<u32>,
    /// Tokens of the prompt
    #[arg(long, value_name = "N", default_value_t = 100)]
    prompt_rows: usize,
    /// Keyframes (fl2va, 1 if none is given) or reference pictures, planned for as squares of 2048 pixels
    #[arg(long, value_name = "N")]
    images: Option<u32>,
    /// Reference videos, planned for as large and as long as the video itself, with a soundtrack
    #[arg(long, value_name = "N", default_value_t = 0)]
    videos: u32,
    /// Reference sounds, planned for as long as the video
    #[arg(long, value_name = "N", default_value_t = 0)]
    audios: u32,
}

/// What the networks compute in.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
struct NumericsArgs {
    /// What the text encoder and the transformer compute in; here the release's type, other commands compute in f32 if none is
    /// given
    #[arg(long, value_name = "DTYPE", default_value = "bf16", value_parser = dtype())]
    dtype: ComputeDtype,
    /// What the video decoder computes in; here the release's type, other commands compute in f32 if none is given
    #[arg(long, value_name = "DTYPE", default_value = "f16", value_parser = decode_precision())]
    decode_precision: DecodePrecision,
    /// Memory for a feed-forward layer's inner activations at a time, in MiB; never changed by a plan, since another bound may
    /// change the last digits of sums
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = value_parser!(u32).range(1..))]
    feed_forward_scratch_mib: u32,
    /// Memory for the transformer's queries, keys and values at a time, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = value_parser!(u32).range(1..))]
    qkv_scratch_mib: u32,
}

/// How fast things go; an H200's measured rates or the profile's if none are given.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Machine")]
struct RateArgs {
    /// Copies from the host to the GPU, in GB a second
    #[arg(long, value_name = "RATE", value_parser = rate)]
    h2d_gb_per_s: Option<f64>,
    /// Reading a file that is in nobody's memory, in GB a second
    #[arg(long, value_name = "RATE", value_parser = rate)]
    file_gb_per_s: Option<f64>,
    /// The transformer in 16-bit types, in TFLOP a second; the other networks in proportion
    #[arg(long, value_name = "RATE", value_parser = rate)]
    tflops: Option<f64>,
    /// What driver and libraries take of the GPU for themselves: an estimate, which differs between cards and drivers
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse, default_value = "672MiB")]
    device_overhead: u64,
}

const _: () = assert!(DEVICE_OVERHEAD_BYTES == 672 << 20, "the default above says another number");

/// Width and height in pixels.
#[derive(Debug, Clone, Copy)]
struct Size {
    width: u64,
    height: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        let (width, height) =
            sides.ok_or_else(|| format!("{text:?} is no size: WIDTHxHEIGHT in pixels, such as 1344x768"))?;
        Ok(Self { width, height })
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let partition = args.partition.unwrap_or(args.request.task.partition());
    let sizes = match (&args.checkpoint, args.released) {
        (Some(checkpoint), false) => ModelSizes::read(checkpoint, partition)?,
        _ => ModelSizes::released(partition),
    };
    let shape = args.shape(&sizes)?;
    let budgets = args.budgets()?;
    let memory = MemoryBounds {
        feed_forward_bytes: (args.numerics.feed_forward_scratch_mib as usize) << 20,
        qkv_bytes: (args.numerics.qkv_scratch_mib as usize) << 20,
        ..MemoryBounds::default()
    };
    let precision = Precision::new(args.numerics.dtype, args.numerics.decode_precision);
    let planner = Planner::new(sizes, precision, memory, args.rates(), args.rates.device_overhead);
    let planned = planner.plan(&shape, &budgets);
    match &planned {
        Ok(plan) => {
            let most = planner.largest_rows(budgets.hbm_bytes, plan.sequence.text_rows, plan.sequence.forwards);
            if args.json {
                output::json(&describe::object(plan, most));
            } else {
                output::line(format_args!("{}", describe::text(&shape, plan, most)));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal @ (Refusal::Device { .. } | Refusal::Host { .. })) => {
            if args.json {
                output::json(&describe::refused(refusal));
            } else {
                output::line(format_args!("{}", describe::refusal(&shape, refusal)));
            }
            Ok(ExitCode::FAILURE)
        }
        Err(refusal) => Err(refusal.clone().into()),
    }
}

impl Args {
    fn shape(&self, sizes: &ModelSizes) -> anyhow::Result<RequestShape> {
        let (request, settings) = (&self.request, &sizes.settings);
        let geometry = &settings.geometry;
        let canvas = match (request.size, self.profile) {
            (Some(size), _) => geometry.explicit_canvas(size.width, size.height).context("--size cannot be")?,
            (None, Some(profile)) => profile.canvas(),
            (None, None) => usual_canvas(geometry)?,
        };
        let num_frames = match (request.frames, self.profile) {
            (Some(frames), _) => FrameCount::from_frames(frames, geometry).context("--frames cannot be")?,
            (None, Some(profile)) => profile.num_frames(),
            (None, None) => settings.defaults.num_frames.of(request.task),
        };
        let points = self.profile.map(|profile| profile.points);
        let keyframe = u32::from(request.task == Task::Fl2va);
        Ok(RequestShape {
            task: request.task,
            canvas,
            num_frames,
            prompt_rows: request.prompt_rows,
            references: ReferenceCounts {
                images: request.images.unwrap_or(keyframe),
                videos: request.videos,
                audios: request.audios,
            },
            points: request.steps.or(points).unwrap_or(settings.defaults.num_inference_steps),
        })
    }

    fn budgets(&self) -> anyhow::Result<Budgets> {
        let ResidencyArgs { hbm_budget, host_budget, resident_layers } = self.residency;
        let of_profile = self.profile.map(|profile| profile.hbm_bytes);
        let hbm_bytes =
            hbm_budget.or(of_profile).context("the GPU's memory is not known: name --hbm-budget or --profile")?;
        let of_profile = self.profile.map(|profile| profile.resident_layers);
        let resident_layers = resident_layers.or(of_profile).unwrap_or(ResidentLayers::Auto);
        Ok(Budgets { hbm_bytes, host_bytes: host_budget, resident_layers })
    }

    fn rates(&self) -> Rates {
        let rates = self.profile.map_or(Rates::H200, |profile| profile.rates);
        let RateArgs { h2d_gb_per_s, file_gb_per_s, tflops, .. } = self.rates;
        let rates = tflops.map_or(rates, |tflops| rates.with_transformer_tflops(tflops));
        Rates {
            h2d_gb_per_s: h2d_gb_per_s.unwrap_or(rates.h2d_gb_per_s),
            file_gb_per_s: file_gb_per_s.unwrap_or(rates.file_gb_per_s),
            ..rates
        }
    }
}

/// The canvas of 16:9.
fn usual_canvas(geometry: &GeometryProfile) -> anyhow::Result<Canvas> {
    Ok(geometry.canvas(16.0 / 9.0)?)
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    number.ok_or_else(|| format!("{text:?} is no rate: a positive number"))
}

fn task() -> impl TypedValueParser<Value = Task> {
    PossibleValuesParser::new(Task::ALL.map(Task::as_str)).try_map(|name| name.parse::<Task>())
}
