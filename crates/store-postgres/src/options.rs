//! How connections are made and for how long anybody waits.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::url::DatabaseUrl;

/// A connection that rested longer than this is asked whether it still lives before it is used.
const UNTESTED_REST: Duration = Duration::from_secs(1);
/// How long a connection that was given back has to answer; one that does not is closed, so that its place is free.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// What every connection begins with, besides the time-outs of its statements.
///
/// The times bound what a vanished peer can hold up. Every statement has its index, so plans are made once per connection
/// and the planner is kept from plans that suit the empty tables which a young connection may have seen.
const SETTINGS: &str = "
    set idle_in_transaction_session_timeout = '15s';
    set tcp_keepalives_idle = 30;
    set tcp_keepalives_interval = 10;
    set tcp_keepalives_count = 3;
    set default_transaction_isolation = 'read committed';
    set plan_cache_mode = force_generic_plan;
    set enable_seqscan = off;
    set enable_bitmapscan = off;
    set enable_hashjoin = off;
    set enable_mergejoin = off;
    set jit = off;
";

/// How to reach the database.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it is.
    pub url: DatabaseUrl,
    /// How many connections the store holds at most; at least 1.
    pub max_connections: u32,
    /// How long a verb waits for a connection.
    pub acquire_timeout: Duration,
    /// How long the server works on one statement. Half of it is for the locks that others hold, so that the error says
    /// which of the two it was.
    pub statement_timeout: Duration,
    /// How long the start waits for the server to answer.
    pub connect_timeout: Duration,
    /// What the server's lists of connections show.
    pub application_name: String,
}

impl Options {
    /// Returns the usual options for `url`.
    pub fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            max_connections: 10,
            acquire_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            application_name: "clapboard".to_owned(),
        }
    }

    fn connect_options(&self) -> PgConnectOptions {
        self.url.options().application_name(&self.application_name)
    }

    /// Returns how long a verb takes at most, its wait for a connection included.
    pub(crate) fn patience(&self) -> Duration {
        self.acquire_timeout.saturating_add(self.statement_timeout)
    }

    /// Connects once, without the pool's patience with a server that refuses.
    pub(crate) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let options = self.connect_options();
        match tokio::time::timeout(self.connect_timeout, PgConnection::connect_with(&options)).await {
            Ok(connected) => connected,
            Err(elapsed) => Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed))),
        }
    }

    /// Makes a pool that connects when it is used, on the runtime that calls this.
    pub(crate) fn pool(&self) -> PgPool {
        let settings: Arc<str> = format!(
            "set statement_timeout = {}; set lock_timeout = {}; {SETTINGS}",
            self.statement_timeout.as_millis(),
            (self.statement_timeout / 2).as_millis()
        )
        .into();
        PgPoolOptions::new()
            .max_connections(self.max_connections.max(1))
            .acquire_timeout(self.acquire_timeout)
            .after_connect(move |connection, _| {
                let settings = Arc::clone(&settings);
                Box::pin(async move {
                    // Two numbers of ours stand in it, and nothing else that was not written here.
                    connection.execute(AssertSqlSafe(settings)).await?;
                    Ok(())
                })
            })
            // The pool's own test costs a round trip for every verb.
            .test_before_acquire(false)
            .before_acquire(|connection, rest| {
                Box::pin(async move {
                    if rest.idle_for > UNTESTED_REST {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_release(|connection, _| {
                Box::pin(async move {
                    match tokio::time::timeout(RELEASE_TIMEOUT, connection.ping()).await {
                        Ok(alive) => alive.map(|()| true),
                        Err(elapsed) => {
                            Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed)))
                        }
                    }
                })
            })
            .connect_lazy_with(self.connect_options())
    }
}
