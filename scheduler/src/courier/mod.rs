//! Tells receivers how jobs have ended.
//!
//! What is to be told stands in the store, written by the transaction that ended the job; this takes what is due, as much as
//! there is room for, and tells each receiver on its own. A receiver that hangs holds one place until its time is up; the
//! store gives out only so many deliveries of one receiver at once, and only so many of one tenant, so that a few tenants
//! whose receivers hang take no room from others, and those of whom the least is held come first. Whoever is killed in the
//! middle leaves deliveries that the store takes back after a while: they may be told twice, with one id.

mod attempt;
mod event;
mod signature;

use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::{Causes, Due, Micros, Store, StoreError, TraceParent, Tried};
use clapboard_outbound::{Client, Rules};
use clapboard_telemetry::metrics::names;
use clapboard_telemetry::traces;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::options::Options;
use attempt::attempt;

/// How much longer than a try may take its delivery is held, for the store to hear of it.
const REPORT_TIME: Duration = Duration::from_secs(30);
/// How long the store is left alone after it could not be told how a try went.
const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// How long the store gets to hear which tries were cut off when the service stops.
const LAST_WORD: Duration = Duration::from_millis(500);
/// What is said of a sample that was cut off.
const CUT_OFF: &str = "the service was stopped before an answer came";
/// How long a courier that has panicked rests.
const REST_AFTER_PANIC: Duration = Duration::from_secs(1);
/// The longest rest while the store is away.
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// The least rest while nothing is due.
const LEAST_REST: Duration = Duration::from_millis(50);

/// Tells receivers how jobs have ended. Any number of them may run side by side.
#[derive(Clone)]
pub struct Courier {
    store: Arc<dyn Store>,
    client: Arc<Client>,
    timeout: Duration,
    interval: Duration,
    drain: Duration,
    at_once: u32,
    per_tenant: u32,
    per_receiver: u32,
}

impl Courier {
    /// Makes a courier that goes by https to the public internet, and to the hosts that the options name wherever they are.
    pub fn new(store: Arc<dyn Store>, options: &Options) -> Self {
        let rules = Rules::new(options.allow_http_webhook_hosts.clone()).https_only();
        Self::over(store, Client::new(rules), options)
    }

    /// Makes a courier that sends by a client of the caller's.
    pub fn over(store: Arc<dyn Store>, client: Client, options: &Options) -> Self {
        Self {
            store,
            client: Arc::new(client),
            timeout: options.webhook_timeout,
            interval: options.webhook_interval,
            drain: options.webhook_drain,
            at_once: options.webhook_concurrency,
            per_tenant: options.webhook_concurrency_per_tenant,
            per_receiver: options.webhook_concurrency_per_receiver,
        }
    }

