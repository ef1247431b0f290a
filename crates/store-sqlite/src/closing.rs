//! How a claim ends, and how a job does, whoever ends it.
//!
//! Each function belongs to a transaction that has found the claim in force, or the job waiting, and repeats that condition.

use std::time::Duration;

use clapboard_jobs::{
    Again, AttemptEnd, JobError, JobEvent, JobState, LeaseError, Micros, Preview, ResultObject, RunReport, StoreError,
    Verdict,
};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::held::Held;
use crate::rows::column;
use crate::{attempts, objects, outbox, previews, retention, usage};

/// What a job ends with.
struct End<'a> {
    state: JobState,
    /// When the cancel of a waiting job was accepted.
    cancelled_at: Option<i64>,
    error: Option<&'a JobError>,
    result: Option<Stored<'a>>,
}

/// A result, and what belongs to it.
struct Stored<'a> {
    object: &'a ResultObject,
    size_bytes: i64,
    report: String,
    /// Its pictures in JSON; none where it has none.
    previews: Option<String>,
    /// Until when it is kept.
    expires_at: Option<i64>,
}

impl End<'_> {
    /// Ends the row of a job that waits, or that `claim` holds, and returns how many such rows there were.
    async fn apply(
        &self,
        tx: &mut SqliteConnection,
        job: Uuid,
        claim: Option<&Held>,
        now: i64,
        doing: &'static str,
    ) -> Result<u64, StoreError> {
        let (state, result) = (self.state.as_str(), self.result.as_ref());
        let (code, message) =
            (self.error.map(|error| error.code.as_str()), self.error.map(|error| error.message.as_str()));
        let key = result.map(|stored| stored.object.key.as_str());
        let size = result.map(|stored| stored.size_bytes);
        let sha256 = result.map(|stored| stored.object.sha256.as_str());
        let expires_at = result.and_then(|stored| stored.expires_at);
        let report = result.map(|stored| stored.report.as_str());
        let previews = result.and_then(|stored| stored.previews.as_deref());
        let (token, fence) = (claim.map(|held| held.token.0), claim.map(|held| held.fence.0));
        let done = sqlx::query_file!(
            "queries/end_job.sql",
            state,
            now,
            self.cancelled_at,
            code,
            message,
            key,
            size,
            sha256,
            expires_at,
            report,
            job,
            token,
            fence,
            previews
        )
        .execute(tx)
        .await
        .map_err(unavailable(doing))?;
        Ok(done.rows_affected())
    }
}

/// Ends a job without a result if it waits.
pub(crate) async fn end_waiting(
    tx: &mut SqliteConnection,
    job: Uuid,
    now: i64,
    error: &JobError,
    cancelled_at: Option<i64>,
    doing: &'static str,
) -> Result<(), StoreError> {
    let state = JobState::Queued.on(error.event()).map_err(unreadable("state"))?;
    let end = End { state, cancelled_at, error: Some(error), result: None };
    if end.apply(tx, job, None, now, doing).await? > 0 {
        objects::discard_unnamed(tx, job, now, now, doing).await?;
        outbox::tell(tx, job, state, now, doing).await?;
    }
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
        tx: &mut SqliteConnection,
        now: i64,
        (object, previews): (&ResultObject, &[Preview]),
        report: &RunReport,
        life: Option<Duration>,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let life = life.map(retention::micros).into_iter().chain(self.result_life).min();
        let stored = Stored {
            object,
            size_bytes: column("result_size_bytes", object.size_bytes)?,
            report: serde_json::to_string(report).map_err(unreadable("report"))?,
            previews: clapboard_jobs::rows::previews(previews)?,
            expires_at: life.map(|life| now.saturating_add(life)),
        };
        let id = self.job.as_uuid();
        // A result that the table does not name would be swept away under its job.
        self.applied(objects::name(tx, object.key.as_str(), id, doing).await?)?;
        previews::name(tx, self.job, previews, doing).await?;
        let end = End { state: after(JobEvent::Complete), cancelled_at: None, error: None, result: Some(stored) };
        self.end(tx, now, &end, AttemptEnd::Completed, doing).await?;
        usage::add_completed(tx, id, doing).await?;
        Ok(end.state)
    }

    /// Does with the job what was decided, and returns what became of it.
    pub(crate) async fn close(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        verdict: &Verdict,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        match verdict {
            Verdict::End { error, ending } => {
                let end = End { state: after(error.event()), cancelled_at: None, error: Some(error), result: None };
                self.end(tx, now, &end, *ending, doing).await?;
                Ok(end.state)
            }
            Verdict::Again(again) => self.requeue(tx, now, again, doing).await,
        }
    }

    async fn end(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        end: &End<'_>,
        ending: AttemptEnd,
        doing: &'static str,
    ) -> Result<(), LeaseError> {
        let id = self.job.as_uuid();
        self.applied(end.apply(tx, id, Some(self), now, doing).await?)?;
        attempts::close(tx, self, now, ending, end.error, doing).await?;
        objects::discard_unnamed(tx, id, self.puts_end(now), now, doing).await?;
        outbox::tell(tx, id, end.state, now, doing).await?;
        Ok(())
    }

    async fn requeue(
        &self,
        tx: &mut SqliteConnection,
        now: i64,
        again: &Again,
        doing: &'static str,
    ) -> Result<JobState, LeaseError> {
        let (id, fence, token) = self.condition();
        let state = after(JobEvent::Requeue);
        let (name, run_at) = (state.as_str(), Micros(now).plus(again.wait).0);
        let done = sqlx::query!(
            r#"
            update jobs
            set state = ?, run_at = ?, attempt = ?, spared = ?, begun_at = null,
                phase = 'prepare', step = 0, total_steps = 0, percent = 0,
                claim_token = null, worker = null, lease_expires_at = null
            where id = ? and fence = ? and claim_token = ? and state = 'running'
            "#,
            name,
            run_at,
            again.attempt,
            again.spared,
            id,
            fence,
            token
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        self.applied(done.rows_affected())?;
        attempts::close(tx, self, now, again.ending, again.error.as_ref(), doing).await?;
        objects::discard_unnamed(tx, id, self.puts_end(now), now, doing).await?;
        Ok(state)
    }
}
