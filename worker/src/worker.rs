//! The loop that claims jobs and lets attempts work on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clapboard_h3::Partition;
use clapboard_jobs::{
    Blob, Causes, Claimant, Claimed, Dispatch, Store, TraceParent, WorkerCard, WorkerId, WorkerState,
};
use clapboard_media::MediaTools;
use clapboard_telemetry::metrics::names;
use clapboard_telemetry::traces;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::attempt::adopt::adopt;
use crate::attempt::{Ended, execute};
use crate::claims::{Ask, Claiming};
use crate::error::Error;
use crate::generator::Generator;
use crate::heartbeat::Heartbeat;
use crate::heartbeat::announcer::Announcer;
use crate::liveness::Liveness;
use crate::machine::health::{self, Health, LONGEST_PAUSE, Pauses};
use crate::machine::weights::{Served, look_for};
use crate::options::{DrainMode, Options, StallLimits};
use crate::scratch::disk::ABORT_PATIENCE;
use crate::scratch::{self, Orphan};
use crate::shared::Shared;

/// What a worker works with.
#[derive(Clone)]
pub struct Parts {
    /// The truth about jobs.
    pub store: Arc<dyn Store>,
    /// The same over a connection of its own, which is opened and used on the heartbeat's thread alone: beats must not
    /// wait behind other calls.
    pub heartbeat_store: Arc<dyn Store>,
    /// Where hints come from.
    pub dispatch: Arc<dyn Dispatch>,
    /// Where results and states go.
    pub blob: Arc<dyn Blob>,
    /// What generates.
    pub generator: Arc<dyn Generator>,
    /// What decodes inputs and encodes results.
    pub tools: MediaTools,
}

/// Says that a worker has ended in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// It was asked through the job store, not by its own process.
    pub by_order: bool,
}

/// Claims jobs that its engine can run, and runs them one after another, each while the one before is still encoded and
/// stored.
pub struct Worker {
    parts: Parts,
    options: Options,
    orphans: Vec<Orphan>,
    liveness: Liveness,
}

impl Worker {
    /// Makes a worker, and clears its scratch folder of what dead attempts left, but for finished videos. Blocks on the
    /// disk for a moment.
    ///
    /// Errors: [`Error::Options`], [`Error::Scratch`].
    pub fn new(parts: Parts, options: Options) -> Result<Self, Error> {
        let options = options.validated()?;
        let orphans = scratch::prepare(&options.scratch)?;
        Ok(Self { parts, options, orphans, liveness: Liveness::default() })
    }

    /// Lets `liveness` tell from now on whether the worker moves.
    #[must_use]
    pub fn watched_by(self, liveness: Liveness) -> Self {
        Self { liveness, ..self }
    }

    /// Returns the dead workers whose finished videos lie in a scratch folder. A service that takes the jobs of dead
    /// workers back when it starts has to leave theirs alone, so that a worker on that folder can store the videos. Blocks
    /// on the disk for a moment.
    pub fn forerunners(scratch: &Path) -> Vec<WorkerId> {
        scratch::owners(scratch)
    }

    /// Works until `shutdown`, or until somebody asks the worker to drain: then no job is claimed any more, and the running
    /// one is handed back uncounted or completed, as the options say.
    ///
    /// Errors: [`Error::Heartbeat`]; [`Error::Wedged`] when the engine, an upload or the scratch disk hangs, and
    /// [`Error::Hung`], after which the process has to end, since the thread cannot be taken back; [`Error::Changed`], after
    /// which it has to end, since weights are not what the engine takes them for; [`Error::DeviceLost`], after which no
    /// job could be computed. Every job has been handed back by then.
    pub async fn run(self, shutdown: CancellationToken) -> Result<Drained, Error> {
        let Self { parts, options, orphans, liveness } = self;
        let heartbeat = Heartbeat::start(Arc::clone(&parts.heartbeat_store), &options).map_err(Error::Heartbeat)?;
        let partitions = parts.generator.profile().partitions.clone();
        let claimant = Claimant { max_rows: options.max_rows, ..Claimant::new(options.worker, partitions.clone()) };
        let spec_versions = claimant.spec_versions.clone();
        let claiming = Claiming::new(claimant, &options);
        let worker = options.worker;
        let card = WorkerCard {
            id: worker,
            host: options.host.clone(),
            version: options.version.clone(),
            partitions,
            spec_versions,
            max_rows: options.max_rows,
            state: WorkerState::Idle,
        };
        let (interval, pauses) = (options.beat_interval, Pauses::between(options.unwell_pause, LONGEST_PAUSE));
        let served = Served::new(card.partitions.clone(), options.reload_pause);
        let serving = served.follow();
        let shared = Shared::new(parts, options, heartbeat, liveness);
        let ordered = CancellationToken::new();
        let standing = shared.pipeline.standing();
        let patience = shared.options.lease;
        shared.liveness.begin(shared.heartbeat.turns(), patience, standing.clone(), card.partitions.clone());
        let announcing =
            shared.heartbeat.announce(Announcer { card, standing, serving, interval, ordered: ordered.clone() });
        tracing::info!(worker.id = %worker, queues = ?claiming.queue_names(), "the worker is ready");

        let mut tasks = JoinSet::new();
        for orphan in orphans {
            let lease = orphan.claim.lease(shared.options.lease);
            let span = tracing::info_span!("adoption", job.id = %lease.job, fence = lease.fence.0);
            let adopted = adopt(Arc::clone(&shared), orphan);
            tasks.spawn(async { Event::Ended(adopted.await) }.instrument(span));
        }
        let mut run = Run { shared, claiming, served, tasks, pauses, unwell: false, wedged: None };
        let by_order = run.work(&shutdown, &ordered).await;
        run.drain().await;

        announcing.abort();
        // Whether it was aborted or had ended: nothing is announced after the retirement.
        let _ = announcing.await;
        if let Some(wedged) = run.wedged {
            return Err(wedged);
        }
        run.shared.heartbeat.retire(worker).await;
        tracing::info!(worker.id = %worker, by_order, "the worker has drained");
        Ok(Drained { by_order })
    }
}

