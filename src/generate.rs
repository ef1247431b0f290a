//! `clapboard generate`: one prompt, and what goes with it, to one MP4, without a server.

mod estimate;
mod flags;
mod inputs;
mod report;
mod request;
mod target;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clapboard_engine::checkpoint::Checkpoint;
use clapboard_engine::{EngineConfig, EngineHandle, GenerateError, Generation, GenerationReport, NoCheckpoints, Stop};
use clapboard_h3::GenerationSpec;
use clapboard_h3::prepare::PreparedReference;
use clapboard_media::{Ffmpeg, MediaTools, MuxReport};
use clapboard_worker::MuxSink;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::generate::inputs::{InputArgs, Inputs};
use crate::generate::report::{Report, signed_seed};
use crate::generate::request::RequestArgs;
use crate::generate::target::Target;
use crate::generate::watch::{Screen, StopSwitch, Watch};
use crate::interrupt::{Interrupts, Stopped};
use crate::output;
use crate::settings::{EngineArgs, MediaArgs};

/// How long ffmpeg may take to finish the file after its last frame.
const ENCODE_TIMEOUT: Duration = Duration::from_secs(600);
/// How often progress is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Generate one video without a server
///
/// From a prompt alone it needs --size or --aspect-ratio. Ctrl-C stops at the next block, leaves nothing behind and exits with 130.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    media: MediaArgs,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    inputs: InputArgs,
    /// The MP4 to write; its name ends in .mp4
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: PathBuf,
    /// Overwrite the output if it is there
    #[arg(long, help_heading = "Output")]
    force: bool,
    /// Print the result as one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let job = Job::try_from(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    let result = runtime.block_on(generate(job));
    // An engine that still loads only reads, and is not waited for.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

/// One generation, checked as far as that goes without weights.
struct Job {
    config: EngineConfig,
    tools: MediaTools,
    spec: Arc<GenerationSpec>,
    inputs: Inputs,
    target: Target,
    as_json: bool,
}

impl TryFrom<Args> for Job {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first option that cannot be.
    fn try_from(args: Args) -> anyhow::Result<Self> {
        let target = Target::open(&args.output, args.force)?;
        let checkpoint = Checkpoint::open(&args.engine.checkpoint)?;
        let tools = args.media.find()?;
        let inputs = args.inputs.inspect(&tools, &checkpoint.settings().geometry)?;
        let partition = args.request.partition(&inputs);
        let spec = args.request.resolve(&checkpoint.profile(&[partition])?, &inputs)?;
        let config = args.engine.config(vec![partition])?;
        Ok(Self { config, tools, spec: Arc::new(spec), inputs, target, as_json: args.json })
    }
}

async fn generate(job: Job) -> anyhow::Result<()> {
    let Job { config, tools, spec, inputs, target, as_json } = job;
    let started = Instant::now();
    let mut interrupts = Interrupts::listen()?;

    output::error_line(format_args!(
        "{} {}, {} frames ({:.3} s), {} forwards, seed {}",
        spec.task,
        spec.canvas,
        spec.num_frames.get(),
        spec.num_frames.seconds(),
        spec.forwards(),
        signed_seed(&spec)
    ));
    output::error_line(format_args!("loading {}", config.checkpoint.display()));
    let loading = spawn_blocking({
        let config = config.clone();
        move || EngineHandle::start(config)
    });
    let aborted = Arc::new(AtomicBool::new(false));
    let preparing = spawn_blocking({
        let (spec, tools, aborted) = (Arc::clone(&spec), tools.clone(), Arc::clone(&aborted));
        move || inputs.prepare(&spec, &tools, &aborted)
    });
    let ready = async {
        let media = preparing.await.context("preparing the inputs was interrupted")??;
        let engine = loading.await.context("loading the engine was interrupted")??;
        anyhow::Ok((engine, media))
    };
    let (engine, media) = tokio::select! {
        ready = ready => ready?,
        signal = interrupts.next() => {
            aborted.store(true, Ordering::Relaxed);
            return Err(Stopped(signal).into());
        }
    };
    let load_seconds = started.elapsed().as_secs_f64();

    let (run, file) =
        generate_file(&engine, &spec, media.into(), &tools.ffmpeg, target.unfinished(), interrupts).await?;
    let output = target.output().to_owned();
    target.publish()?;

    let report = Report {
        output: &output,
        spec: &spec,
        dtype: config.dtype,
        run: &run,
        size_bytes: file.size_bytes,
        load_seconds,
        total_seconds: started.elapsed().as_secs_f64(),
        peak_memory_bytes: clapboard_worker::peak_memory_bytes(),
    };
    if as_json {
        output::line(format_args!("{}", report.json()));
    } else {
        output::line(format_args!("{report}"));
    }
    Ok(())
}

/// Runs the engine into ffmpeg and waits for the finished file; whatever goes wrong, no file is left.
async fn generate_file(
    engine: &EngineHandle,
    spec: &Arc<GenerationSpec>,
    media: Arc<[PreparedReference]>,
    ffmpeg: &Ffmpeg,
    output: &Path,
    mut interrupts: Interrupts,
) -> anyhow::Result<(GenerationReport, MuxReport)> {
    let sink = MuxSink::new(ffmpeg, spec.quality, folder_of(output), output.to_owned());
    let watch = Arc::new(Watch::default());
    let stop = Arc::new(StopSwitch::default());
    let (done, mut ended) = oneshot::channel();
    let generation = Generation {
        spec: Arc::clone(spec),
        media,
        control: Arc::clone(&stop) as _,
        progress: Arc::clone(&watch) as _,
        sink: Box::new(sink.clone()),
        resume: None,
        checkpoints: Box::new(NoCheckpoints),
    };
    engine.generate(
        generation,
        Box::new(move |result| {
            // The receiver is gone only when this function has returned, and nobody waits for the result.
            let _ = done.send(result);
        }),
    );

    let mut stopped_by = None;
    let mut screen = Screen::new();
    let mut draw = tokio::time::interval(DRAW_INTERVAL);
    let result = loop {
        tokio::select! {
            result = &mut ended => break result.context("the engine's thread has ended")?,
            _ = draw.tick() => screen.draw(&watch),
            signal = interrupts.next(), if stopped_by.is_none() => {
                screen.say(&format!("{signal}: stopping at the next block"));
                stop.set();
                stopped_by = Some(signal);
            }
        }
    };
    screen.draw(&watch);
    screen.close();
    let run = match result {
        Ok(run) => run,
        Err(error) => {
            spawn_blocking(move || sink.abort()).await.context("could not remove the unfinished file")?;
            return Err(match (error, stopped_by) {
                (GenerateError::Stopped(Stop::Cancelled), Some(signal)) => Stopped(signal).into(),
                (error, _) => anyhow::Error::new(error).context("could not generate the video"),
            });
        }
    };
    let unwanted = sink.clone();
    let mut finishing = spawn_blocking(move || sink.finish(ENCODE_TIMEOUT));
    let file = tokio::select! {
        file = &mut finishing => file.context("finishing the file was interrupted")?,
        signal = interrupts.next() => {
            spawn_blocking(move || unwanted.abort()).await.context("could not remove the unfinished file")?;
            return Err(Stopped(signal).into());
        }
    };
    Ok((run, file.context("could not finish the video file")?))
}

/// The directory that a file is in; the current one for a bare name.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
