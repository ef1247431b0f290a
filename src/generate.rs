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
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

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
/// How long decoding may take to stop.
const ABORT_PATIENCE: Duration = Duration::from_secs(5);
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    let result = runtime.block_on(generate(args));
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
    as_json: bool,
}

impl Job {
    /// Looks at everything but the weights; decodes pictures and sounds until `aborted`.
    ///
    /// Errors: a sentence about the first option that cannot be.
    fn new(args: Args, aborted: &AtomicBool) -> anyhow::Result<Self> {
        args.inputs.check_task(args.request.task())?;
        let checkpoint = Checkpoint::open(&args.engine.checkpoint)?;
        let tools = args.media.find()?;
        let inputs = args.inputs.inspect(&tools, &checkpoint.settings().geometry, aborted)?;
        let partition = inputs.task.partition();
        let spec = args.request.resolve(&checkpoint.profile(&[partition])?, &inputs)?;
        let config = args.engine.config(vec![partition])?;
        Ok(Self { config, tools, spec: Arc::new(spec), inputs, as_json: args.json })
    }
}

/// Waits for what a thread does, until a signal comes; then the thread is told by `aborted`, and gets a moment to remove
/// what it has written.
async fn unless_stopped<T>(
    interrupts: &mut Interrupts,
    aborted: &AtomicBool,
    mut working: JoinHandle<anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let signal = tokio::select! {
        done = &mut working => return done.context("a thread was interrupted")?,
        signal = interrupts.next() => signal,
    };
    aborted.store(true, Ordering::Relaxed);
    // Whether it has ended or hangs: there is no more to be done about it.
    let _ = timeout(ABORT_PATIENCE, working).await;
    Err(Stopped(signal).into())
}

async fn generate(args: Args) -> anyhow::Result<()> {
    // From here on: what is being written is removed when a signal comes.
    let mut interrupts = Interrupts::listen()?;
    let target = Target::open(&args.output, args.force)?;
    let aborted = Arc::new(AtomicBool::new(false));
    let looking = spawn_blocking({
        let aborted = Arc::clone(&aborted);
        move || Job::new(args, &aborted)
    });
    let job = unless_stopped(&mut interrupts, &aborted, looking).await?;
    let Job { config, tools, spec, inputs, as_json } = job;
    let started = Instant::now();

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
        move || {
            let engine = EngineHandle::start(config)?;
            anyhow::Ok((engine, started.elapsed().as_secs_f64()))
        }
    });
    let preparing = spawn_blocking({
        let (spec, tools, aborted) = (Arc::clone(&spec), tools.clone(), Arc::clone(&aborted));
        move || inputs.prepare(&spec, &tools, &aborted)
    });
    let loaded = tokio::select! {
        loaded = loading => loaded.context("loading the engine was interrupted")?,
        signal = interrupts.next() => Err(Stopped(signal).into()),
    };
    let (engine, load_seconds) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            aborted.store(true, Ordering::Relaxed);
            let _ = timeout(ABORT_PATIENCE, preparing).await;
            return Err(error);
        }
    };
    let media = unless_stopped(&mut interrupts, &aborted, preparing).await?;

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
            // The thread that finishes removes what it has written, and gets a moment for it.
            let _ = timeout(ABORT_PATIENCE, finishing).await;
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
