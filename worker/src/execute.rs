//! One attempt at one job.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_engine::{GenerateError, Generation, GenerationReport};
use clapboard_h3::GenerationSpec;
use clapboard_jobs::{Causes, Claimed, ErrorClass, HandBack, JobState, Lease, Outcome, ResultObject, RunReport};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::classify::AttemptError;
use crate::ending::{self, Ending, Written};
use crate::error::Error;
use crate::health::Health;
use crate::heartbeat::Heartbeat;
use crate::memory::peak_memory_bytes;
use crate::options::Options;
use crate::scratch::AttemptFolder;
use crate::sink::MuxSink;
use crate::upload::{upload, wedged};
use crate::watch::{StopCause, Watch};
use crate::worker::Parts;

/// How long an encoder that is to be killed may take to go.
const ABORT_PATIENCE: Duration = Duration::from_secs(5);

/// Works on a claimed job until it has ended or was given back, and tells how that leaves the worker.
///
/// `claimed_at` is a moment before the claim was sent: from it the lease is counted. However this ends, and also when it
/// is dropped, the heartbeat stops and nothing stays on the scratch disk.
///
/// Errors: [`Error::Wedged`] when the engine cannot be used any more; the job has been handed back.
pub(crate) async fn execute(
    parts: &Parts,
    options: &Options,
    heartbeat: &Heartbeat,
    claimed: Claimed,
    claimed_at: Instant,
    shutdown: &CancellationToken,
) -> Result<Health, Error> {
    let Claimed { lease, job } = claimed;
    let watch = Arc::new(Watch::new(options.stall_limits, claimed_at + lease.duration));
    let _over = EndOnDrop(Arc::clone(&watch));
    heartbeat.keep(Arc::clone(&parts.store), lease.clone(), Arc::clone(&watch), options);
    let attempt = Attempt { parts, options, lease, watch, shutdown, begun_at: Instant::now() };
    let made = match job.spec.decode() {
        Ok(spec) => tokio::select! {
            made = attempt.make(Arc::new(spec)) => made,
            never = attempt.pass_on_drain() => match never {},
        },
        Err(error) => Err(AttemptError::Spec(error)),
    };
    attempt.settle(made).await
}

/// Ends the attempt for its other threads.
struct EndOnDrop(Arc<Watch>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Attempt<'a> {
    parts: &'a Parts,
    options: &'a Options,
    lease: Lease,
    watch: Arc<Watch>,
    shutdown: &'a CancellationToken,
    begun_at: Instant,
}

/// A result that is stored and that no row names yet.
#[derive(Debug)]
struct Made {
    object: ResultObject,
    stages: BTreeMap<String, f64>,
}

