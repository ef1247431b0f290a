//! A connection that many share, which comes back by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clapboard_jobs::Causes;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, Pipeline, RedisError, RedisResult};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::breaker::{Breaker, Open};
use super::failure::{Failure, is_outage};

/// How long a connection may take to be made, which goes on while its callers give up: a handshake over a slow network
/// takes longer than a caller has.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Opens a connection on which answers may take any time: every caller has a limit of its own.
pub(super) async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_LIMIT)).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// A shared connection with a limit per exchange, and a breaker.
pub(super) struct Link {
    client: Client,
    limit: Duration,
    breaker: Breaker,
    slot: Arc<Mutex<Slot>>,
}

/// The connection, as far as it is.
enum Slot {
    Empty,
    Connecting(watch::Receiver<Option<RedisResult<MultiplexedConnection>>>),
    Up(MultiplexedConnection),
}

impl Link {
    /// Makes a link that connects when it is used first.
    pub(super) fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit, breaker: Breaker::default(), slot: Arc::new(Mutex::new(Slot::Empty)) }
    }

    /// Sends the commands in one round trip and returns their answers, within the limit.
    ///
    /// They may be sent a second time, on a new connection, where the old one turns out to be closed.
    pub(super) async fn query<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, Failure> {
        self.breaker.admit(Instant::now()).map_err(Failure::Resting)?;
        let answer = match timeout(self.limit, self.query_or_reconnect(commands)).await {
            Ok(answer) => answer.map_err(Failure::Redis),
            Err(_) => Err(Failure::Silent { limit: self.limit }),
        };
        match &answer {
            Err(failure) if failure.is_outage() => self.fail(failure),
            _ => self.breaker.reset(),
        }
        answer
    }

    /// Notes that the server failed and gives its connection up.
    pub(super) fn fail(&self, failure: &Failure) {
        self.breaker.trip(Instant::now(), Causes(failure).to_string());
        self.hang_up();
    }

    /// Notes a failure that is not the connection's.
    pub(super) fn rest(&self, failure: &Failure) {
        self.breaker.trip(Instant::now(), Causes(failure).to_string());
    }

    /// Returns why the next query would be refused, and until when.
    pub(super) fn resting(&self) -> Option<Open> {
        self.breaker.open_at(Instant::now())
    }

    async fn query_or_reconnect<T: FromRedisValue>(&self, commands: &Pipeline) -> RedisResult<T> {
        let (mut connection, is_new) = self.connection().await?;
        match commands.query_async(&mut connection).await {
            // A server that restarts, or closes what is idle, has closed this one while nobody looked.
            Err(error) if !is_new && is_outage(&error) => {
                self.hang_up();
                let (mut connection, _) = self.connection().await?;
                commands.query_async(&mut connection).await
            }
            answer => answer,
        }
    }

    /// Returns the connection, and whether it has just been made.
    async fn connection(&self) -> RedisResult<(MultiplexedConnection, bool)> {
        let mut attempt = {
            let mut slot = lock(&self.slot);
            match &*slot {
                Slot::Up(connection) => return Ok((connection.clone(), false)),
                Slot::Connecting(attempt) if attempt.has_changed().is_ok() => attempt.clone(),
                // Nobody tries: there was no need yet, or the runtime of the last attempt has ended.
                Slot::Empty | Slot::Connecting(_) => {
                    let (done, attempt) = watch::channel(None);
                    tokio::spawn(fill(self.client.clone(), Arc::clone(&self.slot), done));
                    *slot = Slot::Connecting(attempt.clone());
                    attempt
                }
            }
        };
        match attempt.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(interrupted())).map(|connection| (connection, true)),
            Err(_) => Err(interrupted()),
        }
    }

    fn hang_up(&self) {
        let mut slot = lock(&self.slot);
        if matches!(*slot, Slot::Up(_)) {
            *slot = Slot::Empty;
        }
    }
}

/// Connects and tells everybody who waits for it.
async fn fill(client: Client, slot: Arc<Mutex<Slot>>, done: watch::Sender<Option<RedisResult<MultiplexedConnection>>>) {
    let outcome = connect(&client).await;
    *lock(&slot) = match &outcome {
        Ok(connection) => Slot::Up(connection.clone()),
        Err(_) => Slot::Empty,
    };
    done.send_replace(Some(outcome));
}

fn interrupted() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::Interrupted, "the attempt to connect was given up").into()
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    // It holds one value, written whole.
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
