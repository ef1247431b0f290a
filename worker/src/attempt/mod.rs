//! One attempt at one job, from its claim to its end.

mod account;
pub(crate) mod adopt;
pub(crate) mod classify;
pub(crate) mod ending;
mod run_engine;
mod settle;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_h3::GenerationSpec;
use clapboard_jobs::{Claimed, Fingerprint, Job, Lease, Preview, ResultObject, RunReport};
use clapboard_telemetry::metrics::names;

use crate::attempt::classify::AttemptError;
use crate::attempt::run_engine::Work;
use crate::claims::pipeline::{Place, Seat};
use crate::error::Error;
use crate::heartbeat::Kept;
use crate::machine::health::Health;
use crate::machine::memory::peak_memory_bytes;
use crate::progress::watch::{StopCause, Watch};
use crate::resume::start::{Start, start_of};
use crate::scratch::AttemptFolder;
use crate::scratch::digest;
use crate::scratch::disk::{ABORT_PATIENCE, let_clean, on_disk};
use crate::scratch::kept_claim::KeptClaim;
use crate::shared::Shared;
use crate::video::previews::{Patience, Previews};
use crate::video::sink::MuxSink;
use crate::video::upload::{upload, wedged};

/// How an attempt leaves its worker.
pub(crate) struct Ended {
    pub(crate) health: Health,
    /// The engine or an upload hangs, or the engine's weights have changed: the process has to end. The job has been handed
    /// back.
    pub(crate) wedged: Option<Error>,
    /// The engine and the place to wait for it, where the attempt had them to its end; to be dropped once the rest has been
    /// dealt with.
    pub(crate) places: (Option<Seat>, Option<Place>),
}

/// Works on a claimed job until it has ended or was given back.
///
/// `claimed_at` is a moment before the claim was sent: from it the lease is counted. However this ends, and also when it
/// is dropped, the heartbeat stops; and nothing stays on the scratch disk, unless it is dropped with a finished video.
pub(crate) async fn execute(shared: Arc<Shared>, claimed: Claimed, claimed_at: Instant, place: Place) -> Ended {
    let Claimed { lease, job } = claimed;
    let watch = Watch::new(shared.options.stall_limits, claimed_at + lease.duration);
    let watch = Arc::new(watch.of(job.partition));
    let attempt = Attempt::new(shared, lease, watch);
    let mut held = Held { place: Some(place), ..Held::default() };
    let made = match job.spec.decode() {
        Ok(spec) => tokio::select! {
            made = attempt.make(Arc::new(spec), &job, claimed_at, &mut held) => made,
            never = attempt.pass_on_drain() => match never {},
        },
        Err(error) => Err(AttemptError::Spec(error)),
    };
    attempt.settle(made, held).await
}

/// Ends the attempt for its other threads.
struct EndOnDrop(Arc<Watch>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// One attempt, whose lease is kept.
pub(crate) struct Attempt {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lease: Lease,
    pub(crate) watch: Arc<Watch>,
    kept: Kept,
    since: Instant,
    _over: EndOnDrop,
}

/// What an attempt has taken and has to give back.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) place: Option<Place>,
    pub(crate) seat: Option<Seat>,
    pub(crate) folder: Option<AttemptFolder>,
    pub(crate) sink: Option<MuxSink>,
}

impl Held {
    /// Kills ffmpeg and removes what was written. Both wait for threads and disks, and go on by themselves where these hang;
    /// the engine may still hold its clone of the sink when it hangs.
    pub(crate) async fn clean(&mut self) {
        let (folder, sink) = (self.folder.take(), self.sink.take());
        let_clean(move || {
            if let Some(sink) = sink {
                sink.abort();
            }
            if let Some(folder) = folder {
                folder.remove();
            }
        })
        .await;
    }
}

/// A result that is stored and that no row names yet.
#[derive(Debug)]
pub(crate) struct Made {
    object: ResultObject,
    previews: Vec<Preview>,
    report: RunReport,
}

