//! Requests that have made a job, and what that means for one that comes again.

use uuid::Uuid;

use crate::id::JobId;
use crate::store::StoreError;
use crate::submission::{Resend, Submission};
use crate::time::Micros;

/// One row of `submissions`, found by its tenant and token.
#[derive(Debug)]
pub struct SubmissionRow {
    /// The digest of everything that was asked for.
    pub fields: Vec<u8>,
    /// The job that was made.
    pub job_id: Uuid,
    /// Whether that job is still there.
    pub has_job: bool,
    /// Whether it was not the first try that made it.
    pub again: bool,
    /// When it was made.
    pub created_at: i64,
    /// Until when the request is known.
    pub expires_at: i64,
}

impl SubmissionRow {
    /// Returns the job that a request has made already, as its row tells at the moment `now`; none where the request makes a
    /// job of its own.
    ///
    /// Errors: [`StoreError::KeyReused`].
    pub fn answer(&self, submission: &Submission, now: Micros) -> Result<Option<JobId>, StoreError> {
        let job = JobId::from_uuid(self.job_id);
        if self.expires_at <= now.0 {
            return Ok(None);
        }
        match submission.resend {
            Resend::Named if self.fields == submission.fields => Ok(Some(job)),
            Resend::Named => Err(StoreError::KeyReused { job }),
            Resend::Counted { .. } if !self.has_job => Ok(None),
            Resend::Counted { again: true, .. } => Ok(Some(job)),
            // A first try that was overtaken by its own successor; every other first try wants a video of its own.
            Resend::Counted { again: false, arrived } => {
                let began = now.0.saturating_sub(Micros(0).plus(arrived).0);
                Ok((self.again && self.created_at >= began).then_some(job))
            }
        }
    }
}

impl Submission {
    /// Tells whether its client's library has sent it before.
    pub fn is_again(&self) -> bool {
        matches!(self.resend, Resend::Counted { again: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(again: bool) -> SubmissionRow {
        let job_id = JobId::new().as_uuid();
        SubmissionRow { fields: vec![7; 32], job_id, has_job: true, again, created_at: 1_000, expires_at: 5_000 }
    }

    fn sent(resend: Resend) -> Submission {
        Submission { token: [1; 32], fields: [7; 32], resend }
    }

    fn counted(again: bool, arrived_us: u64) -> Submission {
        sent(Resend::Counted { again, arrived: Duration::from_micros(arrived_us) })
    }

    #[test]
    fn a_name_is_one_request_until_it_is_forgotten() {
        let row = row(false);
        let job = JobId::from_uuid(row.job_id);
        assert_eq!(row.answer(&sent(Resend::Named), Micros(4_999)).unwrap(), Some(job));
        assert_eq!(row.answer(&sent(Resend::Named), Micros(5_000)).unwrap(), None);
        let other = Submission { fields: [8; 32], ..sent(Resend::Named) };
        assert!(matches!(row.answer(&other, Micros(2_000)), Err(StoreError::KeyReused { job: found }) if found == job));
        let deleted = SubmissionRow { has_job: false, ..row };
        assert_eq!(deleted.answer(&sent(Resend::Named), Micros(2_000)).unwrap(), Some(job));
    }

    #[test]
    fn a_counted_try_is_the_same_request_only_if_it_says_so_or_was_overtaken() {
        let job = |row: &SubmissionRow| Some(JobId::from_uuid(row.job_id));
        let first = row(false);
        assert_eq!(first.answer(&counted(true, 0), Micros(2_000)).unwrap(), job(&first));
        assert_eq!(first.answer(&counted(false, 1_500), Micros(2_000)).unwrap(), None);
        let second = row(true);
        assert_eq!(second.answer(&counted(false, 1_000), Micros(2_000)).unwrap(), job(&second));
        assert_eq!(second.answer(&counted(false, 999), Micros(2_000)).unwrap(), None);
        let gone = SubmissionRow { has_job: false, ..row(true) };
        assert_eq!(gone.answer(&counted(true, 0), Micros(2_000)).unwrap(), None);
    }
}
