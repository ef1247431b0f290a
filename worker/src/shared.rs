//! What the attempts of one worker share.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::claims::pipeline::Pipeline;
use crate::heartbeat::Heartbeat;
use crate::liveness::Liveness;
use crate::options::Options;
use crate::worker::Parts;

/// How long the ending of an attempt may be tried after a drain should have been over.
const ENDING_GRACE: Duration = Duration::from_secs(3);

/// What the attempts of one worker share.
pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) options: Options,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) liveness: Liveness,
    /// No job is claimed or begun any more.
    pub(crate) closing: CancellationToken,
    /// What runs is to stop as well, within the drain's time-out.
    pub(crate) stopping: CancellationToken,
    closed_at: OnceLock<Instant>,
    stopped_at: OnceLock<Instant>,
}

impl Shared {
    pub(crate) fn new(parts: Parts, options: Options, heartbeat: Heartbeat, liveness: Liveness) -> Arc<Self> {
        Arc::new(Self {
            parts,
            options,
            heartbeat,
            pipeline: Pipeline::new(),
            liveness,
            closing: CancellationToken::new(),
            stopping: CancellationToken::new(),
            closed_at: OnceLock::new(),
            stopped_at: OnceLock::new(),
        })
    }

    /// Begins nothing any more, and stops what runs if `everything` is to stop.
    pub(crate) fn close(&self, everything: bool) {
        let now = Instant::now();
        // The moments before the tokens: whoever hears of one asks for the moment.
        self.closed_at.get_or_init(|| now);
        self.closing.cancel();
        if everything {
            self.stopped_at.get_or_init(|| now);
            self.stopping.cancel();
        }
        self.pipeline.drain();
    }

    /// Ends when a claim that was sent before the drain has had its time to be answered.
    pub(crate) async fn claims_are_over(&self) {
        self.closing.cancelled().await;
        over(self.closed_at.get(), self.options.drain_timeout).await;
    }

    /// Ends when what runs has had its time to stop, counted from the moment at which it was told to.
    pub(crate) async fn drain_is_over(&self) {
        self.stopping.cancelled().await;
        over(self.stopped_at.get(), self.options.drain_timeout).await;
    }

    /// Ends when nobody may wait any more, not even for the store to take note of how an attempt has ended.
    pub(crate) async fn endings_are_over(&self) {
        self.stopping.cancelled().await;
        over(self.stopped_at.get(), self.options.drain_timeout + ENDING_GRACE).await;
    }
}

/// Ends a while after a moment.
async fn over(since: Option<&Instant>, timeout: Duration) {
    match since.and_then(|since| since.checked_add(timeout)) {
        Some(end) => tokio::time::sleep_until(end.into()).await,
        None => pending().await,
    }
}
