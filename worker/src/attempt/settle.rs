//! What is done about an attempt once it is clear how it ended.

use std::time::Duration;

use clapboard_jobs::{BlobKey, Causes, HandBack, Hint, JobState, Outcome, StoreError};

use crate::attempt::account::Account;
use crate::attempt::classify::AttemptError;
use crate::attempt::ending::{self, Ending, Line, Written};
use crate::attempt::{Attempt, Ended, Held, Made, millis};
use crate::error::Error;
use crate::machine::health::Health;

/// How long a hint may take that only saves time.
const HINT_PATIENCE: Duration = Duration::from_secs(1);

impl Attempt {
    /// Writes how the attempt ended, removes a stored result that did not become the job's, and gives back what is held.
    pub(crate) async fn settle(mut self, made: Result<Made, AttemptError>, mut held: Held) -> Ended {
        let account = Account::of(&made, self.watch.cause());
        if made.is_err() {
            held.clean().await;
        }
        let mut stored = Vec::new();
        let mut health = Health::Well;
        let mut wedged = None;
        let written = match made {
            Ok(Made { object, previews, report }) => {
                stored.push(object.key.clone());
                stored.extend(previews.iter().map(|preview| preview.object.key.clone()));
                self.write(&Ending::Finish(Outcome::Completed { object, previews, report })).await
            }
            Err(AttemptError::Wedged(stall)) => {
                wedged = Some(Error::Wedged { job: self.lease.job, phase: stall.phase, limit: stall.limit });
                // Nothing is claimed or begun any more, also where the loop that claims waits for its store.
                self.shared.close(true);
                // The heartbeat gives it back.
                tokio::select! {
                    written = self.kept.given_back() => written,
                    () = self.shared.endings_are_over() => Written::Unknown,
                }
            }
            Err(error) => {
                let ending = Ending::of(&error, self.watch.cause(), self.shared.options.unwell_pause);
                wedged = error.ends_worker(self.lease.job);
                if wedged.is_some() {
                    self.shared.close(true);
                }
                if matches!(ending, Some(Ending::HandBack(HandBack::Unwell { .. }))) {
                    health = error.lacks().map_or(Health::Unwell, Health::Without);
                }
                match ending {
                    Some(ending) => self.write(&ending).await,
                    None => Written::Lost,
                }
            }
        };
        // No beat follows the ending.
        self.watch.end();
        account.settle(written, &self.watch, self.since.elapsed());
        match written {
            Written::State(state) => {
                tracing::info!(%state, duration_ms = millis(self.since), "the attempt has ended")
            }
            Written::Lost => tracing::info!(duration_ms = millis(self.since), "the attempt is discarded"),
            Written::Unknown => tracing::error!("the attempt's ending could not be written, the job will be reclaimed"),
        }
        let ours = matches!(written, Written::State(JobState::Completed) | Written::Unknown);
        if written == Written::State(JobState::Queued) {
            self.hint().await;
        }
        if !ours {
            self.remove(&stored).await;
        }
        held.clean().await;
        Ended { health, wedged, places: (held.seat, held.place) }
    }

    async fn write(&self, ending: &Ending) -> Written {
        self.watch.ending.cancel();
        let line = Line::Own(&*self.shared.parts.store);
        tokio::select! {
            written = ending::write(line, &self.lease, ending, &self.watch) => written,
            () = self.shared.endings_are_over() => Written::Unknown,
        }
    }

    /// Tells idle workers of the job that was handed back, if it can be claimed at once; without that the next refill does.
    async fn hint(&self) {
        let hinting = async {
            let (store, dispatch) = (&self.shared.parts.store, &self.shared.parts.dispatch);
            let (job, now) = tokio::join!(store.get(&self.lease.tenant, self.lease.job), store.now());
            match (job?, now?) {
                (Some(job), now) if job.state == JobState::Queued && job.run_at <= now => {
                    Ok(dispatch.push(&[Hint { queue: job.queue(), rank: job.rank, job: job.id }]).await.map(drop))
                }
                _ => Ok(Ok(())),
            }
        };
        let hinted: Result<Result<Result<(), _>, StoreError>, _> = tokio::time::timeout(HINT_PATIENCE, hinting).await;
        if !matches!(hinted, Ok(Ok(Ok(())))) {
            tracing::debug!("a hint at a job that was handed back is lost");
        }
    }

    /// Removes the stored result and its pictures; where that fails or takes longer than a drain may, the sweep over garbage
    /// and orphans finds them.
    async fn remove(&self, stored: &[BlobKey]) {
        let limit = self.shared.options.drain_timeout;
        let removing = async {
            for key in stored {
                if let Err(error) = self.shared.parts.blob.delete(key).await {
                    tracing::warn!(error = %Causes(&error), %key, "could not remove a discarded result");
                }
            }
        };
        tokio::select! {
            biased;
            () = removing => {}
            () = self.shared.endings_are_over() => tracing::warn!("a drain does not wait until a discarded result is removed"),
            () = tokio::time::sleep(limit) => tracing::warn!(?limit, "a discarded result takes too long to remove"),
        }
    }
}