/// What a worker's tasks end with.
enum Event {
    /// An attempt is over.
    Ended(Ended),
    /// The machine has again what every job needs, or nobody waits for that any more.
    Recovered(Pauses),
    /// Nobody can tell whether it has: that hangs.
    Hung(Error),
    /// The weights of a partition are there again, or nobody waits for them any more.
    Found(Partition, Pauses),
}

/// A worker's run.
struct Run {
    shared: Arc<Shared>,
    claiming: Claiming,
    served: Served,
    tasks: JoinSet<Event>,
    pauses: Pauses,
    unwell: bool,
    wedged: Option<Error>,
}

impl Run {
    /// Claims jobs and begins attempts until it is time to drain, and tells whether that was asked for through the store.
    async fn work(&mut self, shutdown: &CancellationToken, ordered: &CancellationToken) -> bool {
        // An attempt that is wedged closes the worker before it has ended: what it leaves must not be claimed again here.
        let mut closed = false;
        while self.wedged.is_none() && !(closed && self.tasks.is_empty()) {
            let ask = tokio::select! {
                biased;
                () = shutdown.cancelled() => return false,
                () = ordered.cancelled() => return true,
                Some(event) = self.tasks.join_next() => {
                    self.note(event);
                    continue;
                }
                () = self.shared.closing.cancelled(), if !closed => {
                    closed = true;
                    continue;
                }
                ask = self.claiming.next(&self.shared), if !self.claims_nothing() && !closed => ask,
            };
            let shared = Arc::clone(&self.shared);
            let drain = async {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = ordered.cancelled() => {}
                    () = shared.closing.cancelled() => {}
                }
                shared.close(shared.options.drain == DrainMode::HandBack);
            };
            let Some((claimed, claimed_at)) = self.claiming.claim(&self.shared, ask, drain).await else {
                continue;
            };
            let place =
                self.shared.pipeline.place().expect("this loop alone takes places, and only asks while one is free");
            let span = tracing::info_span!(
                "attempt",
                job.id = %claimed.lease.job,
                fence = claimed.lease.fence.0,
                attempt = claimed.job.attempt,
                partition = %claimed.job.partition,
                worker.id = %self.shared.options.worker,
                // The trace that the job's client has named, if it has.
                job.trace = claimed.job.trace.as_ref().map(TraceParent::trace_id),
            );
            let trace = span.in_scope(|| count_claim(&claimed, ask, self.shared.options.worker));
            let shared = Arc::clone(&self.shared);
            let attempt = async move {
                tracing::info!(cost_tflop = claimed.job.cost_tflop, "claimed a job");
                Event::Ended(execute(shared, claimed, claimed_at, place).await)
            };
            // The trace within, so that what begins below is a part of it.
            self.tasks.spawn(attempt.instrument(trace).instrument(span));
        }
        false
    }

    /// Lets what was begun end in good order.
    async fn drain(&mut self) {
        let finish = self.shared.options.drain == DrainMode::Finish && self.wedged.is_none();
        self.shared.close(!finish);
        while let Some(event) = self.tasks.join_next().await {
            self.note(event);
        }
    }

    fn note(&mut self, event: Result<Event, JoinError>) {
        match event {
            Ok(Event::Ended(Ended { health, wedged, places, .. })) => {
                if let Some(wedged) = wedged {
                    // Before the engine is free for the next one: it never will be.
                    self.shared.close(true);
                    self.wedged.get_or_insert(wedged);
                }
                match health {
                    Health::Well if !self.unwell => self.pauses.reset(),
                    Health::Unwell if !self.unwell => self.fall_ill(),
                    Health::Without(partition) => self.withdraw(partition),
                    Health::Well | Health::Unwell => {}
                }
                drop(places);
            }
            Ok(Event::Recovered(pauses)) => {
                self.pauses = pauses;
                self.unwell = false;
                self.shared.pipeline.set_unwell(self.claims_nothing());
            }
            Ok(Event::Found(partition, pauses)) => {
                if !self.shared.closing.is_cancelled() {
                    tracing::info!(%partition, "the weights of this partition are there again, claiming its jobs");
                }
                self.served.restore(partition, pauses);
                self.serve();
            }
            Ok(Event::Hung(error)) => {
                tracing::error!(%error, "this machine does not answer");
                self.shared.close(true);
                self.wedged.get_or_insert(error);
            }
            Err(error) => tracing::error!(%error, "an attempt failed, its job will be reclaimed"),
        }
    }

    /// Tells whether no job can be run: this machine lacks what every one needs, or all weights.
    fn claims_nothing(&self) -> bool {
        self.unwell || self.claiming.serves_nothing()
    }

    /// Takes no jobs of a partition until its weights are there again.
    fn withdraw(&mut self, partition: Partition) {
        let Some(pauses) = self.served.withdraw(partition) else { return };
        tracing::error!(%partition, "no jobs of this partition are claimed until its weights are there again");
        self.serve();
        let (generator, closing) = (Arc::clone(&self.shared.parts.generator), self.shared.closing.clone());
        let looking = look_for(generator, partition, pauses, closing);
        self.tasks.spawn(async move { Event::Found(partition, looking.await) });
    }

    fn serve(&mut self) {
        self.claiming.serve(self.served.present());
        self.shared.pipeline.set_unwell(self.claims_nothing());
    }

    fn fall_ill(&mut self) {
        self.unwell = true;
        self.shared.pipeline.set_unwell(true);
        let recovered = recover(
            self.pauses.clone(),
            self.shared.options.scratch.clone(),
            self.shared.parts.tools.clone(),
            Arc::clone(&self.shared.parts.blob),
            self.shared.closing.clone(),
            self.shared.options.stall_limits,
        );
        self.tasks.spawn(async { recovered.await.map_or_else(Event::Hung, Event::Recovered) });
    }
}