impl Attempt {
    /// Begins an attempt, whose lease is kept from now on.
    pub(crate) fn new(shared: Arc<Shared>, lease: Lease, watch: Arc<Watch>) -> Self {
        let kept = shared.heartbeat.keep(lease.clone(), Arc::clone(&watch), &shared.options);
        shared.liveness.follow(&watch);
        let _over = EndOnDrop(Arc::clone(&watch));
        Self { shared, lease, watch, kept, since: Instant::now(), _over }
    }

    /// Generates, encodes and stores the video.
    async fn make(
        &self,
        spec: Arc<GenerationSpec>,
        job: &Job,
        claimed_at: Instant,
        held: &mut Held,
    ) -> Result<Made, AttemptError> {
        let folder = &*held.folder.insert(self.make_folder().await?);
        let generator = &self.shared.parts.generator;
        // A partition that is not served has none, and the engine refuses it.
        let fingerprint = Fingerprint(generator.fingerprint(spec.partition).unwrap_or_default().to_owned());
        let media = self.watch.timed("prepare", self.prepare_inputs(&spec, folder)).await?;
        let start = self.find_start(job, &fingerprint).await?;
        held.seat = Some(self.take_engine(claimed_at).await?);
        held.place = None;
        let begun_at = Instant::now();
        let ffmpeg = &self.shared.parts.tools.ffmpeg;
        let sink = MuxSink::new(ffmpeg, spec.quality, folder.path().to_owned(), folder.video());
        held.sink = Some(sink.clone());
        let work = Work { spec, media, fingerprint };
        let report = self.run_engine(work, start, &sink, folder.path()).await?;
        self.watch.generated();
        let stages = report.phase_seconds.iter().map(|(phase, seconds)| (phase.to_string(), *seconds)).collect();
        let seat = held.seat.take();
        tokio::select! {
            made = self.finish(begun_at, stages, &sink, held) => made,
            never = self.shared.pipeline.finish_beside(seat) => match never {},
        }
    }

