//! What operators want to know of the server.

use std::time::Duration;

use clapboard_jobs::StoreError;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use crate::error::{NoAnswer, unavailable};
use crate::store::PostgresStore;

const DOING: &str = "asking the server about itself";

/// How long all questions together may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresFacts {
    /// Its version.
    pub version: String,
    /// What stands between it and us.
    pub pooling: Pooling,
}

/// How connections of ours are served by those of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// There was no sign of a pooler. One that others keep busy at this very moment may not be noticed.
    NotSeen,
    /// A pooler gives a server's connection to one of ours after another, as in its session mode. It may still be one in
    /// transaction mode that others keep busy at this very moment.
    Sessions,
    /// A pooler serves one connection of ours by several of the server's, as in its transaction mode, through which the
    /// store does not work.
    Transactions,
}

/// What serves a connection at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Backend {
    process: i32,
    /// Tells two processes apart that had the same number.
    started_at: i64,
}

impl PostgresStore {
    /// Asks the server about itself, over three connections of its own; nothing in it is changed.
    ///
    /// Errors: [`StoreError::Unavailable`], also through a pooler in statement mode, which knows no transactions.
    pub async fn facts(&self) -> Result<PostgresFacts, StoreError> {
        let silent = |_| StoreError::Unavailable { doing: DOING, source: NoAnswer { waited: LIMIT }.into() };
        tokio::time::timeout(LIMIT, ask(self)).await.map_err(silent)?.map_err(unavailable(DOING))
    }
}

async fn ask(store: &PostgresStore) -> Result<PostgresFacts, sqlx::Error> {
    let options = store.pool().connect_options();
    let mut first = PgConnection::connect_with(&options).await?;
    let (version, before) = served_by(&mut first).await?;
    let mut beside = PgConnection::connect_with(&options).await?;
    // In transaction mode this takes what has just served the first connection, and keeps it.
    let mut transaction = beside.begin().await?;
    let (_, busy) = served_by(&mut transaction).await?;
    let (_, after) = served_by(&mut first).await?;
    transaction.rollback().await?;
    // Whether the server hears that they are over changes nothing, but a pooler has to hear it before the next comes.
    drop(beside.close().await);
    drop(first.close().await);
    let mut last = PgConnection::connect_with(&options).await?;
    let (_, next) = served_by(&mut last).await?;
    drop(last.close().await);
    Ok(PostgresFacts { version, pooling: pooling(before, after, busy, next) })
}

/// Concludes from what served a connection `before` another one was `busy` and after that had begun, and what served the
/// `next` once both had ended.
fn pooling(before: Backend, after: Backend, busy: Backend, next: Backend) -> Pooling {
    if before != after {
        Pooling::Transactions
    } else if next == before || next == busy {
        Pooling::Sessions
    } else {
        Pooling::NotSeen
    }
}

/// The simple protocol, which no pooler mixes up: checked statements are prepared, and those that are prepared live in one of
/// the server's connections.
const SERVED_BY: &str = "
    select
        current_setting('server_version') as version,
        pid as process,
        (extract(epoch from backend_start) * 1000000)::bigint as started_at
    from pg_stat_activity
    where pid = pg_backend_pid()
";

/// Returns the server's version, and what serves the connection.
async fn served_by(connection: &mut PgConnection) -> Result<(String, Backend), sqlx::Error> {
    let row = sqlx::raw_sql(SERVED_BY).fetch_one(connection).await?;
    Ok((row.try_get("version")?, Backend { process: row.try_get("process")?, started_at: row.try_get("started_at")? }))
}

#[cfg(test)]
mod tests {
    use clapboard_jobs::Policy;
    use clapboard_testkit::Postgres;

    use super::*;
    use crate::options::Options;

    #[tokio::test]
    async fn a_server_that_is_asked_directly_tells_its_version_and_shows_no_pooler() {
        let postgres = Postgres::start();
        let options = Options::new(postgres.url().parse().unwrap());
        let store = PostgresStore::lazy(&options, Policy::default()).unwrap();
        let facts = store.facts().await.unwrap();
        let major: u32 = facts.version.split(['.', ' ']).next().unwrap().parse().unwrap();
        assert!(major >= 15, "{}", facts.version);
        assert_eq!(facts.pooling, Pooling::NotSeen);
        drop(postgres);
        let refused = store.facts().await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable { doing: DOING, .. }), "{refused}");
    }

    #[test]
    fn a_pooler_is_known_by_which_backends_it_gives_to_whom() {
        let [one, two, three] = [1, 2, 3].map(|process| Backend { process, started_at: 7 });
        assert_eq!(pooling(one, one, two, three), Pooling::NotSeen);
        assert_eq!(pooling(one, one, two, Backend { started_at: 8, ..one }), Pooling::NotSeen);
        assert_eq!(pooling(one, one, two, one), Pooling::Sessions);
        assert_eq!(pooling(one, one, two, two), Pooling::Sessions);
        assert_eq!(pooling(one, two, one, one), Pooling::Transactions);
        assert_eq!(pooling(one, two, one, three), Pooling::Transactions);
    }
}
