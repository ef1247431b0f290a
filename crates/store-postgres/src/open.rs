//! Opening the store: the server and the tables have to be those that this program needs.

use std::sync::OnceLock;

use clapboard_jobs::Policy;
use sqlx::Connection;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migrator};
use sqlx::postgres::PgConnection;

use crate::error::{Missing, OpenError, Refusal};
use crate::options::Options;
use crate::store::PostgresStore;

pub(crate) static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/postgres");

/// The first version of the server that will do, as it counts them.
const NEEDED_SERVER: u32 = 15;
/// The table in which sqlx takes note of the migrations that were applied.
pub(crate) const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

impl PostgresStore {
    /// Opens the store: sees that the server answers and that its tables are those that this program needs.
    ///
    /// Tables of a newer program are accepted if they say that programs as old as this one can work with them.
    ///
    /// Errors: [`OpenError`], naming the database and what is wrong. Nothing is changed.
    pub async fn connect(options: &Options, policy: Policy) -> Result<Self, OpenError> {
        let policy = policy.validated()?;
        let wrong = |error| from_sqlx(options, error);
        let mut connection = options.connect().await.map_err(wrong)?;
        require_server(&mut connection, options).await?;
        require_schema(&mut connection, options).await?;
        // Whether the server hears that it is over changes nothing.
        drop(connection.close().await);
        let pool = OnceLock::new();
        pool.get_or_init(|| options.pool());
        Ok(Self::over(pool, options.clone(), policy))
    }

    /// Returns a store that makes its pool, on the runtime that uses it first, and connects only then. It checks neither
    /// server nor tables.
    ///
    /// For a thread that must not wait for others' connections, such as the one that renews leases.
    ///
    /// Errors: [`OpenError::Policy`].
    pub fn lazy(options: &Options, policy: Policy) -> Result<Self, OpenError> {
        Ok(Self::over(OnceLock::new(), options.clone(), policy.validated()?))
    }
}

pub(crate) async fn require_server(connection: &mut PgConnection, options: &Options) -> Result<(), OpenError> {
    let version = sqlx::query!(
        r#"select current_setting('server_version_num')::int as "number!", current_setting('server_version') as "name!""#
    )
    .fetch_one(connection)
    .await
    .map_err(|error| from_sqlx(options, error))?;
    if version.number.unsigned_abs() / 10_000 < NEEDED_SERVER {
        let address = options.url.address();
        return Err(OpenError::ServerTooOld { address, found: version.name, needed: NEEDED_SERVER });
    }
    Ok(())
}

async fn require_schema(connection: &mut PgConnection, options: &Options) -> Result<(), OpenError> {
    let exists = sqlx::query_scalar!(r#"select to_regclass($1) is not null as "exists!""#, MIGRATIONS_TABLE)
        .fetch_one(&mut *connection)
        .await
        .map_err(|error| from_sqlx(options, error))?;
    let applied = if exists {
        connection.list_applied_migrations(MIGRATIONS_TABLE).await.map_err(|error| from_migrate(options, error))?
    } else {
        Vec::new()
    };
    let missing = compare(&applied, options)?;
    if !missing.is_empty() {
        return Err(OpenError::NotMigrated { address: options.url.address(), missing: Missing(missing) });
    }
    require_compatible(connection, options).await
}

/// Returns which of our migrations are not among those applied.
pub(crate) fn compare(applied: &[AppliedMigration], options: &Options) -> Result<Vec<i64>, OpenError> {
    let mut missing = Vec::new();
    for ours in MIGRATOR.iter() {
        match applied.iter().find(|applied| applied.version == ours.version) {
            None => missing.push(ours.version),
            Some(found) if found.checksum != ours.checksum => {
                return Err(OpenError::ForeignSchema { address: options.url.address(), version: ours.version });
            }
            Some(_) => {}
        }
    }
    Ok(missing)
}

pub(crate) async fn require_compatible(connection: &mut PgConnection, options: &Options) -> Result<(), OpenError> {
    let needed = sqlx::query_scalar!("select oldest_program from schema_compatibility")
        .fetch_one(connection)
        .await
        .map_err(|error| from_sqlx(options, error))?;
    let known = last_known();
    if needed > known {
        return Err(OpenError::NewerSchema { address: options.url.address(), needed, known });
    }
    Ok(())
}

pub(crate) fn last_known() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Classes an error that came while opening.
pub(crate) fn from_sqlx(options: &Options, error: sqlx::Error) -> OpenError {
    let address = options.url.address();
    match Refusal::of(&error) {
        Refusal::NoDatabase => OpenError::NoDatabase { address },
        Refusal::NotAllowed => {
            OpenError::NotAllowed { address, role: options.url.role().to_owned(), source: error.into() }
        }
        _ if matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_)) => {
            OpenError::Unreachable { address, source: error.into() }
        }
        _ => OpenError::Other { address, source: error.into() },
    }
}

pub(crate) fn from_migrate(options: &Options, error: MigrateError) -> OpenError {
    match error {
        MigrateError::Execute(error) => from_sqlx(options, error),
        MigrateError::VersionMismatch(version) => OpenError::ForeignSchema { address: options.url.address(), version },
        other => OpenError::Other { address: options.url.address(), source: other.into() },
    }
}
