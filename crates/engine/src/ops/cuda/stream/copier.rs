//! The threads that bring weights to where the GPU copies from, and queue its copies.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::vec;

use super::convert::convert;
use super::steps::{How, Step};
use crate::ops::cuda::error::CudaError;

/// What copies are queued on.
pub(super) trait Lane: Send + Sync + 'static {
    /// What is filled.
    type Slot: Send + Sync + 'static;
    /// Host memory that copies start from.
    type Buffer;

    /// Makes a buffer.
    fn buffer(&self) -> Result<Self::Buffer, CudaError>;

    /// Waits until nothing is copied from a buffer any more, and lends it.
    fn writable<'b>(&self, buffer: &'b mut Self::Buffer) -> Result<&'b mut [u8], CudaError>;

    /// Waits until nothing reads what a slot holds.
    fn begin(&self, slot: &Self::Slot) -> Result<(), CudaError>;

    /// Queues a copy of a buffer's leading `bytes` to `offset`.
    fn copy(&self, buffer: &mut Self::Buffer, bytes: usize, slot: &Self::Slot, offset: usize) -> Result<(), CudaError>;

    /// Queues a copy of bytes as they lie.
    fn copy_direct(&self, step: &Step, slot: &Self::Slot) -> Result<(), CudaError>;

    /// Says that what was queued up to now fills the slot.
    fn end(&self, slot: &Self::Slot) -> Result<(), CudaError>;
}

/// Threads that fill slots, one slot after another.
pub(super) struct Copier<L: Lane> {
    shared: Arc<Shared<L>>,
    threads: Vec<JoinHandle<()>>,
}

/// Says how a filling ended, once everything of it is queued.
pub(super) type Outcome = Receiver<Result<(), CudaError>>;

struct Shared<L: Lane> {
    lane: L,
    queue: Mutex<Queue<L::Slot>>,
    changed: Condvar,
}

struct Queue<S> {
    fillings: VecDeque<Filling<S>>,
    /// Steps that threads have taken.
    taken: u64,
    /// Steps whose copies are queued: the number of the step whose turn it is.
    turn: u64,
    closed: bool,
}

struct Filling<S> {
    slot: Arc<S>,
    steps: vec::IntoIter<Step>,
    begun: bool,
    fault: Arc<Mutex<Option<CudaError>>>,
    done: SyncSender<Result<(), CudaError>>,
}

/// A step that a thread has taken.
struct Taken<S> {
    number: u64,
    step: Step,
    slot: Arc<S>,
    is_first: bool,
    fault: Arc<Mutex<Option<CudaError>>>,
    /// Told after the last one.
    done: Option<SyncSender<Result<(), CudaError>>>,
}

impl<L: Lane> Copier<L> {
    /// Starts `threads` threads.
    ///
    /// Errors: [`CudaError::Driver`] when the system has no room for them.
    pub(super) fn start(lane: L, threads: usize) -> Result<Self, CudaError> {
        let queue = Queue { fillings: VecDeque::new(), taken: 0, turn: 0, closed: false };
        let shared = Arc::new(Shared { lane, queue: Mutex::new(queue), changed: Condvar::new() });
        let mut copier = Self { shared, threads: Vec::new() };
        for index in 0..threads {
            let shared = Arc::clone(&copier.shared);
            let thread = thread::Builder::new().name(format!("weights-{index}")).spawn(move || shared.serve());
            let status = |error: std::io::Error| CudaError::Driver {
                doing: "starting a thread that reads weights",
                status: error.to_string(),
            };
            copier.threads.push(thread.map_err(status)?);
        }
        Ok(copier)
    }

    /// Fills `slot` by `steps`, after all that were given before.
    pub(super) fn fill(&self, slot: Arc<L::Slot>, steps: Vec<Step>) -> Outcome {
        let (done, outcome) = sync_channel(1);
        if steps.is_empty() {
            let filled = self.shared.lane.begin(&slot).and_then(|()| self.shared.lane.end(&slot));
            done.send(filled).expect("the other end is still here");
            return outcome;
        }
        let fault = Arc::default();
        let filling = Filling { slot, steps: steps.into_iter(), begun: false, fault, done };
        self.shared.queue().fillings.push_back(filling);
        self.shared.changed.notify_all();
        outcome
    }
}

