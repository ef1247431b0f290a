//! The order of fillings and lendings, by slots that check it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::checkpoint::tests::tiny_dit;
use crate::checkpoint::{Component, Layout};
use crate::ops::Tensor;
use crate::ops::cpu::{Cpu, HostBuffer};
use crate::run::Stop;

const BLOCKS: usize = 5;

/// A block: its number, and a weight of it.
struct Block {
    index: usize,
    norm: Tensor<HostBuffer>,
}

/// Loads blocks of a drawn transformer and counts how often.
fn loads(
    count: &Arc<AtomicUsize>,
) -> impl Fn(&dyn WeightLoader<HostBuffer>, usize) -> Result<Block, LoadError> + use<> {
    let component = Component::drawn(&tiny_dit(BLOCKS), Layout::Diffusers, 3, |_| true).unwrap();
    let count = Arc::clone(count);
    move |to, index| {
        count.fetch_add(1, Ordering::Relaxed);
        let norm = to.weight(&component.get(&format!("blocks.{index}.norm1.weight"))?)?;
        Ok(Block { index, norm })
    }
}

fn source(resident: usize, masters: Masters) -> (StreamedWeights<Cpu, Block>, Arc<AtomicUsize>) {
    let count = Arc::default();
    (StreamedWeights::new(BLOCKS, resident, masters, loads(&count)), count)
}

/// Goes through the stack once and reads every block's weight while it is lent.
fn round(source: &StreamedWeights<Cpu, Block>, ops: &Cpu) {
    for index in 0..BLOCKS {
        let block = source.block(ops, index).unwrap();
        assert_eq!(block.index, index);
        assert!(ops.read(block.norm.view()).unwrap().iter().all(|value| value.is_finite()));
    }
}

#[test]
fn every_block_is_brought_once_a_round_and_residents_once_in_all() {
    let ops = Cpu::new(1);
    for resident in 0..=BLOCKS + 1 {
        let (source, loaded) = source(resident, Masters::Recurring);
        let streamed = BLOCKS.saturating_sub(resident);
        for rounds in 1..=3 {
            round(&source, &ops);
            // As many as there are slots stay where they are; of more, the first is there already for the round that
            // follows.
            let brought = if streamed <= SLOTS { streamed } else { rounds * streamed + 1 };
            assert_eq!(loaded.load(Ordering::Relaxed), resident.min(BLOCKS) + brought, "{resident} in {rounds}");
        }
        assert_eq!(source.held().places.len(), streamed.min(SLOTS));
    }
}

#[test]
fn a_stack_that_passes_once_brings_nothing_beyond_its_end_and_gives_its_slots_up() {
    let (ops, (source, loaded)) = (Cpu::new(1), source(0, Masters::Passing));
    round(&source, &ops);
    assert_eq!(loaded.load(Ordering::Relaxed), BLOCKS);
    source.rest();
    assert!(source.held().places.is_empty());
    round(&source, &ops);
}

#[test]
fn blocks_out_of_order_are_brought_when_they_are_asked_for() {
    let (ops, (source, _)) = (Cpu::new(1), source(1, Masters::Recurring));
    for index in [4, 2, 2, 0, 3, 1, 4] {
        let block = source.block(&ops, index).unwrap();
        assert_eq!(block.index, index);
        ops.read(block.norm.view()).unwrap();
    }
}

#[test]
fn a_lent_block_is_never_overwritten() {
    let (ops, (source, _)) = (Cpu::new(1), source(0, Masters::Recurring));
    let first = source.block(&ops, 0).unwrap();
    let second = source.block(&ops, 1).unwrap();
    let error = source.block(&ops, 2).err().unwrap();
    assert!(error.source.to_string().contains("lent"), "{}", error.source);
    ops.read(first.norm.view()).unwrap();
    ops.read(second.norm.view()).unwrap();
    drop((first, second));
    assert_eq!(source.block(&ops, 2).unwrap().index, 2);
}

#[test]
#[should_panic(expected = "their slot does not hold them")]
fn reading_a_block_after_it_was_given_back_shows() {
    let (ops, count) = (Cpu::new(1), Arc::default());
    let slot = ops.slot(Masters::Recurring).unwrap();
    let loader = SlotLoader::new(&slot);
    let block = loads(&count)(&loader, 0).unwrap();
    loader.fill().unwrap();
    slot.acquire().unwrap();
    slot.release();
    let _ = ops.read(block.norm.view());
}

#[test]
fn a_block_that_cannot_be_brought_is_named_with_the_reason_and_can_be_asked_for_again() {
    let broken = Arc::new(AtomicUsize::new(1));
    let (count, seen) = (Arc::default(), Arc::clone(&broken));
    let load = loads(&count);
    let source = StreamedWeights::new(BLOCKS, 0, Masters::Recurring, move |to: &dyn WeightLoader<_>, index| {
        if index == 1 && seen.fetch_sub(1, Ordering::Relaxed) == 1 {
            return Err(LoadError::Stopped(Stop::Cancelled));
        }
        load(to, index)
    });
    let ops = Cpu::new(1);
    let error = source.block(&ops, 0).err().unwrap();
    assert_eq!(error.index, 1);
    assert!(error.source.to_string().contains("stopped"), "{}", error.source);
    broken.store(9, Ordering::Relaxed);
    round(&source, &ops);
    assert!(source.block(&ops, BLOCKS).is_err());
}
