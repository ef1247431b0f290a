//! Which claims count as attempts, and what becomes of a job when its claim ends unfinished.
//!
//! A job has [`max_attempts`](crate::Policy::max_attempts) attempts. A claim counts as one from the moment it is made, so
//! that nothing that kills a worker can keep it from counting. When the claim ends it is taken back where the job is not to
//! blame:
//!
//! | the claim ended because | it counts |
//! |---|---|
//! | its attempt failed ([`HandBack::Retry`]) | always |
//! | its worker was lost after it had begun the job | always |
//! | its worker was lost before that, as that of a job claimed ahead which dies of the job before it | once the job was spared [`MAX_SPARED`] times |
//! | its worker was unwell ([`HandBack::Unwell`]) | once the job was spared [`MAX_SPARED`] times |
//! | its worker drained ([`HandBack::Drained`]) | never: somebody has asked for that |
//! | its worker had claimed it too early ([`HandBack::Returned`]) | never: it has only waited elsewhere |
//!
//! Being spared is bounded, because the job may be to blame all the same: one whose inputs kill every worker that prepares
//! it, or fill every disk. Such a job ends after [`MAX_SPARED`] and `max_attempts` claims. An operator's
//! [`retry`](crate::Store::retry) gives a job both anew.

use std::time::Duration;

use crate::attempt::AttemptEnd;
use crate::backoff;
use crate::outcome::{FailureCode, HandBack, JobError};

/// How many claims of a job at most are not counted although nobody has asked for their end.
pub const MAX_SPARED: u32 = 10;

/// A claim in force, as far as its end depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// How many attempts count so far, the present one included.
    pub attempt: u32,
    /// How many attempts the job has.
    pub max_attempts: u32,
    /// How many claims of the job were not counted although nobody had asked for their end.
    pub spared: u32,
    /// The worker has really begun.
    pub begun: bool,
    /// Somebody wants the job cancelled.
    pub cancel_requested: bool,
}

/// What becomes of a job whose claim ends without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It ends, with this error.
    End {
        /// Why, for the job and for the attempt's record.
        error: JobError,
        /// How the attempt ended.
        ending: AttemptEnd,
    },
    /// It waits again.
    Again(Again),
}

/// How a job goes back to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// How many attempts count from now on.
    pub attempt: u32,
    /// How many claims were spared from now on.
    pub spared: u32,
    /// For how long it is not claimed.
    pub wait: Duration,
    /// How the attempt ended.
    pub ending: AttemptEnd,
    /// What went wrong in it.
    pub error: Option<JobError>,
}

impl Tally {
    /// Returns what becomes of a job that its worker ends without a result. An accepted cancel wins over every other error.
    pub fn fail(&self, error: JobError) -> Verdict {
        let error = if self.cancel_requested { JobError::cancelled() } else { error };
        let ending = if error.code == FailureCode::Cancelled { AttemptEnd::Cancelled } else { AttemptEnd::Failed };
        Verdict::End { error, ending }
    }

    /// Returns what becomes of a job that its worker gives back. `entropy` spreads the waits of jobs that failed together.
    pub fn hand_back(&self, hand_back: HandBack, entropy: u64) -> Verdict {
        if self.cancel_requested {
            return self.fail(JobError::cancelled());
        }
        match hand_back {
            HandBack::Drained => self.uncounted(AttemptEnd::Drained),
            HandBack::Returned => self.uncounted(AttemptEnd::Returned),
            HandBack::Unwell { after, error } => match self.spare() {
                Some((attempt, spared)) => {
                    self.again(attempt, spared, after.min(backoff::CAP), AttemptEnd::Retried, Some(error))
                }
                None => self.fail(error),
            },
            HandBack::Retry { after, error } if self.attempt < self.max_attempts => {
                let wait = backoff::delay_or(after, self.attempt, entropy);
                self.again(self.attempt, self.spared, wait, AttemptEnd::Retried, Some(error))
            }
            HandBack::Retry { error, .. } => self.fail(error),
        }
    }

    /// Returns what becomes of a job whose worker is gone.
    pub fn lost(&self) -> Verdict {
        let ending = AttemptEnd::LeaseLost;
        if self.cancel_requested {
            return Verdict::End { error: JobError::cancelled(), ending };
        }
        let counted = (self.attempt < self.max_attempts).then_some((self.attempt, self.spared));
        match if self.begun { counted } else { self.spare() } {
            Some((attempt, spared)) => self.again(attempt, spared, Duration::ZERO, ending, None),
            None => {
                let message = format!("the worker was lost in attempt {} of {}", self.attempt, self.max_attempts);
                Verdict::End { error: JobError::new(FailureCode::WorkerLost, message), ending }
            }
        }
    }

    /// Returns attempts and spared claims after one for which the job is not to blame as far as one can tell; none when there
    /// are no more of either.
    fn spare(&self) -> Option<(u32, u32)> {
        if self.spared < MAX_SPARED {
            Some((self.attempt.saturating_sub(1), self.spared + 1))
        } else {
            (self.attempt < self.max_attempts).then_some((self.attempt, self.spared))
        }
    }

    fn uncounted(&self, ending: AttemptEnd) -> Verdict {
        self.again(self.attempt.saturating_sub(1), self.spared, Duration::ZERO, ending, None)
    }