impl Attempt<'_> {
    /// Generates, encodes and stores the video, in a folder that is gone afterwards.
    async fn make(&self, spec: Arc<GenerationSpec>) -> Result<Made, AttemptError> {
        let (scratch, lease) = (self.options.scratch.clone(), self.lease.clone());
        let created = tokio::task::spawn_blocking(move || AttemptFolder::create(&scratch, &lease));
        let folder = created.await.map_err(io::Error::other).flatten().map_err(AttemptError::Folder)?;
        let output = folder.path().join("video.mp4");
        let sink = MuxSink::new(&self.parts.ffmpeg, spec.quality, folder.path().to_owned(), output.clone());
        let made = self.make_in(spec, &sink, &output).await;
        // Killing ffmpeg and removing what it wrote waits for threads and disks. The engine may still hold its clone of
        // the sink when it hangs.
        let cleaned = tokio::task::spawn_blocking(move || {
            sink.abort();
            drop(folder);
        });
        if let Err(error) = cleaned.await {
            tracing::error!(%error, "the cleaning up of an attempt failed");
        }
        made
    }

    async fn make_in(&self, spec: Arc<GenerationSpec>, sink: &MuxSink, output: &Path) -> Result<Made, AttemptError> {
        let report = self.generate(spec, sink).await?;
        let mut stages = BTreeMap::new();
        self.watch.generated();
        stages.extend(report.phase_seconds.iter().map(|(phase, seconds)| (phase.to_string(), *seconds)));
        stages.insert("encode".to_owned(), self.encode(sink).await?.as_secs_f64());
        let since = Instant::now();
        let object = upload(&*self.parts.blob, &self.lease, output, &self.watch, self.options).await?;
        stages.insert("upload".to_owned(), since.elapsed().as_secs_f64());
        tracing::info!(
            phase = "upload",
            duration_ms = millis(since),
            size_bytes = object.size_bytes,
            "stored the video"
        );
        Ok(Made { object, stages })
    }

    /// Runs the engine.
    async fn generate(&self, spec: Arc<GenerationSpec>, sink: &MuxSink) -> Result<GenerationReport, AttemptError> {
        let (sender, done) = oneshot::channel();
        let generation = Generation {
            spec,
            control: Arc::clone(&self.watch) as _,
            progress: Arc::clone(&self.watch) as _,
            sink: Box::new(sink.clone()),
        };
        // Nobody listens any more when the attempt was given up.
        self.parts.generator.generate(generation, Box::new(move |result| drop(sender.send(result))));
        tokio::select! {
            biased;
            done = done => done.unwrap_or_else(|_| Err(unanswered())).map_err(AttemptError::Generate),
            () = self.watch.wedged.cancelled() => Err(wedged(&self.watch)),
            () = self.watch.overdue.cancelled() => Err(AttemptError::Stopped),
        }
    }

    /// Tells the engine of a drain when one begins, and everybody when it has lasted as long as it may.
    async fn pass_on_drain(&self) -> Infallible {
        self.shutdown.cancelled().await;
        self.watch.stop(StopCause::Drain);
        tokio::time::sleep(self.options.drain_timeout).await;
        self.watch.overdue.cancel();
        pending().await
    }

    /// Finishes the file and returns how long that took; one that nobody wants any more is not waited for.
    async fn encode(&self, sink: &MuxSink) -> Result<Duration, AttemptError> {
        let since = Instant::now();
        self.watch.touch();
        let (finishing, timeout) = (sink.clone(), self.options.encode_timeout);
        let mut finished = tokio::task::spawn_blocking(move || finishing.finish(timeout));
        let stopped = tokio::select! {
            biased;
            finished = &mut finished => Ok(finished.map_err(|_| AttemptError::Encode(clapboard_media::Error::Ended))?),
            () = self.watch.abandoned.cancelled() => Err(AttemptError::Stopped),
            () = self.watch.overdue.cancelled() => Err(AttemptError::Stopped),
            () = self.watch.wedged.cancelled() => Err(wedged(&self.watch)),
        };
        let report = match stopped {
            Ok(report) => report,
            Err(stopped) => {
                // The folder must not be removed under an ffmpeg that still writes; but nobody waits for one that cannot
                // even be killed.
                sink.abort();
                let _ = tokio::time::timeout(ABORT_PATIENCE, finished).await;
                return Err(stopped);
            }
        };
        let report = report.map_err(AttemptError::Encode)?;
        tracing::info!(
            phase = "encode",
            duration_ms = millis(since),
            size_bytes = report.size_bytes,
            "encoded the video"
        );
        Ok(since.elapsed())
    }

    /// Writes how the attempt ended, and removes a stored result that did not become the job's.
    async fn settle(&self, made: Result<Made, AttemptError>) -> Result<Health, Error> {
        let stored = made.is_ok();
        let (ending, wedged) = match made {
            Ok(made) => (Some(self.completed(made)), None),
            Err(error) => {
                let wedged = match &error {
                    AttemptError::Wedged(stall) => Some(*stall),
                    _ => None,
                };
                (self.ending_of(&error), wedged)
            }
        };
        let health = match &ending {
            Some(Ending::HandBack(HandBack::Unwell { .. })) => Health::Unwell,
            _ => Health::Well,
        };
        let written = match &ending {
            Some(ending) => ending::write(&*self.parts.store, &self.lease, ending, &self.watch).await,
            None => Written::Lost,
        };
        match written {
            Written::State(state) => {
                tracing::info!(%state, duration_ms = millis(self.begun_at), "the attempt has ended")
            }
            Written::Lost => tracing::info!(duration_ms = millis(self.begun_at), "the attempt is discarded"),
            Written::Unknown => tracing::error!("the attempt's ending could not be written, the job will be reclaimed"),
        }
        let ours = matches!(written, Written::State(JobState::Completed) | Written::Unknown);
        if stored && !ours {
            self.remove_result().await;
        }
        match wedged {
            Some(stall) => Err(Error::Wedged { job: self.lease.job, phase: stall.phase, limit: stall.limit }),
            None => Ok(health),
        }
    }

    fn completed(&self, made: Made) -> Ending {
        let report = RunReport {
            inference_s: self.begun_at.elapsed().as_secs_f64(),
            stage_durations_s: made.stages,
            peak_memory_bytes: peak_memory_bytes(),
        };
        Ending::Finish(Outcome::Completed { object: made.object, report })
    }

    /// What is written about an attempt that failed; nothing when the job is another's.
    fn ending_of(&self, error: &AttemptError) -> Option<Ending> {
        // Once the attempt was told to stop, whatever the engine ended with is the answer to that.
        match self.watch.cause() {
            Some(StopCause::LeaseLost | StopCause::Fenced) => return None,
            Some(StopCause::Cancelled) => return Some(Ending::Finish(Outcome::Cancelled)),
            Some(StopCause::Drain) => return Some(Ending::HandBack(HandBack::Drained)),
            None => {}
        }
        let class = error.class();
        match class {
            ErrorClass::Unwell => tracing::warn!(error = %Causes(error), "this machine lacks what every job needs"),
            _ => tracing::error!(error = %Causes(error), ?class, "the attempt failed"),
        }
        let (pause, error) = (self.options.unwell_pause, error.job_error());
        Some(match class {
            ErrorClass::Retryable { after } => Ending::HandBack(HandBack::Retry { after, error }),
            ErrorClass::Fatal { .. } => Ending::Finish(Outcome::Failed(error)),
            ErrorClass::Interrupted => Ending::HandBack(HandBack::Drained),
            ErrorClass::Unwell => Ending::HandBack(HandBack::Unwell { after: pause, error }),
        })
    }

    /// Removes the stored result; where that fails, the sweep over garbage and orphans finds it.
    async fn remove_result(&self) {
        let key = self.lease.result_key();
        if let Err(error) = self.parts.blob.delete(&key).await {
            tracing::warn!(error = %Causes(&error), %key, "could not remove a discarded result");
        }
    }
}

/// The error of an engine that dropped a generation without a word.
fn unanswered() -> GenerateError {
    GenerateError::Panicked { message: "the engine did not say how the generation ended".to_owned() }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
