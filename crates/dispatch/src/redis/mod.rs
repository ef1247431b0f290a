//! Hints in Redis, for any number of processes, and counted requests.

mod breaker;
mod facts;
mod failure;
mod keys;
mod limiter;
mod link;
mod options;
mod pop;
mod waiter;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Dispatch, DispatchError, Hint, Queue};
use redis::pipe;
use tokio::sync::watch;
use tokio::time::Instant;

use self::failure::Failure;
use self::keys::Keys;
use self::link::Link;
use self::pop::Answer;
use self::waiter::Waiters;

pub use self::facts::RedisFacts;
pub use self::limiter::RedisLimiter;
pub use self::options::{OpenError, RedisOptions};

use crate::room;

/// Adds members to a sorted set as long as there is room.
const OFFER: &str = include_str!("offer.lua");

/// A sorted set per queue, its members the ids of jobs and its scores their ranks.
///
/// Redis may be down, slow, flushed, restarted or restored at any time, also when this is opened: a push then fails
/// within its timeout, and for a second after a failure every call fails at once without asking, except that a pop first
/// waits for the end of that second, as far as it may wait. Connections come back by themselves.
///
/// A pop that finds nothing waits on a connection of its own. When its caller goes away, the wait is ended at the
/// server, and a hint that was taken in the meantime is put back, which other pops of this dispatcher wait for. One
/// thing cannot be ruled out: where the server or this process ends in that very moment, the hint is lost until the
/// next sweep.
///
/// It needs Redis 6.0 or later (or a server that speaks as one) with `EVAL`, `BZPOPMIN`, `CLIENT ID` and, to end a wait
/// without closing its connection, `CLIENT UNBLOCK`. A cluster is not supported: one pop looks into several keys.
#[derive(Clone)]
pub struct RedisDispatch {
    shared: Arc<Shared>,
    is_for_new_jobs: bool,
}

struct Shared {
    keys: Keys,
    window: usize,
    timeout: Duration,
    /// For the API, which must not wait for anything that a worker does.
    pushes: Link,
    /// For everything that belongs to pops.
    pops: Link,
    waiters: Waiters,
    /// How many pops were dropped and have not yet put back what they may have taken.
    returning: watch::Sender<usize>,
}

impl RedisDispatch {
    /// Makes a dispatcher; it connects when it is used first.
    ///
    /// # Errors
    ///
    /// Fails only if a setting breaks its rule. A server that cannot be reached is no error here.
    pub fn open(options: &RedisOptions) -> Result<Self, OpenError> {
        let client = options.client()?;
        let shared = Shared {
            keys: Keys::new(options.prefix.clone()),
            window: options.window,
            timeout: options.timeout,
            pushes: Link::new(client.clone(), options.timeout),
            pops: Link::new(client.clone(), options.timeout),
            waiters: Waiters::new(client, options.timeout),
            returning: watch::Sender::new(0),
        };
        Ok(Self { shared: Arc::new(shared), is_for_new_jobs: false })
    }

    /// Returns a dispatcher of the same hints for whoever makes jobs, who does not know whether they may run: its pushes
    /// take up to half of a queue's window and push nothing out.
    pub fn for_new_jobs(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), is_for_new_jobs: true }
    }
}

impl fmt::Debug for RedisDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisDispatch").field("keys", &self.shared.keys).finish_non_exhaustive()
    }
}

impl Shared {
    async fn push(&self, hints: &[Hint]) -> Result<usize, Failure> {
        let queues = by_queue(hints);
        let mut commands = pipe();
        for (queue, hints) in &queues {
            let key = self.keys.hints(*queue);
            commands.cmd("ZADD").arg(&key);
            for hint in hints {
                commands.arg(keys::score(hint.rank)).arg(keys::member(hint.job));
            }
            commands.cmd("ZREMRANGEBYRANK").arg(&key).arg(self.window).arg(-1).ignore();
        }
        let added: Vec<usize> = self.pushes.query(&commands).await.map_err(|failure| {
            // Two commands per queue.
            let failed = |index: usize| queues.get(index / 2).map(|&(queue, _)| queue);
            self.naming_the_key(failure, failed)
        })?;
        Ok(added.into_iter().sum())
    }

