//! `clapboard generate`: one prompt to one MP4, without a server.

mod report;
mod request;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clapboard_engine::{EngineHandle, GenerateError, Generation, GenerationReport, Stop};
use clapboard_h3::GenerationSpec;
use clapboard_media::{Ffmpeg, MuxReport};
use clapboard_worker::MuxSink;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::engine_args::{EngineArgs, MediaArgs};
use crate::generate::report::Report;
use crate::generate::request::RequestArgs;
use crate::generate::watch::{Screen, StopSwitch, Watch};
use crate::interrupt::Interrupts;
use crate::output;

/// How long ffmpeg may take to finish the file after its last frame.
const ENCODE_TIMEOUT: Duration = Duration::from_secs(600);
/// How often progress is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Generate one video without a server
///
/// Ctrl-C stops at the next block and leaves nothing behind.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    media: MediaArgs,
    #[command(flatten)]
    request: RequestArgs,
    /// The MP4 to write
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
    runtime.block_on(generate(args))
}

async fn generate(args: Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    check_output(&args.output, args.force)?;
    let ffmpeg = args.media.find()?;
    let config = args.engine.config()?;
    let mut interrupts = Interrupts::listen()?;

    output::error_line(format_args!("loading {}", config.checkpoint.display()));
    let loading = spawn_blocking({
        let config = config.clone();
        move || EngineHandle::start(config)
    });
    let engine = tokio::select! {
        loaded = loading => loaded.context("loading the engine was interrupted")??,
        // The loading thread only reads, so the process may end under it.
        signal = interrupts.next() => bail!("stopped by {signal} while loading"),
    };
    let load_seconds = started.elapsed().as_secs_f64();

    let spec = Arc::new(args.request.resolve(engine.profile())?);
    output::error_line(format_args!(
        "{} {}, {} frames ({:.3} s), {} forwards, seed {}",
        spec.task,
        spec.canvas,
        spec.num_frames.get(),
        spec.num_frames.seconds(),
        spec.forwards(),
        spec.seed
    ));
    let (run, file) = generate_file(&engine, &spec, &ffmpeg, &args.output, interrupts).await?;

    let report = Report {
        output: &args.output,
        spec: &spec,
        dtype: config.dtype,
        run: &run,
        size_bytes: file.size_bytes,
        load_seconds,
        total_seconds: started.elapsed().as_secs_f64(),
        peak_memory_bytes: clapboard_worker::peak_memory_bytes(),
    };
    if args.json {
        output::line(format_args!("{}", report.json()));
    } else {
        output::line(format_args!("{report}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the engine into ffmpeg and waits for the finished file; whatever goes wrong, no file is left.
async fn generate_file(
    engine: &EngineHandle,
    spec: &Arc<GenerationSpec>,
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
        control: Arc::clone(&stop) as _,
        progress: Arc::clone(&watch) as _,
        sink: Box::new(sink.clone()),
    };
    engine.generate(
        generation,
        Box::new(move |result| {
            // The receiver is gone only when this function has returned, and nobody waits for the result.
            let _ = done.send(result);
        }),
    );

    let mut screen = Screen::new();
    let mut draw = tokio::time::interval(DRAW_INTERVAL);
    let result = loop {
        tokio::select! {
            result = &mut ended => break result.context("the engine's thread has ended")?,
            _ = draw.tick() => screen.draw(&watch),
            signal = interrupts.next(), if !stop.is_set() => {
                screen.say(&format!("{signal}: stopping at the next block"));
                stop.set();
            }
        }
    };
    screen.draw(&watch);
    screen.close();
    let run = match result {
        Ok(run) => run,
        Err(error) => {
            spawn_blocking(move || sink.abort()).await.context("could not remove the unfinished file")?;
            return Err(match error {
                GenerateError::Stopped(Stop::Cancelled) => anyhow!("stopped, nothing was written"),
                error => anyhow::Error::new(error).context("could not generate the video"),
            });
        }
    };
    let file =
        spawn_blocking(move || sink.finish(ENCODE_TIMEOUT)).await.context("finishing the file was interrupted")?;
    Ok((run, file.context("could not finish the video file")?))
}

/// Refuses an output that cannot become a file, before anything expensive happens.
fn check_output(output: &Path, force: bool) -> anyhow::Result<()> {
    let folder = folder_of(output);
    if output.file_name().is_none() || output.is_dir() {
        bail!("output {} is not a file name", output.display());
    }
    if !folder.is_dir() {
        bail!("output {}: there is no directory {}", output.display(), folder.display());
    }
    if output.exists() && !force {
        bail!("output {} exists already; --force overwrites it", output.display());
    }
    Ok(())
}

/// The directory that a file is in; the current one for a bare name.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