    async fn make_folder(&self) -> Result<AttemptFolder, AttemptError> {
        let (scratch, lease) = (self.shared.options.scratch.clone(), self.lease.clone());
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => Err(AttemptError::Stopped),
            created = on_disk(&self.watch, move || AttemptFolder::create(&scratch, &lease)) => {
                created?.map_err(AttemptError::Folder)
            }
        }
    }

    /// Fetches the state from which the engine goes on.
    async fn find_start(&self, job: &Job, engine: &Fingerprint) -> Result<Start, AttemptError> {
        let (parts, limit) = (&self.shared.parts, self.shared.options.stall_limits.prepare);
        // Bounded by itself, and no hang of this machine's.
        self.watch.waits();
        tokio::select! {
            biased;
            () = self.watch.stopping.cancelled() => Err(AttemptError::Stopped),
            () = self.shared.closing.cancelled() => Err(AttemptError::Stopped),
            start = start_of(job, engine, &*parts.blob, limit) => Ok(start),
        }
    }

    /// Waits for the engine, for as long as it can be expected to be free in time, and never for longer than a bound that
    /// counts from the claim: somebody else's engine may be free.
    async fn take_engine(&self, claimed_at: Instant) -> Result<Seat, AttemptError> {
        let pipeline = &self.shared.pipeline;
        let window = self.shared.options.prefetch_window;
        let most = window * 2;
        let bound = claimed_at + most;
        let look = self.shared.options.look_interval();
        loop {
            let seat = tokio::select! {
                biased;
                () = self.watch.stopping.cancelled() => return Err(AttemptError::Stopped),
                () = self.shared.closing.cancelled() => return Err(AttemptError::Stopped),
                seat = pipeline.take_engine(&self.watch) => seat,
                () = tokio::time::sleep(look) => {
                    let too_late = pipeline.engine_free_in(window).is_some_and(|wait| wait > most);
                    if too_late || Instant::now() >= bound {
                        tracing::info!("the engine is not free as soon as was predicted: handing the job back");
                        return Err(AttemptError::NotFree);
                    }
                    continue;
                }
            };
            self.watch.seated();
            return Ok(seat);
        }
    }

    /// Tells the engine of a drain when one begins, and everybody when it has lasted as long as it may.
    pub(crate) async fn pass_on_drain(&self) -> Infallible {
        self.shared.stopping.cancelled().await;
        self.watch.stop(StopCause::Drain);
        self.shared.drain_is_over().await;
        self.watch.overdue.cancel();
        pending().await
    }

    /// Finishes the file, puts its claim beside it, and stores it.
    async fn finish(
        &self,
        begun_at: Instant,
        mut stages: BTreeMap<String, f64>,
        sink: &MuxSink,
        held: &mut Held,
    ) -> Result<Made, AttemptError> {
        stages.insert("encode".to_owned(), self.watch.timed("encode", self.encode(sink)).await?.as_secs_f64());
        let since = Instant::now();
        let report = RunReport {
            inference_s: begun_at.elapsed().as_secs_f64(),
            stage_durations_s: stages,
            peak_memory_bytes: peak_memory_bytes(),
        };
        let folder = held.folder.as_mut().expect("the folder is removed only when the attempt is settled");
        self.watch.touch();
        match self.keep_claim(folder, &report).await? {
            Ok(()) => folder.keep(),
            Err(error) => tracing::warn!(%error, "the video could not be kept for the case that this process dies"),
        }
        let video = folder.video();
        self.store_video(&video, report, since).await
    }

    /// Finishes the file and returns how long that took; one that nobody wants any more is not waited for.
    async fn encode(&self, sink: &MuxSink) -> Result<Duration, AttemptError> {
        let since = Instant::now();
        let (finishing, timeout) = (sink.clone(), self.shared.options.encode_timeout);
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
                let aborting = sink.clone();
                let aborted = tokio::task::spawn_blocking(move || aborting.abort());
                let gone = async { tokio::join!(aborted, finished) };
                let _ = tokio::time::timeout(ABORT_PATIENCE, gone).await;
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

    /// Lets a restarted worker store the video, should this process die before it has.
    async fn keep_claim(&self, folder: &AttemptFolder, report: &RunReport) -> Result<io::Result<()>, AttemptError> {
        let (video, path) = (folder.video(), folder.path().to_owned());
        let (lease, report) = (self.lease.clone(), report.clone());
        let kept = on_disk(&self.watch, move || {
            let sha256 = digest::of_file(&video)?;
            KeptClaim::new(&lease, sha256, report).write(&path)
        });
        kept.await
    }

    /// Stores the video, whose report was made at `since`, and the pictures of it, which are made meanwhile.
    pub(crate) async fn store_video(
        &self,
        video: &Path,
        mut report: RunReport,
        since: Instant,
    ) -> Result<Made, AttemptError> {
        let upload_since = Instant::now();
        let (parts, options) = (&self.shared.parts, &self.shared.options);
        let previews = Previews::begin(&parts.tools.ffmpeg, video);
        let uploading = upload(&*parts.blob, &self.lease, video, &self.watch, options);
        let object = self.watch.timed("upload", uploading).await?;
        names::S3_UPLOAD_SECONDS.record(upload_since.elapsed(), []);
        report.stage_durations_s.insert("upload".to_owned(), upload_since.elapsed().as_secs_f64());
        report.inference_s += since.elapsed().as_secs_f64();
        tracing::info!(
            phase = "upload",
            duration_ms = millis(upload_since),
            size_bytes = object.size_bytes,
            "stored the video"
        );
        // Half of the time after which the attempt would have to be given up.
        let silence = self.lease.duration.saturating_sub(options.fence_margin) / 2;
        let patience = Patience { timeout: options.preview_timeout, silence };
        let previews = previews.store(&*parts.store, &*parts.blob, &self.lease, video, &self.watch, patience).await;
        Ok(Made { object, previews, report })
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