    /// Delivers until `shutdown`, then gives the tries under way [`Options::webhook_drain`] to end, and puts off those that
    /// have not: they are made again, and do not count.
    pub async fn run(self, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            let mut running = JoinSet::new();
            running.spawn(self.clone().deliver(shutdown.clone()));
            if let Some(Err(error)) = running.join_next().await {
                tracing::error!(%error, "the courier has panicked, and goes on after a rest");
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = sleep(REST_AFTER_PANIC) => {}
                }
            }
        }
    }

    async fn deliver(self, shutdown: CancellationToken) {
        let mut tries = JoinSet::new();
        let cut_off = CancellationToken::new();
        let mut failures = 0;
        while !shutdown.is_cancelled() {
            let taken = tokio::select! {
                taken = self.take(&mut tries, &cut_off) => taken,
                // A store that does not answer holds up no end.
                () = shutdown.cancelled() => break,
            };
            let rest = match taken {
                Ok(rest) => {
                    if failures > 0 {
                        tracing::info!(failures, "webhooks are delivered again");
                    }
                    failures = 0;
                    rest
                }
                Err(error) => {
                    failures += 1;
                    // One line when it begins: what is away for an hour is not news every two seconds.
                    if failures == 1 {
                        tracing::warn!(error = %Causes(&error), "webhooks cannot be delivered, which is tried until it works");
                    }
                    self.interval.saturating_mul(failures).min(LONGEST_RETRY).max(LEAST_REST)
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = sleep(rest) => {}
                // There is room again, and perhaps the next delivery of that receiver is due.
                Some(ended) = tries.join_next() => heed(ended),
            }
            while let Some(ended) = tries.try_join_next() {
                heed(ended);
            }
        }
        self.drain(tries, &cut_off).await;
    }

    /// Begins what is due, as far as there is room, and returns how long to rest.
    async fn take(&self, tries: &mut JoinSet<()>, cut_off: &CancellationToken) -> Result<Duration, StoreError> {
        let under_way = u32::try_from(tries.len()).unwrap_or(u32::MAX);
        let room = self.at_once.saturating_sub(under_way);
        if room == 0 {
            return Ok(self.interval);
        }
        let before = self.store.now().await?;
        let due = self.store.take_due(room, self.per_receiver, self.per_tenant, self.timeout + REPORT_TIME).await?;
        let is_full = due.len() >= usize::try_from(room).unwrap_or(usize::MAX);
        for due in due {
            tries.spawn(self.clone().tell(due, before, cut_off.clone()));
        }
        if is_full {
            return Ok(self.interval);
        }
        // New deliveries come unannounced, so this looks again at every interval; those that wait for another try fall due
        // at moments that the store knows.
        let next = self.store.next_delivery(before).await?;
        let until = next.map_or(self.interval, |next| next.since(before));
        Ok(until.min(self.interval).max(LEAST_REST))
    }

    /// Tries one delivery, which was taken at `taken_at`, and tells the store how that went.
    async fn tell(self, due: Due, taken_at: Micros, cut_off: CancellationToken) {
        let began = Instant::now();
        let span = traces::tried(&traces::Try {
            delivery: &due.id,
            job: &due.job,
            event: due.notice.as_str(),
            number: due.number,
            submission: due.trace.as_ref().map(TraceParent::as_str),
        });
        // The receiver goes on from this try.
        let sent = traces::parent_of(&span).and_then(|text| text.parse().ok());
        let due = Due { trace: sent.or(due.trace.clone()), ..due };
        let tried = tokio::select! {
            biased;
            tried = attempt(&self.client, &due, taken_at, self.timeout).instrument(span.clone()) => tried,
            // A sample has one try, and nobody waits for another.
            () = cut_off.cancelled(), if due.is_test => {
                Tried::Failed { status: None, error: CUT_OFF.to_owned(), after: None }
            }
            // The receiver had less time than it may take.
            () = cut_off.cancelled() => Tried::Postponed { after: Duration::ZERO },
        };
        let duration_ms = began.elapsed().as_millis() as u64;
        let (id, number) = (due.id, due.number);
        count(&tried, &span);
        drop(span);
        match &tried {
            Tried::Delivered { status } => {
                tracing::debug!(delivery.id = %id, job.id = %due.job, status, number, duration_ms, "a webhook is delivered");
            }
            Tried::Failed { status, error, .. } => {
                tracing::info!(delivery.id = %id, job.id = %due.job, status, number, duration_ms, error, "a webhook failed");
            }
            Tried::Gone { status } => {
                tracing::info!(delivery.id = %id, job.id = %due.job, status, number, "the receiver of a webhook is gone");
            }
            Tried::Postponed { after } => {
                tracing::info!(delivery.id = %id, job.id = %due.job, number, ?after, "a webhook is put off, uncounted");
            }
        }
        // Until the store takes it to be dead and gives it out again.
        let until = began + self.timeout + REPORT_TIME;
        while let Err(error) = self.store.tried(id, number, &tried).await {
            tracing::debug!(delivery.id = %id, error = %Causes(&error), "could not record how a webhook went");
            if Instant::now() + REPORT_AGAIN >= until {
                tracing::warn!(delivery.id = %id, "it is not recorded how a webhook went, which is sent again");
                return;
            }
            sleep(REPORT_AGAIN).await;
        }
    }

    /// Waits for the tries under way, for a while, and puts off the others.
    async fn drain(&self, mut tries: JoinSet<()>, cut_off: &CancellationToken) {
        join(&mut tries, self.drain).await;
        if tries.is_empty() {
            return;
        }
        tracing::info!(tries = tries.len(), "some receivers take too long, and are told again by the next courier");
        cut_off.cancel();
        join(&mut tries, LAST_WORD).await;
        if !tries.is_empty() {
            tracing::warn!(
                tries = tries.len(),
                "the job store does not hear of the tries that are cut off: they count"
            );
        }
    }
}

/// Counts a try by what came of it.
fn count(tried: &Tried, span: &Span) {
    let status = match tried {
        Tried::Delivered { status } | Tried::Gone { status } => Some(*status),
        Tried::Failed { status, .. } => *status,
        Tried::Postponed { .. } => None,
    };
    let class = match (tried, status) {
        (Tried::Postponed { .. }, _) => "local",
        (_, None) => "none",
        (_, Some(..=299)) => "2xx",
        (_, Some(300..=399)) => "3xx",
        (_, Some(400..=499)) => "4xx",
        (_, Some(500..)) => "5xx",
    };
    if let Some(status) = status {
        span.record("http.response.status_code", status);
    }
    if class != "2xx" {
        traces::fail(span, &class);
    }
    names::WEBHOOK_ATTEMPTS.increment([class]);
}

/// Waits until all tries have ended, for no longer than `limit`.
async fn join(tries: &mut JoinSet<()>, limit: Duration) {
    let until = Instant::now() + limit;
    while let Ok(Some(ended)) = timeout_at(until, tries.join_next()).await {
        heed(ended);
    }
}

/// Says that a try has panicked: its delivery is given out again after a while.
fn heed(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "the try of a webhook has panicked");
    }
}
