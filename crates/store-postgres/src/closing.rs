//! How a claim ends, and how a job does, whoever ends it.
//!
//! Each end is one statement in a transaction that has locked the job before. So it sees every object that the claim was
//! allowed to write, also one that was written down in the same instant, which a statement that has yet to wait for the lock
//! does not.

use clapboard_jobs::{
    Again, AttemptEnd, ClaimToken, Fence, JobError, JobEvent, JobState, LeaseError, Notice, Preview, ResultObject,
    RunReport, StoreError, Verdict,
};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::held::Held;
use crate::previews;
use crate::rows::{column, text};
use crate::store::micros;

/// What jobs end with.
struct End<'a> {
    state: JobState,
    /// The claim, and how its attempt ended; none where the jobs wait.
    claim: Option<(ClaimToken, Fence, AttemptEnd)>,
    /// When the cancel of waiting jobs was accepted.
    cancelled_at: Option<i64>,
    error: Option<&'a JobError>,
    result: Option<Stored<'a>>,
}

/// A result, and what belongs to it.
struct Stored<'a> {
    object: &'a ResultObject,
    size_bytes: i64,
    report: String,
    previews: &'a [Preview],
    /// The same in JSON; none where there are none.
    previews_json: Option<String>,
    /// How long it is kept.
    life: Option<i64>,
}

impl End<'_> {
    /// Ends the jobs, which this transaction has locked, and returns how many of them it did.
    async fn apply(&self, tx: &mut PgConnection, jobs: &[Uuid], doing: &'static str) -> Result<i64, StoreError> {
        let (claim, result) = (self.claim.as_ref(), self.result.as_ref());
        sqlx::query_file_scalar!(
            "queries/end_job.sql",
            jobs,
            claim.map(|(token, ..)| token.0),
            claim.map(|(_, fence, _)| fence.0),
            self.state.as_str(),
            self.cancelled_at,
            self.error.map(|error| error.code.as_str()),
            self.error.map(|error| text(&error.message)),
            result.map(|stored| stored.object.key.as_str()),
            result.map(|stored| stored.size_bytes),
            result.map(|stored| stored.object.sha256.as_str()),
            result.and_then(|stored| stored.life),
            result.map(|stored| stored.report.as_str()),
            claim.map(|(.., ending)| ending.as_str()),
            Notice::of(self.state).map(Notice::as_str),
            result.and_then(|stored| stored.previews_json.as_deref()),
            &result.map(|stored| previews::keys(stored.previews)).unwrap_or_default()
        )
        .fetch_one(tx)
        .await
        .map_err(unavailable(doing))
    }
}

/// Ends waiting jobs, which this transaction has locked, without a result.
pub(crate) async fn end_waiting(
    tx: &mut PgConnection,
    jobs: &[Uuid],
    error: &JobError,
    cancelled_at: Option<i64>,
    doing: &'static str,
) -> Result<(), StoreError> {
    let state = JobState::Queued.on(error.event()).map_err(unreadable("state"))?;
    let end = End { state, claim: None, cancelled_at, error: Some(error), result: None };
    end.apply(tx, jobs, doing).await?;
    Ok(())
}

/// Returns the state that `event` leads to from `running`.
fn after(event: JobEvent) -> JobState {
    JobState::Running.on(event).expect("requeue, complete, fail and cancel all lead out of running")
}

impl Held {
    /// Ends the job with its result and the pictures of it, all of which the claim has to have expected.
    pub(crate) async fn complete(
        &self,
        tx: &mut PgConnection,
        (object, previews): (&ResultObject, &[Preview]),
        report: &RunReport,
        life: Option<i64>,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        previews::require_expected(tx, self.job, previews, doing).await?;
        let stored = Stored {
            object,
            size_bytes: column("result_size_bytes", object.size_bytes)?,
            report: serde_json::to_string(report).map_err(unreadable("report"))?,
            previews,
            previews_json: clapboard_jobs::rows::previews(previews)?,
            life: life.into_iter().chain(self.result_life).min(),
        };
        self.end(tx, after(JobEvent::Complete), AttemptEnd::Completed, None, Some(stored), doing).await
    }

    /// Does with the job what was decided, and returns what became of it.
    pub(crate) async fn close(
        &self,
        tx: &mut PgConnection,
        verdict: &Verdict,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        match verdict {
            Verdict::End { error, ending } => {
                self.end(tx, after(error.event()), *ending, Some(error), None, doing).await
            }
            Verdict::Again(again) => self.requeue(tx, again, doing).await,
        }
    }

    async fn end(
        &self,
        tx: &mut PgConnection,
        state: JobState,
        ending: AttemptEnd,
        error: Option<&JobError>,
        result: Option<Stored<'_>>,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let claim = Some((self.token, self.fence, ending));
        let end = End { state, claim, cancelled_at: None, error, result };
        self.applied(end.apply(tx, &[self.job.as_uuid()], doing).await?)?;
        Ok(state)
    }

    async fn requeue(&self, tx: &mut PgConnection, again: &Again, doing: &'static str) -> Result<JobState, LeaseError> {
        let state = after(JobEvent::Requeue);
        let requeued = sqlx::query_file_scalar!(
            "queries/requeue_job.sql",
            self.job.as_uuid(),
            self.fence.0,
            self.token.0,
            state.as_str(),
            micros(again.wait),
            i64::from(again.attempt),
            i64::from(again.spared),
            again.ending.as_str(),
            again.error.as_ref().map(|error| error.code.as_str()),
            again.error.as_ref().map(|error| text(&error.message)),
            self.puts_end
        )
        .fetch_one(tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(requeued)?;
        Ok(state)
    }
}