impl<L: Lane> Drop for Copier<L> {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that reads weights has panicked");
            }
        }
    }
}

impl<L: Lane> Shared<L> {
    fn queue(&self) -> MutexGuard<'_, Queue<L::Slot>> {
        // Whoever panicked while it was held has left whole numbers.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a step; none once the copier is closed and everything is taken.
    fn take(&self) -> Option<Taken<L::Slot>> {
        let mut queue = self.queue();
        loop {
            if let Some(taken) = queue.take() {
                return Some(taken);
            }
            if queue.closed {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn serve(&self) {
        let mut buffer = None;
        while let Some(mut taken) = self.take() {
            // Lets the next step pass also when this one panics.
            let mut turn = Turn { shared: self, number: taken.number, has_come: false };
            let done = taken.done.take();
            let prepared = self.prepare(&mut buffer, &taken.step);
            turn.wait();
            let queued = prepared.and_then(|bytes| self.queue_copy(&mut buffer, bytes, &taken));
            let mut fault = taken.fault.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = queued {
                fault.get_or_insert(error);
            }
            if let Some(done) = done {
                let outcome = fault.take().map_or_else(|| self.lane.end(&taken.slot), Err);
                // A slot that nobody waits for any more has gone, and its memory with it.
                let _ = done.send(outcome);
            }
        }
    }

    /// Brings a step's bytes into the buffer, and returns how many they are there; none for those that stay where they are.
    fn prepare(&self, buffer: &mut Option<L::Buffer>, step: &Step) -> Result<Option<usize>, CudaError> {
        if step.how == How::Direct {
            return Ok(None);
        }
        let buffer = match buffer {
            Some(buffer) => buffer,
            none => none.insert(self.lane.buffer()?),
        };
        let room = &mut self.lane.writable(buffer)?[..step.arriving()];
        let bytes = &step.piece.bytes()[step.range.clone()];
        match step.how {
            How::Converted(from, to) => convert(bytes, from, to, room),
            How::Direct | How::Staged => room.copy_from_slice(bytes),
        }
        Ok(Some(room.len()))
    }

    fn queue_copy(
        &self,
        buffer: &mut Option<L::Buffer>,
        bytes: Option<usize>,
        taken: &Taken<L::Slot>,
    ) -> Result<(), CudaError> {
        if taken.is_first {
            self.lane.begin(&taken.slot)?;
        }
        if taken.fault.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Ok(());
        }
        match (bytes, buffer) {
            (Some(bytes), Some(buffer)) => self.lane.copy(buffer, bytes, &taken.slot, taken.step.offset),
            _ => self.lane.copy_direct(&taken.step, &taken.slot),
        }
    }
}

impl<S> Queue<S> {
    fn take(&mut self) -> Option<Taken<S>> {
        let filling = self.fillings.front_mut()?;
        let step = filling.steps.next().expect("a filling is there as long as it has steps");
        let is_first = !std::mem::replace(&mut filling.begun, true);
        let number = self.taken;
        self.taken += 1;
        let (slot, fault) = (Arc::clone(&filling.slot), Arc::clone(&filling.fault));
        let is_last = filling.steps.len() == 0;
        let done = if is_last { self.fillings.pop_front().map(|filling| filling.done) } else { None };
        Some(Taken { number, step, slot, is_first, fault, done })
    }
}

/// A step's turn to queue its copy.
struct Turn<'a, L: Lane> {
    shared: &'a Shared<L>,
    number: u64,
    has_come: bool,
}

impl<L: Lane> Turn<'_, L> {
    fn wait(&mut self) {
        let mut queue = self.shared.queue();
        while queue.turn != self.number {
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        self.has_come = true;
    }
}

impl<L: Lane> Drop for Turn<'_, L> {
    fn drop(&mut self) {
        if !self.has_come {
            self.wait();
        }
        self.shared.queue().turn += 1;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
