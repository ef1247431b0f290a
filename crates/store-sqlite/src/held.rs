//! Claims in force.

use clapboard_jobs::{ClaimToken, Fence, JobId, Lease, LeaseError, StoreError, Tally};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::number;

/// A claim that is in force.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) job: JobId,
    pub(crate) fence: Fence,
    pub(crate) token: ClaimToken,
    pub(crate) tally: Tally,
    pub(crate) lease_expires_at: i64,
    pub(crate) checkpoint_key: Option<String>,
    /// How long the result is kept at most, in the unit of the tables.
    pub(crate) result_life: Option<i64>,
    /// By when it has to begin, where it has not.
    pub(crate) start_by: Option<i64>,
}

/// A row of `jobs`, as far as the end of its claim depends on it.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) id: Uuid,
    pub(crate) fence: i64,
    pub(crate) claim_token: Uuid,
    pub(crate) worker: Uuid,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) spared: i64,
    pub(crate) begun: bool,
    pub(crate) cancel_requested: bool,
    pub(crate) lease_expires_at: i64,
    pub(crate) checkpoint_key: Option<String>,
    /// How long the result is kept at most, in the unit of the tables.
    pub(crate) result_life: Option<i64>,
    pub(crate) start_by: Option<i64>,
}

/// `select_held!("where …", arguments…)`: a checked statement that reads claims in force.
macro_rules! select_held {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::held::HeldRow,
            r#"
            select
                id as "id: uuid::Uuid", fence, claim_token as "claim_token!: uuid::Uuid",
                worker as "worker!: uuid::Uuid", attempt, max_attempts, spared,
                begun_at is not null as "begun!: bool", cancel_requested_at is not null as "cancel_requested!: bool",
                lease_expires_at as "lease_expires_at!: i64", checkpoint_key, result_life, start_by
            from jobs
            "# + $tail
            $(, $argument)*
        )
    };
}
pub(crate) use select_held;

impl TryFrom<HeldRow> for Held {
    type Error = StoreError;

    fn try_from(row: HeldRow) -> Result<Self, StoreError> {
        Ok(Self {
            job: JobId::from_uuid(row.id),
            fence: Fence(row.fence),
            token: ClaimToken(row.claim_token),
            tally: Tally {
                attempt: number("attempt", row.attempt)?,
                max_attempts: number("max_attempts", row.max_attempts)?,
                spared: number("spared", row.spared)?,
                begun: row.begun,
                cancel_requested: row.cancel_requested,
            },
            lease_expires_at: row.lease_expires_at,
            checkpoint_key: row.checkpoint_key,
            result_life: row.result_life,
            start_by: row.start_by,
        })
    }
}

impl Held {
    /// Finds the claim of a lease.
    ///
    /// Errors: [`LeaseError::Lost`] when it is no longer in force.
    pub(crate) async fn find(
        tx: &mut SqliteConnection,
        lease: &Lease,
        doing: &'static str,
    ) -> Result<Self, LeaseError> {
        let (id, fence, token) = (lease.job.as_uuid(), lease.fence.0, lease.token.0);
        let row =
            select_held!("where id = ? and fence = ? and claim_token = ? and state = 'running'", id, fence, token)
                .fetch_optional(tx)
                .await
                .map_err(unavailable(doing))?;
        let Some(row) = row else {
            return Err(LeaseError::Lost { job: lease.job, fence: lease.fence });
        };
        Ok(row.try_into()?)
    }

    /// Returns what every write about the claim repeats: id, fence and token.
    pub(crate) fn condition(&self) -> (Uuid, i64, Uuid) {
        (self.job.as_uuid(), self.fence.0, self.token.0)
    }

    /// Returns from when on nobody can still be putting what the claim has expected.
    pub(crate) fn puts_end(&self, now: i64) -> i64 {
        self.lease_expires_at.max(now)
    }

    /// Tells whether the job had to begin before now, and has not.
    pub(crate) fn is_late(&self, now: i64) -> bool {
        self.start_by.is_some_and(|start_by| start_by <= now)
    }

    /// Says that the claim is lost where a write has met no row.
    pub(crate) fn applied(&self, rows: u64) -> Result<(), LeaseError> {
        if rows == 0 { Err(LeaseError::Lost { job: self.job, fence: self.fence }) } else { Ok(()) }
    }
}
