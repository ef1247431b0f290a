//! Claims in force.

use clapboard_jobs::{ClaimToken, Fence, JobId, Lease, LeaseError, StoreError, Tally};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::unavailable;
use crate::rows::number;

/// A claim that is in force, and locked until the transaction ends: nobody else begins, beats, expects or ends anything of it
/// meanwhile, and the statements that follow see all that was done before.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) job: JobId,
    pub(crate) fence: Fence,
    pub(crate) token: ClaimToken,
    pub(crate) tally: Tally,
    /// From when on nobody can still be putting what the claim has expected.
    pub(crate) puts_end: i64,
    /// How long the result is kept at most, in the unit of the tables.
    pub(crate) result_life: Option<i64>,
    /// It had to begin before now, and has not.
    pub(crate) is_late: bool,
}

/// A row of `jobs`, as far as the end of its claim depends on it.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) id: Uuid,
    pub(crate) fence: i64,
    pub(crate) claim_token: Uuid,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) spared: i64,
    pub(crate) begun: bool,
    pub(crate) cancel_requested: bool,
    pub(crate) puts_end: i64,
    pub(crate) result_life: Option<i64>,
    pub(crate) is_late: bool,
}

/// `select_held!("where …", arguments…)`: a checked statement that reads claims in force.
macro_rules! select_held {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::held::HeldRow,
            r#"
            select
                id, fence, claim_token as "claim_token!", attempt, max_attempts, spared,
                begun_at is not null as "begun!", cancel_requested_at is not null as "cancel_requested!",
                greatest(lease_expires_at, now_micros()) as "puts_end!", result_life,
                coalesce(start_by <= now_micros(), false) as "is_late!"
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
            puts_end: row.puts_end,
            result_life: row.result_life,
            is_late: row.is_late,
        })
    }
}

impl Held {
    /// Finds the claim of a lease and locks its job.
    ///
    /// Errors: [`LeaseError::Lost`] when it is no longer in force.
    pub(crate) async fn find(tx: &mut PgConnection, lease: &Lease, doing: &'static str) -> Result<Self, LeaseError> {
        let row = select_held!(
            "where id = $1 and fence = $2 and claim_token = $3 and state = 'running' for update",
            lease.job.as_uuid(),
            lease.fence.0,
            lease.token.0
        )
        .fetch_optional(tx)
        .await
        .map_err(unavailable(doing))?;
        let Some(row) = row else {
            return Err(LeaseError::Lost { job: lease.job, fence: lease.fence });
        };
        Ok(row.try_into()?)
    }

    /// Says that the claim is lost where a write has met no row.
    pub(crate) fn applied(&self, rows: i64) -> Result<(), LeaseError> {
        if rows == 0 { Err(LeaseError::Lost { job: self.job, fence: self.fence }) } else { Ok(()) }
    }
}
