//! Bringing the tables up to date.
//!
//! A migration that changes a table needs it for itself for a moment, and whoever comes after it waits behind it. So it waits
//! for others only so long, lets those through that have come meanwhile, and tries again: behind a backup of an hour nothing
//! else stands still.

use std::time::{Duration, Instant};

use sqlx::migrate::{Migrate, MigrateError, Migration};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::error::{OpenError, Refusal};
use crate::open::{MIGRATIONS_TABLE, MIGRATOR, compare, from_migrate, from_sqlx, last_known};
use crate::open::{require_compatible, require_server};
use crate::options::Options;

/// What [`migrate`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The migrations that were applied now, by number and name; none when there was nothing to do.
    pub applied: Vec<(i64, String)>,
    /// The last migration that the tables have.
    pub version: i64,
}

/// How a migration waits for those who use its tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long it waits for a lock, with everybody who comes later behind it.
    pub(crate) lock: Duration,
    /// How long it leaves the tables to others then.
    pub(crate) pause: Duration,
    /// From when on it does not try again.
    pub(crate) whole: Duration,
}

impl Patience {
    /// Others wait for a second out of five at most.
    const USUAL: Self =
        Self { lock: Duration::from_secs(1), pause: Duration::from_secs(4), whole: Duration::from_secs(600) };
}

/// Applies the migrations that the database lacks, in order, and says which.
///
/// It may run while programs use the store, and several times at once: the first does the work and the others wait. It needs
/// a connection to the server itself or a pooler in session mode, since the lock belongs to the session.
///
/// A table that others use, such as a backup, is waited for by trying again and again, for up to ten minutes.
///
/// Errors: [`OpenError`]; a migration that failed has left nothing behind, and those before it stay.
pub async fn migrate(options: &Options) -> Result<Migrated, OpenError> {
    migrate_within(options, Patience::USUAL).await
}

pub(crate) async fn migrate_within(options: &Options, patience: Patience) -> Result<Migrated, OpenError> {
    let wrong = |error| from_sqlx(options, error);
    let mut connection = options.connect().await.map_err(wrong)?;
    require_server(&mut connection, options).await?;
    // The lock is taken here and not by the migrator, so that what it finds applied is not another's work of just now.
    connection.lock().await.map_err(|error| from_migrate(options, error))?;
    // Only now: the lock above is waited for as long as it takes.
    let limit = format!("set lock_timeout = {}", patience.lock.as_millis());
    connection.execute(AssertSqlSafe(limit)).await.map_err(wrong)?;
    let migrated = migrate_locked(&mut connection, options, patience).await;
    // The lock ends with the connection at the latest.
    drop(connection.close().await);
    migrated
}

async fn migrate_locked(
    connection: &mut PgConnection,
    options: &Options,
    patience: Patience,
) -> Result<Migrated, OpenError> {
    let wrong = |error| from_migrate(options, error);
    connection.ensure_migrations_table(MIGRATIONS_TABLE).await.map_err(wrong)?;
    let before = connection.list_applied_migrations(MIGRATIONS_TABLE).await.map_err(wrong)?;
    let missing = compare(&before, options)?;
    if before.iter().any(|applied| !MIGRATOR.version_exists(applied.version)) {
        // Tables of a newer program: there is nothing to do if this one can work with them.
        require_compatible(connection, options).await?;
    }
    let mut applied = Vec::new();
    for migration in MIGRATOR.iter().filter(|migration| missing.contains(&migration.version)) {
        apply(connection, migration, options, patience).await?;
        applied.push((migration.version, migration.description.to_string()));
    }
    let newest = before.iter().map(|applied| applied.version).max().unwrap_or_default();
    Ok(Migrated { applied, version: newest.max(last_known()) })
}

/// Applies one migration, again and again while others hold what it needs.
async fn apply(
    connection: &mut PgConnection,
    migration: &Migration,
    options: &Options,
    patience: Patience,
) -> Result<(), OpenError> {
    let begun = Instant::now();
    let mut waits = false;
    loop {
        let error = match connection.apply(MIGRATIONS_TABLE, migration).await {
            Ok(_) => return Ok(()),
            Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _))
                if Refusal::of(&error) == Refusal::Locked =>
            {
                error
            }
            Err(error) => return Err(from_migrate(options, error)),
        };
        let (version, waited) = (migration.version, begun.elapsed());
        if waited >= patience.whole {
            return Err(OpenError::InUse { address: options.url.address(), version, waited, source: error.into() });
        }
        if !waits {
            tracing::warn!(
                version,
                "others use a table that a migration changes: it is tried again until they are done"
            );
            waits = true;
        }
        // Rolls back what was tried, so that nothing of it is open during the pause.
        connection.ping().await.map_err(|error| from_sqlx(options, error))?;
        tokio::time::sleep(patience.pause).await;
    }
}
