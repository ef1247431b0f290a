//! The copier over memory of the host instead of a GPU's.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::checkpoint::StoredDtype;
use crate::checkpoint::tests::tiny_dit_tensors;
use crate::ops::cuda::stream::steps::steps_of;
use crate::ops::{DType, Passage};

const CHUNK: usize = 96;

/// A slot of the host, and how often it was begun and ended.
#[derive(Default)]
struct Room {
    bytes: Mutex<Vec<u8>>,
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// Copies at once; fails at the copy of this number, if there is one.
struct Host {
    copies: AtomicUsize,
    fails_at: usize,
}

impl Host {
    fn put(&self, bytes: &[u8], room: &Room, offset: usize) -> Result<(), CudaError> {
        assert_eq!(
            room.begun.load(Ordering::SeqCst),
            room.ended.load(Ordering::SeqCst) + 1,
            "a copy outside a filling"
        );
        if self.copies.fetch_add(1, Ordering::SeqCst) == self.fails_at {
            return Err(CudaError::Driver { doing: "copying", status: "as told".to_owned() });
        }
        let mut held = room.bytes.lock().unwrap();
        let end = offset + bytes.len();
        if held.len() < end {
            held.resize(end, 0);
        }
        held[offset..end].copy_from_slice(bytes);
        Ok(())
    }
}

impl Lane for Host {
    type Slot = Room;
    type Buffer = Vec<u8>;

    fn buffer(&self) -> Result<Vec<u8>, CudaError> {
        Ok(vec![0; CHUNK])
    }

    fn writable<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b mut [u8], CudaError> {
        Ok(buffer)
    }

    fn begin(&self, room: &Room) -> Result<(), CudaError> {
        room.begun.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn copy(&self, buffer: &mut Vec<u8>, bytes: usize, room: &Room, offset: usize) -> Result<(), CudaError> {
        self.put(&buffer[..bytes], room, offset)
    }

    fn copy_direct(&self, step: &Step, room: &Room) -> Result<(), CudaError> {
        self.put(&step.piece.bytes()[step.range.clone()], room, step.offset)
    }

    fn end(&self, room: &Room) -> Result<(), CudaError> {
        room.ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn copier(threads: usize, fails_at: usize) -> Copier<Host> {
    Copier::start(Host { copies: AtomicUsize::new(0), fails_at }, threads).unwrap()
}

/// The tensors of a tiny transformer one after another, and the bytes that they are.
fn block() -> (Vec<Passage>, Vec<u8>) {
    let (mut passages, mut bytes) = (Vec::new(), Vec::new());
    for stored in tiny_dit_tensors() {
        passages.push(Passage::new(&stored, None, bytes.len()).unwrap());
        stored.pieces.iter().for_each(|piece| bytes.extend_from_slice(piece.bytes()));
    }
    (passages, bytes)
}

#[test]
fn many_threads_fill_slots_one_after_another_with_every_byte() {
    let (passages, expected) = block();
    let middle = |bytes: usize| (bytes > 4 * CHUNK).then_some(64..bytes - 64);
    for threads in [1, 3, 8] {
        let copier = copier(threads, usize::MAX);
        let rooms: Vec<Arc<Room>> = (0..2).map(|_| Arc::default()).collect();
        for round in 0..6 {
            let room = &rooms[round % 2];
            let steps = steps_of(&passages, CHUNK, |piece| middle(piece.bytes().len()));
            room.bytes.lock().unwrap().clear();
            copier.fill(Arc::clone(room), steps).recv().unwrap().unwrap();
            assert!(*room.bytes.lock().unwrap() == expected, "{threads} threads, round {round}");
            assert_eq!(room.ended.load(Ordering::SeqCst), round / 2 + 1);
        }
    }
}

#[test]
fn fillings_that_were_not_waited_for_do_not_mix() {
    let (passages, expected) = block();
    let copier = copier(4, usize::MAX);
    let rooms: Vec<Arc<Room>> = (0..8).map(|_| Arc::default()).collect();
    let outcomes: Vec<_> =
        rooms.iter().map(|room| copier.fill(Arc::clone(room), steps_of(&passages, CHUNK, |_| None))).collect();
    outcomes.into_iter().for_each(|outcome| outcome.recv().unwrap().unwrap());
    assert!(rooms.iter().all(|room| *room.bytes.lock().unwrap() == expected));
}

#[test]
fn a_copy_that_fails_fails_its_filling_alone() {
    let (passages, expected) = block();
    let copier = copier(3, 5);
    let [bad, good]: [Arc<Room>; 2] = std::array::from_fn(|_| Arc::default());
    let fill = |room: &Arc<Room>| copier.fill(Arc::clone(room), steps_of(&passages, CHUNK, |_| None));
    let (first, second) = (fill(&bad), fill(&good));
    assert!(first.recv().unwrap().unwrap_err().to_string().contains("as told"));
    second.recv().unwrap().unwrap();
    assert!(*good.bytes.lock().unwrap() == expected);
    assert_eq!(bad.ended.load(Ordering::SeqCst), 0);
}

#[test]
fn a_copier_that_goes_ends_its_threads_after_what_was_given() {
    let (passages, expected) = block();
    let room: Arc<Room> = Arc::default();
    let copier = copier(2, usize::MAX);
    let outcome = copier.fill(Arc::clone(&room), steps_of(&passages, CHUNK, |_| None));
    drop(copier);
    outcome.recv().unwrap().unwrap();
    assert!(*room.bytes.lock().unwrap() == expected);
    assert_eq!(Arc::strong_count(&room), 1);
}

#[test]
fn what_is_converted_on_the_way_is_what_the_values_are_in_the_other_type() {
    let stored = tiny_dit_tensors().into_iter().find(|stored| stored.dtype == StoredDtype::BF16).unwrap();
    let passage = Passage::new(&stored, Some(DType::F32), 0).unwrap();
    let (copier, room) = (copier(2, usize::MAX), Arc::<Room>::default());
    copier.fill(Arc::clone(&room), steps_of(&[passage], CHUNK, |_| Some(0..8))).recv().unwrap().unwrap();
    let values: Vec<u8> = stored.to_f32().unwrap().iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(*room.bytes.lock().unwrap() == values);
}
