//! Connections that wait for a hint.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, RedisResult, Value, cmd, pipe};
use tokio::time::{Instant, timeout, timeout_at};

use super::failure::{Failure, is_outage};
use super::link::{Link, connect};

/// How many connections are kept while nobody waits.
const KEPT: usize = 8;
/// How late a server may end a wait of its own accord: it looks ten times a second, and a busy one looks later.
const LATENESS: Duration = Duration::from_millis(400);
/// How often a wait that is to end is told so: a wait that has not yet reached the server cannot be ended there.
const REMINDER: Duration = Duration::from_millis(5);

/// A key, a member of its sorted set, and the member's score.
pub(super) type Popped = (String, Vec<u8>, f64);

/// A connection for one waiting command at a time, which blocks whatever comes after it.
#[derive(Clone)]
struct Waiter {
    connection: MultiplexedConnection,
    /// What the server calls it.
    id: i64,
}

/// The connections on which nobody waits at present.
pub(super) struct Waiters {
    client: Client,
    limit: Duration,
    idle: Mutex<Vec<Waiter>>,
}

impl Waiters {
    /// Makes an empty set, whose exchanges may take `limit` longer than what they wait for.
    pub(super) fn new(client: Client, limit: Duration) -> Self {
        Self { client, limit, idle: Mutex::default() }
    }

    /// Closes every connection that is not waiting.
    pub(super) fn clear(&self) {
        self.idle().clear();
    }

    /// Waits at most `wait` for a member to come into one of the sorted sets and takes it, the lowest score first.
    ///
    /// Once `given_up` is ready the wait is ended at the server, by way of `link`: what was taken before that is
    /// returned nevertheless.
    pub(super) async fn pop(
        &self,
        keys: &[String],
        wait: Duration,
        link: &Link,
        mut given_up: impl Future<Output = ()> + Unpin,
    ) -> Result<Option<Popped>, Failure> {
        let mut command = cmd("BZPOPMIN");
        command.arg(keys).arg(format!("{:.3}", wait.as_secs_f64().max(0.001)));
        let kept = self.idle().pop();
        if let Some(waiter) = kept {
            match self.pop_on(waiter, &command, wait, link, &mut given_up).await {
                // The server has closed it while nobody looked.
                Err(Failure::Redis(error)) if is_outage(&error) => {}
                popped => return popped,
            }
        }
        let waiter = self.new_waiter().await?;
        self.pop_on(waiter, &command, wait, link, &mut given_up).await
    }

    async fn new_waiter(&self) -> RedisResult<Waiter> {
        let mut connection = connect(&self.client).await?;
        let named = timeout(self.limit, cmd("CLIENT").arg("ID").query_async(&mut connection)).await;
        let id = named.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        Ok(Waiter { connection, id })
    }

    async fn pop_on(
        &self,
        mut waiter: Waiter,
        command: &Cmd,
        wait: Duration,
        link: &Link,
        given_up: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<Option<Popped>, Failure> {
        let kept = waiter.clone();
        let popping = command.query_async::<Option<Popped>>(&mut waiter.connection);
        tokio::pin!(popping);
        let limit = wait + LATENESS + self.limit;
        let popped = tokio::select! {
            popped = timeout(limit, &mut popping) => popped.map_err(|_| Failure::Silent { limit })?,
            () = given_up => {
                let deadline = Instant::now() + self.limit;
                loop {
                    let mut unblock = pipe();
                    unblock.cmd("CLIENT").arg("UNBLOCK").arg(kept.id);
                    // Where the server cannot be told, the connection is closed, which ends the wait as well.
                    let Ok(Ok(_)) = timeout_at(deadline, link.query::<Value>(&unblock)).await else { return Ok(None) };
                    match timeout_at(deadline.min(Instant::now() + REMINDER), &mut popping).await {
                        Ok(Ok(popped)) => break Ok(popped),
                        // A closed connection has taken nothing.
                        Ok(Err(_)) => return Ok(None),
                        Err(_) if Instant::now() < deadline => {}
                        Err(_) => return Ok(None),
                    }
                }
            }
        };
        let popped = popped?;
        let mut idle = self.idle();
        if idle.len() < KEPT {
            idle.push(kept);
        }
        Ok(popped)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Waiter>> {
        // No invariant spans its elements.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
