//! Many jobs at once, for benchmarks: a million jobs made one by one take ten minutes.

use clapboard_jobs::{CapacityClass, NewJob, StoreError};

use crate::error::unavailable;
use crate::rows::column;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Makes `count` jobs like `new`, each with an id of its own, whose ranks follow one another from the partition's virtual
    /// time on by `cost_tflop`. The tenant's clock stays where it is and its caps are not looked at, and none has inputs.
    ///
    /// Errors: [`StoreError::Unavailable`]; none of them is made then.
    pub async fn create_many(&self, new: &NewJob, count: u32) -> Result<(), StoreError> {
        let doing = "creating many jobs";
        let mut tx = self.pool().begin().await.map_err(unavailable(doing))?;
        // So many rows take longer than any statement of the service may.
        sqlx::query!("set local statement_timeout = 0").execute(&mut *tx).await.map_err(unavailable(doing))?;
        sqlx::query!("insert into queue_clocks (partition) values ($1) on conflict do nothing", new.partition.as_str())
            .execute(&mut *tx)
            .await
            .map_err(unavailable(doing))?;
        sqlx::query!(
            r#"
            insert into jobs (
                id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec, cost_tflop, rank,
                virtual_finish, created_at, run_at, max_attempts
            )
            select
                gen_random_uuid(), $1, $2, $3, $4, $5, 'normal', $6, ($7::text)::json, $8::float8, clock.start + n * $8::float8,
                clock.start + n * $8::float8, now_micros(), now_micros(), $9
            from generate_series(1, $10::bigint) n
            cross join (
                select coalesce((select virtual_time from queue_clocks where partition = $3), 0.0) as start
            ) clock
            "#,
            new.tenant.as_str(),
            new.model,
            new.partition.as_str(),
            i32::from(CapacityClass::of_rows(new.rows).number()),
            column("rows", new.rows)?,
            i64::from(new.spec.version),
            new.spec.json,
            new.cost_tflop,
            i64::from(self.policy().max_attempts),
            i64::from(count)
        )
        .execute(&mut *tx)
        .await
        .map_err(unavailable(doing))?;
        tx.commit().await.map_err(unavailable(doing))?;
        sqlx::query!("vacuum analyze jobs").execute(self.pool()).await.map_err(unavailable(doing))?;
        Ok(())
    }
}