    /// Adds hints while there is room for new jobs.
    async fn offer(&self, hints: &[Hint]) -> Result<usize, Failure> {
        let queues = by_queue(hints);
        let mut commands = pipe();
        for (queue, hints) in &queues {
            commands.cmd("EVAL").arg(OFFER).arg(1).arg(self.keys.hints(*queue)).arg(room::for_new_jobs(self.window));
            for hint in hints {
                commands.arg(keys::score(hint.rank)).arg(keys::member(hint.job));
            }
        }
        let added: Vec<usize> = self.pushes.query(&commands).await.map_err(|failure| {
            let failed = |index: usize| queues.get(index).map(|&(queue, _)| queue);
            self.naming_the_key(failure, failed)
        })?;
        Ok(added.into_iter().sum())
    }

    async fn len(&self, queue: Queue) -> Result<u64, Failure> {
        let mut commands = pipe();
        commands.cmd("ZCARD").arg(self.keys.hints(queue));
        let counted = self.pushes.query(&commands).await;
        let (len,) = counted.map_err(|failure| self.naming_the_key(failure, |_| Some(queue)))?;
        Ok(len)
    }

    /// Adds to an error that a server gave to the command at some place which key that was about.
    fn naming_the_key(&self, failure: Failure, queue_at: impl FnOnce(usize) -> Option<Queue>) -> Failure {
        let Failure::Redis(error) = &failure else { return failure };
        if failure.is_outage() {
            return failure;
        }
        let index = error.clone().into_server_errors().and_then(|errors| Some(errors.first()?.0));
        match index.and_then(queue_at) {
            Some(queue) => Failure::Key { key: self.keys.hints(queue), source: error.clone() },
            None => failure,
        }
    }
}

/// Groups hints by queue. The queue with the lowest rank comes first, so that a worker that waits for several queues is
/// woken by it.
fn by_queue(hints: &[Hint]) -> Vec<(Queue, Vec<&Hint>)> {
    let mut queues: Vec<(Queue, Vec<&Hint>)> = Vec::new();
    for hint in hints {
        match queues.iter_mut().find(|(queue, _)| *queue == hint.queue) {
            Some((_, group)) => group.push(hint),
            None => queues.push((hint.queue, vec![hint])),
        }
    }
    let order = |a: &Hint, b: &Hint| -> Ordering { a.rank.total_cmp(&b.rank).then(a.job.cmp(&b.job)) };
    for (_, group) in &mut queues {
        // A stable sort: of two hints of one job and one rank the last stays last.
        group.sort_by_key(|hint| hint.job);
        group.reverse();
        group.dedup_by_key(|hint| hint.job);
        group.sort_by(|a, b| order(a, b));
    }
    queues.sort_by(|(_, a), (_, b)| order(a[0], b[0]));
    queues
}

#[async_trait]
impl Dispatch for RedisDispatch {
    async fn push(&self, hints: &[Hint]) -> Result<usize, DispatchError> {
        if hints.is_empty() {
            return Ok(0);
        }
        let pushed = if self.is_for_new_jobs { self.shared.offer(hints).await } else { self.shared.push(hints).await };
        pushed.map_err(|failure| failure.while_doing("pushing hints"))
    }

    async fn pop(&self, queues: &[Queue], wait: Duration) -> Result<Option<Hint>, DispatchError> {
        let answer = Answer::to_pop(Arc::clone(&self.shared), queues.to_vec(), Instant::now() + wait);
        answer.wait().await.map_err(|failure| failure.while_doing("waiting for a hint"))
    }

    async fn len(&self, queue: Queue) -> Result<u64, DispatchError> {
        self.shared.len(queue).await.map_err(|failure| failure.while_doing("counting hints"))
    }
}

#[cfg(test)]
mod tests {
    use clapboard_h3::Partition;
    use clapboard_jobs::{CapacityClass, JobId};

    use super::*;

    #[test]
    fn hints_are_grouped_with_the_lowest_rank_first_and_the_last_rank_of_a_job() {
        let [small, large] = [CapacityClass::SMALLEST, CapacityClass::of_rows(u64::MAX)];
        let [first, second] = [small, large].map(|class| Queue::of(Partition::Fl2va, class));
        let jobs = [JobId::new(), JobId::new(), JobId::new()];
        let hint = |queue, rank, job: usize| Hint { queue, rank, job: jobs[job] };
        let hints = [hint(first, 3.0, 0), hint(first, 1.0, 1), hint(second, 2.0, 2), hint(first, 4.0, 1)];
        let groups = by_queue(&hints);
        assert_eq!(groups, [(second, vec![&hints[2]]), (first, vec![&hints[0], &hints[3]])]);
        assert!(by_queue(&[]).is_empty());
    }
}