/// Counts a claim, and begins the span of its attempt.
fn count_claim(claimed: &Claimed, ask: Ask, worker: WorkerId) -> tracing::Span {
    let Claimed { lease, job } = claimed;
    let partition = job.partition.as_str();
    let source = match ask {
        Ask::Hint(_) => "redis",
        Ask::Next => "poll",
        Ask::Ahead => "ahead",
    };
    names::CLAIMS.increment([partition, source]);
    if lease.fence.0 == 1
        && let Some(ends_at) = job.lease_expires_at
    {
        // By the store's clock: a lease begins with its claim.
        let waited = ends_at.since(job.created_at).saturating_sub(lease.duration);
        names::JOB_QUEUE_WAIT_SECONDS.record(waited, [partition]);
    }
    traces::process(&traces::Attempt {
        destination: partition,
        job: &lease.job,
        attempt: job.attempt,
        fence: u64::try_from(lease.fence.0).unwrap_or_default(),
        worker: &worker,
        submission: job.trace.as_ref().map(TraceParent::as_str),
    })
}

/// Waits until this machine has again what every job needs.
///
/// Errors: [`Error::Hung`] when the machine itself does not answer within the stall limit of preparing. A media store that
/// does not answer is no hang of this machine's: it is only waited for until it does.
async fn recover(
    mut pauses: Pauses,
    scratch: PathBuf,
    tools: MediaTools,
    blob: Arc<dyn Blob>,
    closing: CancellationToken,
    limits: StallLimits,
) -> Result<Pauses, Error> {
    let limit = limits.prepare;
    loop {
        let pause = pauses.next();
        tracing::warn!(?pause, "no job is claimed for a while");
        tokio::select! {
            biased;
            () = closing.cancelled() => return Ok(pauses),
            () = tokio::time::sleep(pause) => {}
        }
        let closed = async {
            closing.cancelled().await;
            tokio::time::sleep(ABORT_PATIENCE).await;
        };
        let examining = async {
            let machine = health::examine(scratch.clone(), tools.ffmpeg.clone());
            match tokio::time::timeout(limit, machine).await {
                Ok(Ok(())) => Ok(health::try_store(&*blob, &scratch, limits.upload).await),
                Ok(lack) => Ok(lack),
                Err(_) => Err(Error::Hung { limit }),
            }
        };
        let examined = tokio::select! {
            biased;
            examined = examining => examined,
            () = closed => return Ok(pauses),
        };
        match examined? {
            Ok(()) => {
                tracing::info!("this machine is well again, claiming jobs");
                return Ok(pauses);
            }
            Err(lack) => tracing::warn!(error = %Causes(&lack), "this machine is not well yet"),
        }
    }
}
