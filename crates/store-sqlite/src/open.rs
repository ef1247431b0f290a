//! Opening the file: connections, pragmas, migrations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::{Clock, Policy};
use sqlx::Connection;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use crate::error::OpenError;
use crate::identity::Identity;
use crate::store::SqliteStore;

pub(crate) static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a caller waits for a connection that others use: longer than one that is stuck behind another process.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(6);
/// How many requests may read at once.
const READERS: u32 = 4;

impl SqliteStore {
    /// Opens the job store in the file at `path`, which is made when it is not there; its folder must be.
    ///
    /// Errors: [`OpenError`], naming the file and what is wrong with it. A file that is not ours is not touched.
    pub async fn open(path: &Path, policy: Policy, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let policy = policy.validated()?;
        let wrong = |error| OpenError::from_sqlx(path, error);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .busy_timeout(BUSY_TIMEOUT)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true);

        refuse_foreign(path, &options).await?;
        // Connections are opened anew now and then; one that finds no file must not begin an empty store.
        let options = options.create_if_missing(false);

        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_release(|connection, _| Box::pin(is_sound(connection)))
            .connect_with(options.clone().journal_mode(SqliteJournalMode::Wal))
            .await
            .map_err(wrong)?;
        MIGRATOR.run(&writer).await.map_err(|error| OpenError::from_migrate(path, last_migration(), error))?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options.pragma("query_only", "on"))
            .await
            .map_err(wrong)?;
        let identity = Identity::of(path).map_err(|source| OpenError::from_io(path, source))?;
        Ok(Self::over(writer, readers, identity, policy, clock))
    }
}

/// Tells whether the writing connection can be used again, once it has done what its last user left to it.
///
/// When the disk is full or fails, SQLite rolls back by itself, and then neither a commit nor a rollback succeeds. The
/// driver goes on counting that transaction as open and would refuse every later one, so the connection is closed.
async fn is_sound(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// Looks at what is in the file before anything is written to it: even the switch to WAL writes.
async fn refuse_foreign(path: &Path, options: &SqliteConnectOptions) -> Result<(), OpenError> {
    let wrong = |error| OpenError::from_sqlx(path, error);
    let pool: SqlitePool =
        SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await.map_err(wrong)?;
    let tables = sqlx::query!(
        r#"
        select
            count(*) as "all!: i64",
            count(case when name = '_sqlx_migrations' then 1 end) as "ours!: i64"
        from sqlite_schema
        where type = 'table'
        "#
    )
    .fetch_one(&pool)
    .await
    .map_err(wrong)?;
    pool.close().await;
    if tables.all > 0 && tables.ours == 0 {
        return Err(OpenError::ForeignDatabase { path: path.to_owned() });
    }
    Ok(())
}

fn last_migration() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default()
}
