//! Slots of a GPU.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::available_parallelism;

use cudarc::driver::CudaEvent;

use super::copier::{Copier, Outcome};
use super::lane::{CHUNK_BYTES, CopyStream};
use super::masters::HostMasters;
use super::steps::steps_of;
use crate::ops::cuda::Cuda;
use crate::ops::cuda::buffer::{Content, CudaBuffer, Memory};
use crate::ops::cuda::context::Context;
use crate::ops::cuda::error::CudaError;
use crate::ops::cuda::memory::DeviceMemory;
use crate::ops::{Masters, OpError, Passage, Slot, Tensor};

const OP: &str = "stream_weights";

/// The most threads that read weights: eight keep a bus of any speed busy.
const MOST_THREADS: usize = 8;

/// What streaming needs of a GPU beside its one stream, made when the first slot is.
pub(in super::super) struct Streams {
    masters_budget: usize,
    made: Mutex<Option<Arc<Feed>>>,
}

/// The threads that fill slots, and where they find weights.
struct Feed {
    copier: Copier<CopyStream>,
    masters: HostMasters,
}

impl Streams {
    /// Makes nothing yet; keeps at most `masters_budget` bytes of weights in memory later.
    pub(in super::super) fn new(masters_budget: usize) -> Self {
        Self { masters_budget, made: Mutex::default() }
    }

    fn feed(&self, context: &Arc<Context>) -> Result<Arc<Feed>, CudaError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = &*made {
            return Ok(Arc::clone(feed));
        }
        let threads = available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, MOST_THREADS));
        let copier = Copier::start(CopyStream::new(context)?, threads)?;
        let feed = Arc::new(Feed { copier, masters: HostMasters::new(context, self.masters_budget) });
        Ok(Arc::clone(made.insert(feed)))
    }
}

/// The memory of a slot, and the events that keep copies and operations apart.
#[derive(Debug)]
pub(in super::super) struct SlotMemory {
    context: Arc<Context>,
    memory: OnceLock<DeviceMemory>,
    /// Behind the last copy that fills it.
    ready: CudaEvent,
    /// Behind the last operation that reads it.
    free: CudaEvent,
}

impl SlotMemory {
    /// Panics: When it was never filled, of which no tensor comes.
    pub(in super::super) fn device(&self) -> &DeviceMemory {
        self.memory.get().expect("a slot is filled before its tensors are used")
    }

    pub(in super::super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn ready(&self) -> &CudaEvent {
        &self.ready
    }

    pub(super) fn free(&self) -> &CudaEvent {
        &self.free
    }

    /// Marks what was queued up to now as the last that uses it.
    fn leave(&self) -> Result<(), CudaError> {
        self.free.record(self.context.queue()).map_err(CudaError::driver("marking a slot"))
    }
}

/// A slot of a GPU.
pub struct CudaSlot {
    feed: Arc<Feed>,
    masters: Masters,
    memory: Arc<SlotMemory>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A filling that nobody has waited for yet.
    filling: Option<Outcome>,
    /// Why nothing can be told of the slot any more.
    fault: Option<CudaError>,
}

impl Cuda {
    pub(in super::super) fn slot_of(&self, masters: Masters) -> Result<CudaSlot, OpError> {
        let make = || {
            let context = Arc::clone(&self.context);
            let feed = self.streams.feed(&context)?;
            let (ready, free) = (context.new_event()?, context.new_event()?);
            let memory = Arc::new(SlotMemory { context, memory: OnceLock::new(), ready, free });
            Ok(CudaSlot { feed, masters, memory, state: Mutex::default() })
        };
        make().map_err(CudaError::of(OP))
    }
}

impl CudaSlot {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that there is room for `bytes`.
    fn make_room(&self, bytes: usize) -> Result<(), CudaError> {
        if self.memory.memory.get().is_none() {
            let memory = DeviceMemory::new(&self.memory.context, bytes)?;
            self.memory.memory.set(memory).expect("a slot has one user");
            // It is there once the stream that computes has come to it.
            self.memory.leave()?;
        }
        let room = self.memory.device().len();
        if bytes <= room {
            return Ok(());
        }
        let status = format!("a block of {bytes} bytes is larger than the {room} of the stack's first");
        Err(CudaError::Driver { doing: "filling a slot", status })
    }

    /// Waits until everything of a filling is queued.
    fn queued(state: &mut State) -> Result<(), CudaError> {
        if let Some(fault) = state.fault.take() {
            return Err(fault);
        }
        let Some(outcome) = state.filling.take() else { return Ok(()) };
        outcome.recv().unwrap_or_else(|_| {
            let status = "the thread that reads them has ended".to_owned();
            Err(CudaError::Driver { doing: "reading weights", status })
        })
    }
}

impl Slot<CudaBuffer> for CudaSlot {
    fn tensor(&self, passage: &Passage) -> Tensor<CudaBuffer> {
        let memory = Memory::Slot(Arc::clone(&self.memory), passage.offset);
        Tensor::from_buffer(CudaBuffer { memory, content: Content::Weight }, passage.dtype, passage.shape)
    }

    fn fill(&self, passages: Vec<Passage>, bytes: usize) -> Result<(), OpError> {
        let mut state = self.state();
        Self::queued(&mut state).and_then(|()| self.make_room(bytes)).map_err(CudaError::of(OP))?;
        let masters = &self.feed.masters;
        let steps = steps_of(&passages, CHUNK_BYTES, |piece| match self.masters {
            Masters::Recurring => masters.direct(piece),
            Masters::Passing => None,
        });
        state.filling = Some(self.feed.copier.fill(Arc::clone(&self.memory), steps));
        Ok(())
    }

    fn acquire(&self) -> Result<(), OpError> {
        let wait = || {
            Self::queued(&mut self.state())?;
            let waits = self.memory.context.queue().wait(&self.memory.ready);
            waits.map_err(CudaError::driver("waiting for a slot"))
        };
        wait().map_err(CudaError::of(OP))
    }

    fn release(&self) {
        if let Err(error) = self.memory.leave() {
            self.state().fault.get_or_insert(error);
        }
    }
}

impl Drop for CudaSlot {
    fn drop(&mut self) {
        // No copy is queued to memory that goes.
        let mut state = self.state();
        let settled = Self::queued(&mut state)
            .and_then(|()| self.memory.ready.synchronize().map_err(CudaError::driver("waiting for a slot")));
        if let Err(error) = settled {
            tracing::debug!(%error, "a slot was given up with a fault");
        }
    }
}
