//! Storing a finished video that a dead process has left.

use std::sync::Arc;
use std::time::Instant;

use clapboard_jobs::{Causes, Lease, LeaseError, Phase, Progress};

use crate::attempt::{Attempt, Ended, Held};
use crate::machine::health::Health;
use crate::progress::meter::Meter;
use crate::progress::watch::{StopCause, Watch};
use crate::retry::Waits;
use crate::scratch::Orphan;
use crate::scratch::digest;
use crate::shared::Shared;

/// Stores the video and ends its job, if the claim under which it was made still holds; else removes it.
pub(crate) async fn adopt(shared: Arc<Shared>, orphan: Orphan) -> Ended {
    let Orphan { folder, claim } = orphan;
    let idle = Ended { health: Health::Well, wedged: None, places: (None, None) };
    let mut held = Held::default();
    let (video, lease) = (folder.video(), claim.lease(shared.options.lease));
    let hashing = video.clone();
    let hashing = tokio::task::spawn_blocking(move || digest::of_file(&hashing));
    let hashed = tokio::select! {
        biased;
        hashed = hashing => hashed,
        // A disk that hangs holds up no drain; the video stays for the next start.
        () = shared.closing.cancelled() => return idle,
    };
    if !matches!(hashed, Ok(Ok(sha256)) if sha256 == claim.sha256) {
        tracing::warn!("a video that a dead process has left is damaged");
        held.folder = Some(folder);
        held.clean().await;
        return idle;
    }
    let (watch, cancelled) = match still_held(&shared, &lease).await {
        Answer::Held { watch, cancelled } => (watch, cancelled),
        Answer::Lost => {
            tracing::info!("the job of a video that a dead process has left was given away");
            held.folder = Some(folder);
            held.clean().await;
            return idle;
        }
        // It stays for the next start.
        Answer::Closing => return idle,
        Answer::Unknown => {
            tracing::warn!(
                "nobody could be asked about a video that a dead process has left, until its lease was over"
            );
            held.folder = Some(folder);
            held.clean().await;
            return idle;
        }
    };
    tracing::info!("storing a video that a dead process has left");
    held.folder = Some(folder);
    watch.generated();
    if cancelled {
        watch.stop(StopCause::Cancelled);
    }
    let attempt = Attempt::new(shared, lease, watch);
    let made = tokio::select! {
        made = attempt.store_video(&video, claim.report, Instant::now()) => made,
        never = attempt.pass_on_drain() => match never {},
    };
    attempt.settle(made, held).await
}

/// Whether a claim still holds.
enum Answer {
    Held {
        watch: Arc<Watch>,
        cancelled: bool,
    },
    Lost,
    /// The lease is over by now, and no answer was heard.
    Unknown,
    /// The worker drains.
    Closing,
}

/// Asks whether the claim still holds; an answer is waited for as long as a lease lasts.
async fn still_held(shared: &Shared, lease: &Lease) -> Answer {
    let give_up_at = Instant::now() + lease.duration;
    let mut meter = Meter::new();
    meter.enter(Phase::Upload);
    let progress: Progress = meter.progress();
    let mut waits = Waits::default();
    loop {
        let error = match shared.heartbeat.beat(lease.clone(), progress).await {
            Ok((beat, sent)) => {
                let watch = Watch::new(shared.options.stall_limits, sent + lease.duration);
                return Answer::Held { watch: Arc::new(watch), cancelled: beat.cancel_requested };
            }
            Err(LeaseError::Lost { .. } | LeaseError::ForeignObject { .. }) => return Answer::Lost,
            Err(LeaseError::Store(error)) => error,
        };
        let wait = waits.next();
        tracing::warn!(error = %Causes(&error), ?wait, "could not ask whether a claim still holds");
        if Instant::now() + wait >= give_up_at {
            return Answer::Unknown;
        }
        tokio::select! {
            () = shared.closing.cancelled() => return Answer::Closing,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