    fn again(&self, attempt: u32, spared: u32, wait: Duration, ending: AttemptEnd, error: Option<JobError>) -> Verdict {
        Verdict::Again(Again { attempt, spared, wait, ending, error })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: Tally = Tally { attempt: 1, max_attempts: 3, spared: 0, begun: true, cancel_requested: false };

    fn broken() -> JobError {
        JobError::new(FailureCode::GenerationFailed, "broken")
    }

    fn counts(verdict: Verdict) -> Option<(u32, u32)> {
        match verdict {
            Verdict::Again(again) => Some((again.attempt, again.spared)),
            Verdict::End { .. } => None,
        }
    }

    fn unwell() -> HandBack {
        HandBack::Unwell { after: Duration::from_secs(7), error: broken() }
    }

    #[test]
    fn a_worker_lost_before_it_began_spares_the_job_and_one_lost_later_does_not() {
        let ahead = Tally { begun: false, ..FIRST };
        assert_eq!(counts(ahead.lost()), Some((0, 1)));
        assert_eq!(counts(FIRST.lost()), Some((1, 0)));
        assert_eq!(counts(Tally { attempt: 3, ..FIRST }.lost()), None);
        assert_eq!(counts(Tally { attempt: 3, ..ahead }.lost()), Some((2, 1)));
    }

    #[test]
    fn whoever_was_spared_often_enough_is_counted_like_everybody() {
        let often = Tally { spared: MAX_SPARED, begun: false, ..FIRST };
        assert_eq!(counts(often.lost()), Some((1, MAX_SPARED)));
        assert_eq!(counts(often.hand_back(unwell(), 0)), Some((1, MAX_SPARED)));
        let last = Tally { attempt: 3, ..often };
        let Verdict::End { error, ending } = last.lost() else { panic!("it goes on") };
        assert_eq!((error.code, ending), (FailureCode::WorkerLost, AttemptEnd::LeaseLost));
        assert_eq!(error.message, "the worker was lost in attempt 3 of 3");
        assert_eq!(last.hand_back(unwell(), 0), Verdict::End { error: broken(), ending: AttemptEnd::Failed });
        // What was asked for is never counted.
        assert_eq!(counts(last.hand_back(HandBack::Drained, 0)), Some((2, MAX_SPARED)));
        assert_eq!(counts(last.hand_back(HandBack::Returned, 0)), Some((2, MAX_SPARED)));
    }

    #[test]
    fn an_accepted_cancel_wins_over_every_end() {
        let cancelled = Tally { cancel_requested: true, ..FIRST };
        let retry = HandBack::Retry { after: None, error: broken() };
        for verdict in [
            cancelled.fail(broken()),
            cancelled.hand_back(HandBack::Drained, 0),
            cancelled.hand_back(HandBack::Returned, 0),
            cancelled.hand_back(unwell(), 0),
            cancelled.hand_back(retry, 0),
        ] {
            assert_eq!(verdict, Verdict::End { error: JobError::cancelled(), ending: AttemptEnd::Cancelled });
        }
        let lost = Verdict::End { error: JobError::cancelled(), ending: AttemptEnd::LeaseLost };
        assert_eq!(cancelled.lost(), lost);
    }

    #[test]
    fn each_end_waits_as_it_should() {
        let wait = |hand_back| match FIRST.hand_back(hand_back, 0) {
            Verdict::Again(again) => again.wait,
            verdict @ Verdict::End { .. } => panic!("{verdict:?}"),
        };
        assert_eq!(wait(HandBack::Drained), Duration::ZERO);
        assert_eq!(wait(HandBack::Returned), Duration::ZERO);
        assert_eq!(wait(unwell()), Duration::from_secs(7));
        let day = Duration::from_secs(86_400);
        assert_eq!(wait(HandBack::Unwell { after: day, error: broken() }), backoff::CAP);
        assert_eq!(wait(HandBack::Retry { after: None, error: broken() }), backoff::delay(1, 0));
        let asked = Duration::from_secs(9);
        assert_eq!(wait(HandBack::Retry { after: Some(asked), error: broken() }), asked);
    }

    proptest! {
        /// Whatever goes wrong, a job that nobody drains ends after a known number of claims.
        #[test]
        fn no_job_is_claimed_for_ever(max_attempts in 1u32..6, ends in prop::collection::vec(0u8..4, 100)) {
            let (mut attempt, mut spared) = (0, 0);
            let mut claims = 0;
            for end in ends {
                claims += 1;
                let tally = Tally { attempt: attempt + 1, max_attempts, spared, begun: end == 0, cancel_requested: false };
                let verdict = match end {
                    0 | 1 => tally.lost(),
                    2 => tally.hand_back(unwell(), 0),
                    _ => tally.hand_back(HandBack::Retry { after: None, error: broken() }, 0),
                };
                match verdict {
                    Verdict::Again(again) => (attempt, spared) = (again.attempt, again.spared),
                    Verdict::End { .. } => break,
                }
                prop_assert!(attempt + spared <= claims && attempt < max_attempts);
            }
            prop_assert!(claims <= max_attempts + MAX_SPARED);
        }
    }
}
