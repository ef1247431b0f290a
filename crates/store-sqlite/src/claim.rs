//! Claiming a job.

use std::time::Duration;

use clapboard_h3::Partition;
use clapboard_jobs::{BlobKey, ClaimToken, Claimant, Claimed, Fence, JobId, Lease, Micros, StoreError};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{unavailable, unreadable};
use crate::read;
use crate::rows;
use crate::store::SqliteStore;

/// A waiting job that is due.
struct Candidate {
    id: Uuid,
    partition: String,
    spec_version: i64,
    cost_tflop: f64,
    rank: f64,
}

pub(crate) async fn claim(store: &SqliteStore, id: JobId, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
    let doing = "claiming a job";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let id = id.as_uuid();
    let candidate = sqlx::query_as!(
        Candidate,
        r#"
        select id as "id: Uuid", partition, spec_version, cost_tflop, rank from jobs
        where id = ? and state = 'queued' and run_at <= ?
        "#,
        id,
        now.0
    )
    .fetch_optional(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    let Some(candidate) = candidate else {
        return Ok(None);
    };
    if !can_run(claimant, &candidate)? {
        return Ok(None);
    }
    let claimed = take(&mut tx, &candidate, claimant, now, store.policy().lease, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Some(claimed))
}

pub(crate) async fn claim_next(store: &SqliteStore, claimant: &Claimant) -> Result<Option<Claimed>, StoreError> {
    let doing = "claiming the next job";
    let mut tx = store.begin(doing).await?;
    let now = store.now();
    let mut best: Option<Candidate> = None;
    for &partition in &claimant.partitions {
        let Some(head) = head(&mut tx, partition, claimant, now, doing).await? else {
            continue;
        };
        let earlier = |best: &Candidate| head.rank.total_cmp(&best.rank).then(head.id.cmp(&best.id)).is_lt();
        if best.as_ref().is_none_or(earlier) {
            best = Some(head);
        }
    }
    let Some(candidate) = best else {
        return Ok(None);
    };
    let claimed = take(&mut tx, &candidate, claimant, now, store.policy().lease, doing).await?;
    tx.commit().await.map_err(unavailable(doing))?;
    Ok(Some(claimed))
}

/// Tells whether the claimant has the job's weights, knows its spec and can hold it: the same rule as [`head`]'s.
fn can_run(claimant: &Claimant, candidate: &Candidate) -> Result<bool, StoreError> {
    let partition = rows::partition(&candidate.partition)?;
    let knows_spec = claimant.spec_versions.iter().any(|&version| i64::from(version) == candidate.spec_version);
    let holds = claimant.max_cost_tflop.is_none_or(|max| candidate.cost_tflop <= max);
    Ok(claimant.partitions.contains(&partition) && knows_spec && holds)
}

/// Returns the first job of a partition that the claimant can run.
async fn head(
    tx: &mut SqliteConnection,
    partition: Partition,
    claimant: &Claimant,
    now: Micros,
    doing: &'static str,
) -> Result<Option<Candidate>, StoreError> {
    let partition = partition.as_str();
    let versions = serde_json::to_string(&claimant.spec_versions).map_err(unreadable("spec_version"))?;
    let max_cost = claimant.max_cost_tflop.unwrap_or(f64::MAX);
    sqlx::query_as!(
        Candidate,
        r#"
        select id as "id: Uuid", partition, spec_version, cost_tflop, rank from jobs
        where state = 'queued'
            and partition = ?
            and run_at <= ?
            and spec_version in (select value from json_each(?))
            and cost_tflop <= ?
        order by rank, id
        limit 1
        "#,
        partition,
        now.0,
        versions,
        max_cost
    )
    .fetch_optional(tx)
    .await
    .map_err(unavailable(doing))
}

/// Gives the job to the claimant: a new fence, a new token, one more attempt.
async fn take(
    tx: &mut SqliteConnection,
    candidate: &Candidate,
    claimant: &Claimant,
    now: Micros,
    duration: Duration,
    doing: &'static str,
) -> Result<Claimed, StoreError> {
    let token = ClaimToken::random();
    let expires_at = now.plus(duration);
    let (worker, token_uuid) = (claimant.worker.0, token.0);
    let raised = sqlx::query!(
        r#"
        update jobs
        set state = 'running', fence = fence + 1, attempt = attempt + 1,
            claim_token = ?, worker = ?, lease_expires_at = ?
        where id = ? and state = 'queued'
        returning fence as "fence!: i64", attempt as "attempt!: i64"
        "#,
        token_uuid,
        worker,
        expires_at.0,
        candidate.id
    )
    .fetch_one(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!(
        "insert into job_attempts (job_id, fence, number, worker, claimed_at) values (?, ?, ?, ?, ?)",
        candidate.id,
        raised.fence,
        raised.attempt,
        worker,
        now.0
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;
    sqlx::query!(
        "update queue_clocks set virtual_time = max(virtual_time, ?) where partition = ?",
        candidate.rank,
        candidate.partition
    )
    .execute(&mut *tx)
    .await
    .map_err(unavailable(doing))?;

    let job = read::load(&mut *tx, JobId::from_uuid(candidate.id), doing).await?;
    let fence = Fence(raised.fence);
    // Written down before the first byte is uploaded, so that no object is ever unknown to the tables.
    let key = BlobKey::result(&job.tenant, job.id, fence, token);
    let key = key.as_str();
    sqlx::query!("insert into objects (key, job_id, standing) values (?, ?, 'expected')", key, candidate.id)
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
    let lease =
        Lease { job: job.id, tenant: job.tenant.clone(), fence, token, worker: claimant.worker, expires_at, duration };
    Ok(Claimed { lease, job })
}
