//! The bounded hand-over of chunks from the engine's thread to the one that feeds the encoder.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What became of an offered chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It was taken.
    Taken,
    /// There was no room within the patience: here it is again.
    Full(Vec<u8>),
    /// The receiving side is gone.
    Closed,
}

/// A slot for one chunk, with two ends: with the chunk being written, two are in flight at most.
///
/// The standard library's bounded channel cannot wait for room with a time limit, which is what lets the engine look
/// up from a hung encoder.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    slot: Option<Vec<u8>>,
    /// No more chunks will be offered.
    finished: bool,
    /// No more chunks will be taken.
    closed: bool,
}

impl Handover {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every statement, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `chunk` into the slot, waiting up to `patience` for room.
    pub(crate) fn offer(&self, chunk: Vec<u8>, patience: Duration) -> Offered {
        let (mut state, _) = self
            .changed
            .wait_timeout_while(self.state(), patience, |state| state.slot.is_some() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Offered::Closed;
        }
        if state.slot.is_some() {
            return Offered::Full(chunk);
        }
        state.slot = Some(chunk);
        self.changed.notify_all();
        Offered::Taken
    }

    /// Waits for the next chunk; `None` once all are taken and no more come, or the hand-over was closed.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self
            .changed
            .wait_while(self.state(), |state| state.slot.is_none() && !state.finished && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let chunk = if state.closed { None } else { state.slot.take() };
        self.changed.notify_all();
        chunk
    }

    /// Says that no more chunks will be offered; those in flight are still taken.
    pub(crate) fn finish(&self) {
        self.state().finished = true;
        self.changed.notify_all();
    }

    /// Says that no more chunks will be taken, and frees the one in flight.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.slot = None;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const GENEROUS: Duration = Duration::from_secs(60);

    #[test]
    fn a_full_slot_gives_the_same_chunk_back() {
        let handover = Handover::default();
        assert_eq!(handover.offer(vec![1], Duration::ZERO), Offered::Taken);
        assert_eq!(handover.offer(vec![2, 3], Duration::from_millis(5)), Offered::Full(vec![2, 3]));
        assert_eq!(handover.take(), Some(vec![1]));
        assert_eq!(handover.offer(vec![2, 3], Duration::ZERO), Offered::Taken);
    }

    #[test]
    fn chunks_arrive_in_order_and_then_the_end() {
        let handover = Handover::default();
        let taken = thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let mut taken = Vec::new();
                while let Some(chunk) = handover.take() {
                    taken.push(chunk[0]);
                }
                taken
            });
            for byte in 0..100 {
                assert_eq!(handover.offer(vec![byte], GENEROUS), Offered::Taken);
            }
            handover.finish();
            taker.join().unwrap()
        });
        assert_eq!(taken, (0..100).collect::<Vec<u8>>());
    }

    #[test]
    fn closing_wakes_a_waiting_offer() {
        let handover = Handover::default();
        assert_eq!(handover.offer(vec![1], GENEROUS), Offered::Taken);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| handover.offer(vec![2], GENEROUS));
            handover.close();
            assert_eq!(waiting.join().unwrap(), Offered::Closed);
        });
        assert_eq!(handover.take(), None);
    }
}
