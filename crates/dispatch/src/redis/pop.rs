//! Taking one hint, also for a caller who may go away at any moment.

use std::sync::Arc;
use std::time::Duration;

use clapboard_jobs::{Causes, Hint, Queue};
use redis::pipe;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::failure::Failure;
use super::{Shared, keys};

/// Takes the lowest rank out of several keys.
const SCRIPT: &str = include_str!("pop.lua");
/// The longest single wait: a connection that died without a word is noticed after that.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long a wait that ended too soon is not begun again.
const REST: Duration = Duration::from_millis(10);
/// Less than the server can wait.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

type Taken = Result<Option<Hint>, Failure>;

/// What a pop will answer.
///
/// The work is done by a task of its own, which outlives a caller that goes away and then puts back what it has taken.
pub(super) struct Answer {
    shared: Arc<Shared>,
    receiver: Option<oneshot::Receiver<Taken>>,
}

impl Answer {
    /// Begins to pop.
    pub(super) fn to_pop(shared: Arc<Shared>, queues: Vec<Queue>, deadline: Instant) -> Self {
        let (mut reply, receiver) = oneshot::channel();
        let worker = Arc::clone(&shared);
        tokio::spawn(async move {
            let taken = worker.take(&queues, deadline, &mut reply).await;
            if let Err(unheard) = reply.send(taken) {
                worker.settle(unheard).await;
            }
        });
        Self { shared, receiver: Some(receiver) }
    }

    /// Waits for it.
    pub(super) async fn wait(mut self) -> Taken {
        let Some(receiver) = &mut self.receiver else { return Err(Failure::Ended) };
        let taken = receiver.await;
        self.receiver = None;
        taken.unwrap_or(Err(Failure::Ended))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let Some(mut receiver) = self.receiver.take() else { return };
        // Counted before the task can know, which counts down.
        self.shared.returning.send_modify(|count| *count += 1);
        receiver.close();
        // Either the task finds nobody to tell, or it has told already and the answer lies here.
        if let (Ok(taken), Ok(runtime)) = (receiver.try_recv(), tokio::runtime::Handle::try_current()) {
            let shared = Arc::clone(&self.shared);
            runtime.spawn(async move { shared.settle(taken).await });
        }
    }
}

impl Shared {
    /// Takes the lowest rank, waiting until the deadline for one to come, or until nobody listens any more.
    async fn take(&self, queues: &[Queue], deadline: Instant, reply: &mut oneshot::Sender<Taken>) -> Taken {
        if let Some(open) = self.pops.resting() {
            // Whoever asks again and again does so at the pace of the rests, not at that of a processor.
            tokio::select! {
                () = sleep_until(open.until.min(deadline)) => {}
                () = reply.closed() => return Ok(None),
            }
        }
        let taken = self.take_from_server(queues, deadline, reply).await;
        match &taken {
            Err(failure) if failure.is_outage() => {
                self.pops.fail(failure);
                self.waiters.clear();
            }
            Err(failure @ (Failure::Key { .. } | Failure::Redis(_))) => self.pops.rest(failure),
            _ => {}
        }
        taken
    }

    async fn take_from_server(&self, queues: &[Queue], deadline: Instant, reply: &mut oneshot::Sender<Taken>) -> Taken {
        if queues.is_empty() {
            tokio::select! {
                () = sleep_until(deadline) => {}
                () = reply.closed() => {}
            }
            return Ok(None);
        }
        // Followed from before the first look: what a dropped pop has taken may come back between a look and the question
        // whether any is still to come.
        let mut returning = self.returning.subscribe();
        let some_were_returning = *returning.borrow_and_update() > 0;
        let names: Vec<String> = queues.iter().map(|&queue| self.keys.hints(queue)).collect();
        if let Some(hint) = self.take_now(queues, &names).await? {
            return Ok(Some(hint));
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left < SHORTEST_WAIT || reply.is_closed() {
                break;
            }
            let closed = std::pin::pin!(reply.closed());
            let popped = self.waiters.pop(&names, left.min(LONGEST_WAIT), &self.pops, closed).await?;
            let Some((name, member, rank)) = popped else {
                // What stands between may answer at once that nothing came, as often as it is asked.
                tokio::time::sleep(REST.min(deadline.saturating_duration_since(Instant::now()))).await;
                continue;
            };
            let queue = names.iter().position(|key| *key == name).and_then(|at| queues.get(at).copied());
            match queue.and_then(|queue| keys::hint(queue, &member, rank)) {
                Some(hint) => return Ok(Some(hint)),
                None => warn_of_a_stranger(&name),
            }
        }
        let some_returned = some_were_returning || returning.has_changed().unwrap_or(false);
        if !some_returned || reply.is_closed() {
            return Ok(None);
        }
        let _ = timeout(self.timeout, returning.wait_for(|count| *count == 0)).await;
        self.take_now(queues, &names).await
    }

    /// Takes the lowest rank that is there.
    async fn take_now(&self, queues: &[Queue], names: &[String]) -> Taken {
        let mut commands = pipe();
        commands.cmd("EVAL").arg(SCRIPT).arg(names.len()).arg(names);
        loop {
            let (popped,) = self.pops.query::<(Option<(usize, Vec<u8>, f64)>,)>(&commands).await?;
            let Some((number, member, rank)) = popped else { return Ok(None) };
            // Lua counts from one.
            let at = number.wrapping_sub(1);
            let (Some(&queue), Some(name)) = (queues.get(at), names.get(at)) else { return Ok(None) };
            match keys::hint(queue, &member, rank) {
                Some(hint) => return Ok(Some(hint)),
                None => warn_of_a_stranger(name),
            }
        }
    }

    /// Puts back what a pop has taken whose caller is gone.
    async fn settle(&self, taken: Taken) {
        if let Ok(Some(hint)) = taken {
            let mut commands = pipe();
            // A rank that was pushed since then is the newer one.
            commands.cmd("ZADD").arg(self.keys.hints(hint.queue)).arg("NX");
            commands.arg(keys::score(hint.rank)).arg(keys::member(hint.job)).ignore();
            if let Err(failure) = self.pops.query::<()>(&commands).await {
                let error = Causes(&failure);
                tracing::debug!(job_id = %hint.job, %error, "a hint could not be put back: the next sweep brings it again");
            }
        }
        self.returning.send_modify(|count| *count -= 1);
    }
}

fn warn_of_a_stranger(key: &str) {
    tracing::warn!(key, "a member that is no job id was dropped: does another program write under this prefix?");
}
