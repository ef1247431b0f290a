//! Who uses the heartbeat's one connection next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// The longest that one call may keep the others waiting, where their leases leave that much.
const MOST_PATIENCE: Duration = Duration::from_secs(10);

/// One connection for many callers, one at a time: it goes to whoever is most pressed.
#[derive(Debug)]
pub(crate) struct Turns {
    patience: Duration,
    queue: Mutex<Queue>,
    /// When a call has ended last, however it did, and when the store has answered one.
    ended: Mutex<Ended>,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    moved_at: Instant,
    heard_at: Instant,
}

#[derive(Debug, Default)]
struct Queue {
    taken: bool,
    /// Of the next who waits, so that ties are in the order of arrival.
    number: u64,
    waiting: BTreeMap<(Instant, u64), oneshot::Sender<Turn>>,
}

/// The connection; it goes to the next when dropped.
#[derive(Debug)]
struct Turn(Arc<Turns>);

impl Turns {
    /// Makes the turns of a worker whose leases last for `lease` and whose engines are stopped `margin` before their ends.
    ///
    /// A call takes at most a third of what is left of a lease that was just renewed, so that after one that hangs, and even
    /// one more, there is time for the beat of every other lease.
    pub(crate) fn new(lease: Duration, margin: Duration) -> Arc<Self> {
        let patience = (lease.saturating_sub(margin) / 3).min(MOST_PATIENCE);
        let now = Instant::now();
        Arc::new(Self { patience, queue: Mutex::default(), ended: Mutex::new(Ended { moved_at: now, heard_at: now }) })
    }

    /// Makes a call when it is its turn; none when it is not answered in time. Of those who wait, the one whose `due` comes
    /// first is the next.
    pub(crate) async fn call<T>(self: &Arc<Self>, due: Instant, call: impl Future<Output = T>) -> Option<T> {
        let _turn = self.take(due).await;
        let answer = tokio::time::timeout(self.patience, call).await.ok();
        self.ended().moved_at = Instant::now();
        answer
    }

    /// Takes note that the store has answered a heartbeat.
    pub(crate) fn heard(&self) {
        self.ended().heard_at = Instant::now();
    }

    /// When a call has ended last, answered or not; to begin with, when the turns were made.
    pub(crate) fn moved_at(&self) -> Instant {
        self.ended().moved_at
    }

    /// When the store has answered a heartbeat last.
    pub(crate) fn heard_at(&self) -> Instant {
        self.ended().heard_at
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        // A single assignment leaves nothing half done.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(self: &Arc<Self>, due: Instant) -> Turn {
        let turn = {
            let mut queue = self.queue();
            if !queue.taken {
                queue.taken = true;
                return Turn(Arc::clone(self));
            }
            let (sender, turn) = oneshot::channel();
            queue.number += 1;
            let place = (due, queue.number);
            queue.waiting.insert(place, sender);
            turn
        };
        turn.await.expect("whoever has the turn passes it on")
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // What is done under the lock cannot panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Turns {
    /// How pressed those are who wait, the most pressed first.
    pub(crate) fn dues(&self) -> Vec<Instant> {
        self.queue().waiting.keys().map(|(due, _)| *due).collect()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.0.queue();
            let next = queue.waiting.pop_first();
            queue.taken = next.is_some();
            next
        };
        if let Some((_, next)) = next {
            // Where nobody waits for it any more, the turn comes back and is dropped: it goes to the one after.
            drop(next.send(Self(Arc::clone(&self.0))));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn turns() -> Arc<Turns> {
        Turns::new(Duration::from_secs(60), Duration::from_secs(15))
    }

    #[tokio::test]
    async fn the_most_pressed_is_the_next_and_who_has_gone_is_passed_over() {
        let turns = turns();
        let first = turns.take(Instant::now()).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut callers = Vec::new();
        for seconds in [30, 10, 20, 10] {
            let due = Instant::now() + Duration::from_secs(seconds);
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            callers.push(tokio::spawn(async move {
                turns.call(due, async { order.lock().unwrap().push(seconds) }).await.unwrap();
            }));
            let place = callers.len();
            while first.0.dues().len() < place {
                tokio::task::yield_now().await;
            }
        }
        callers[1].abort();
        drop(first);
        for (place, caller) in callers.into_iter().enumerate() {
            assert_eq!(caller.await.is_err(), place == 1);
        }
        assert_eq!(*order.lock().unwrap(), [10, 20, 30]);
        assert!(!turns.queue().taken);
    }

    #[tokio::test]
    async fn a_call_that_hangs_makes_way_for_the_next() {
        let turns = Turns::new(Duration::from_millis(300), Duration::ZERO);
        let begun = Instant::now();
        let hung = turns.call(begun, pending::<()>());
        let (hung, next) = tokio::join!(hung, turns.call(begun, async { begun.elapsed() }));
        assert_eq!(hung, None);
        assert!(next.unwrap() >= turns.patience);
    }

    #[test]
    fn leases_that_are_short_leave_a_call_less_time() {
        let patience = |lease, margin| Turns::new(Duration::from_secs(lease), Duration::from_secs(margin)).patience;
        assert_eq!(patience(60, 15), MOST_PATIENCE);
        assert_eq!(patience(6, 3), Duration::from_secs(1));
    }
}
