//! The verbs of a worker.

use std::sync::Arc;
use std::time::Duration;

use super::super::{StoreHarness, at, checkpoint, completed, failed};
use super::play::{Player, same, store_error};
use super::verbs::Verb;
use super::world::{Life, Standing, World};
use crate::attempt::AttemptEnd;
use crate::lease::{Beat, Lease, LeaseError};
use crate::outcome::{FailureCode, HandBack, Outcome};
use crate::policy::Policy;
use crate::progress::Phase;
use crate::state::JobState;
use crate::tally::MAX_SPARED;

/// What a lease's verb answered, as far as the model tells.
fn answer<T>(answered: Result<T, LeaseError>) -> Result<Result<T, Refusal>, String> {
    match answered {
        Ok(value) => Ok(Ok(value)),
        Err(LeaseError::Lost { .. }) => Ok(Err(Refusal::Lost)),
        Err(LeaseError::ForeignObject { .. }) => Ok(Err(Refusal::Foreign)),
        Err(LeaseError::Store(error)) => Err(store_error(error)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    Lost,
    Foreign,
}

impl<H: StoreHarness> Player<'_, H> {
    /// Plays a verb of a worker.
    pub(super) async fn under(&mut self, lease: &Lease, verb: &Verb) -> Result<(), String> {
        let (store, now, id) = (Arc::clone(&self.store), self.world.now, lease.job);
        match *verb {
            Verb::Begin { .. } => {
                let found = answer(store.begin(lease).await)?;
                let expected = match self.world.is_late(lease) {
                    true => Err(Refusal::Lost),
                    false => self.renew(lease, |life| (life.begun, life.start_by) = (true, None)),
                };
                same("begin", &found.map(|beat: Beat| beat.cancel_requested), &expected)
            }
            Verb::Beat { percent, .. } => {
                let found = answer(store.beat(lease, &at(Phase::Denoise, 1, 2, percent)).await)?;
                let expected = self.renew(lease, |life| life.beat(percent));
                same("beat", &found.map(|beat: Beat| beat.cancel_requested), &expected)
            }
            Verb::ExpectCheckpoint { step, .. } => {
                let found = answer(store.expect_checkpoint(lease, step).await)?;
                let held = self.world.held(lease).is_some();
                if held {
                    self.world.objects.entry(lease.checkpoint_key(step)).or_insert((id, Standing::Expected));
                }
                same("expect", &found, &held.then_some(()).ok_or(Refusal::Lost))
            }
            Verb::KeepCheckpoint { step, .. } => {
                let found = answer(store.keep_checkpoint(lease, &checkpoint(lease, step)).await)?;
                same("keep", &found, &self.keep(lease, step))
            }
            Verb::Complete { .. } => {
                let found = answer(store.finish(lease, completed(lease)).await)?;
                let is_late = self.world.is_late(lease) && !self.world.held(lease).is_some_and(|life| life.cancel);
                let expected = match is_late {
                    true => Err(Refusal::Lost),
                    false => self.ended(lease, |world| {
                        world.complete(id, lease.result_key());
                        JobState::Completed
                    }),
                };
                same("complete", &found, &expected)
            }
            Verb::Fail { .. } => {
                let found = answer(store.finish(lease, Outcome::Failed(failed("broken"))).await)?;
                let failed = Some(AttemptEnd::Failed);
                let expected = self.ended(lease, |world| world.fail(id, FailureCode::GenerationFailed, failed));
                same("fail", &found, &expected)
            }
            Verb::StopCancelled { .. } => {
                let found = answer(store.finish(lease, Outcome::Cancelled).await)?;
                let cancelled = Some(AttemptEnd::Cancelled);
                let expected = self.ended(lease, |world| world.fail(id, FailureCode::Cancelled, cancelled));
                same("stop", &found, &expected)
            }
            Verb::Drain { .. } => {
                let found = answer(store.hand_back(lease, HandBack::Drained).await)?;
                let expected = self.ended(lease, |world| {
                    world.requeue(id, now, false, AttemptEnd::Drained);
                    JobState::Queued
                });
                same("drain", &found, &expected)
            }
            Verb::Return { .. } => {
                let found = answer(store.hand_back(lease, HandBack::Returned).await)?;
                let expected = self.ended(lease, |world| {
                    world.requeue(id, now, false, AttemptEnd::Returned);
                    JobState::Queued
                });
                same("return", &found, &expected)
            }
            Verb::Unwell { after_s, .. } => {
                let unwell = HandBack::Unwell { after: Duration::from_secs(after_s), error: failed("no room") };
                let found = answer(store.hand_back(lease, unwell).await)?;
                let expected = self.ended(lease, |world| {
                    let (spares, last) = (world.jobs[&id].spared < MAX_SPARED, Policy::default().max_attempts);
                    if !spares && world.jobs[&id].attempt >= last {
                        return world.fail(id, FailureCode::GenerationFailed, Some(AttemptEnd::Failed));
                    }
                    world.requeue(id, now + after_s, !spares, AttemptEnd::Retried);
                    world.spare(id, spares);
                    JobState::Queued
                });
                same("unwell", &found, &expected)
            }
            Verb::Retry { after_s, .. } => {
                let retry = HandBack::Retry { after: Some(Duration::from_secs(after_s)), error: failed("broken") };
                let found = answer(store.hand_back(lease, retry).await)?;
                let expected = self.ended(lease, |world| {
                    if world.jobs[&id].attempt >= Policy::default().max_attempts {
                        return world.fail(id, FailureCode::GenerationFailed, Some(AttemptEnd::Failed));
                    }
                    world.requeue(id, now + after_s, true, AttemptEnd::Retried);
                    JobState::Queued
                });
                same("retry", &found, &expected)
            }
            _ => Err(format!("{verb:?} is no worker's")),
        }
    }

    /// Renews a lease of the model and returns whether a cancel was asked for.
    fn renew(&mut self, lease: &Lease, change: impl FnOnce(&mut Life)) -> Result<bool, Refusal> {
        let expires_at = self.world.now + Policy::default().lease.as_secs();
        let life = self.world.held(lease).ok_or(Refusal::Lost)?;
        life.expires_at = expires_at;
        change(life);
        Ok(life.cancel)
    }

    fn keep(&mut self, lease: &Lease, step: u32) -> Result<(), Refusal> {
        let (key, now) = (lease.checkpoint_key(step), self.world.now);
        let standing = self.world.objects.get(&key).map(|(_, standing)| *standing);
        let life = self.world.held(lease).ok_or(Refusal::Lost)?;
        if life.checkpoint.as_ref() == Some(&key) {
            return Ok(());
        }
        if standing != Some(Standing::Expected) {
            return Err(Refusal::Foreign);
        }
        let before = life.checkpoint.replace(key.clone());
        self.world.objects.insert(key, (lease.job, Standing::Named));
        if let Some(before) = before {
            self.world.objects.insert(before, (lease.job, Standing::Garbage(now)));
        }
        Ok(())
    }

    /// Ends a claim of the model: as `end` says, or cancelled where that was asked for.
    fn ended(&mut self, lease: &Lease, end: impl FnOnce(&mut World) -> JobState) -> Result<JobState, Refusal> {
        let cancel = self.world.held(lease).ok_or(Refusal::Lost)?.cancel;
        if cancel {
            return Ok(self.world.fail(lease.job, FailureCode::Cancelled, Some(AttemptEnd::Cancelled)));
        }
        Ok(end(&mut self.world))
    }
}
