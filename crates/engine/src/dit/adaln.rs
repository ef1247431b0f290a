//! What the AdaLN projections make of a schedule.
//!
//! They are two fifths of the weights and see nothing but timesteps: so a request's schedule goes through all of them
//! once, before its first step, and the blocks are computed without them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::request::StepTimesteps;
use crate::activations::{ActivationPlan, Planned};
use crate::checkpoint::DitConfig;
use crate::ops::{DType, OpError, Ops, Tensor};
use crate::projection::Linear;
use crate::run::{Run, RunError};
use crate::weights::WeightSource;

/// What every block makes of one timestep, `[blocks, 18 · hidden]`, as the bytes of its elements.
type TimestepRows = Arc<[u8]>;

/// A timestep beside as many others as a product has rows: another number of rows may sum in another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    rows: usize,
    timestep: u32,
}

/// Plans what one block makes of a schedule of `steps`, each of which has a timestep of its own.
pub(crate) fn products_plan(config: &DitConfig, dtype: DType, steps: usize, timesteps: usize) -> ActivationPlan {
    ActivationPlan::new(vec![Planned::new("adaln_products", dtype, [steps, timesteps, config.adaln_features()])])
}

/// Keeps what one transformer has made of timesteps for later requests, in host memory under a bound. Schedules recur:
/// most requests differ in nothing that their timesteps depend on.
#[derive(Debug)]
pub struct AdalnCache {
    most_bytes: usize,
    /// The longest unused first.
    held: Mutex<Vec<(Key, TimestepRows)>>,
}

impl AdalnCache {
    /// Keeps at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, held: Mutex::default() }
    }

    fn take(&self, key: Key) -> Option<TimestepRows> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let index = held.iter().position(|(known, _)| *known == key)?;
        let entry = held.remove(index);
        let rows = Arc::clone(&entry.1);
        held.push(entry);
        Some(rows)
    }

    fn keep(&self, key: Key, rows: &TimestepRows) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.push((key, Arc::clone(rows)));
        let mut bytes: usize = held.iter().map(|(_, rows)| rows.len()).sum();
        while bytes > self.most_bytes {
            bytes -= held.remove(0).1.len();
        }
    }
}

/// The modulation of every block in every step of a request.
pub(super) struct ScheduleModulations {
    /// The rows of each step's timesteps.
    steps: Vec<Vec<TimestepRows>>,
    blocks: usize,
    row_bytes: usize,
}

impl ScheduleModulations {
    /// Sends a schedule through the projection of every block. `activated` `[steps, timesteps, time_embed_dim]`.
    ///
    /// Each step is projected by itself, as a block would do it, so the rows are those to the last bit.
    ///
    /// Errors: [`RunError`] when an operation fails, weights cannot be had, or the run is stopped.
    pub(super) fn project<O: Ops>(
        ops: &O,
        projections: &dyn WeightSource<O, Linear<O::Buffer>>,
        width: usize,
        schedule: (&[StepTimesteps], &Tensor<O::Buffer>),
        cache: &AdalnCache,
        run: &mut Run<'_>,
    ) -> Result<Self, RunError> {
        let (steps, activated) = schedule;
        let (blocks, rows, dtype) = (projections.len(), activated.shape()[1], activated.dtype());
        let row_bytes = width * dtype.size();
        let mut known = BTreeMap::new();
        let mut missing = BTreeMap::<u32, Vec<u8>>::new();
        let mut projected = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let mut fresh = Vec::new();
            for (row, timestep) in step.unique.iter().map(|timestep| timestep.to_bits()).enumerate() {
                if known.contains_key(&timestep) || missing.contains_key(&timestep) {
                    continue;
                }
                if let Some(held) = cache.take(Key { rows, timestep }) {
                    known.insert(timestep, held);
                } else {
                    missing.insert(timestep, Vec::with_capacity(blocks * row_bytes));
                    fresh.push((row, timestep));
                }
            }
            if !fresh.is_empty() {
                projected.push((index, fresh));
            }
        }
        if !projected.is_empty() {
            let mut made = ops.alloc(dtype, [projected.len(), rows, width].into())?;
            for block in 0..blocks {
                run.check()?;
                let projection = projections.block(ops, block)?;
                for (place, (step, _)) in projected.iter().enumerate() {
                    let x = activated.view().select(0, *step);
                    projection.apply(ops, x, made.view_mut().select(0, place))?;
                }
                let bytes = ops.read_bytes(made.view())?;
                for (product, (_, fresh)) in bytes.chunks_exact(rows * row_bytes).zip(&projected) {
                    for (row, timestep) in fresh {
                        let all = missing.get_mut(timestep).expect("it was found missing above");
                        all.extend_from_slice(&product[row * row_bytes..(row + 1) * row_bytes]);
                    }
                }
                run.progress.loading();
            }
        }
        for (timestep, made) in missing {
            let made = TimestepRows::from(made);
            cache.keep(Key { rows, timestep }, &made);
            known.insert(timestep, made);
        }
        let rows_of =
            |step: &StepTimesteps| step.unique.iter().map(|timestep| Arc::clone(&known[&timestep.to_bits()])).collect();
        Ok(Self { steps: steps.iter().map(rows_of).collect(), blocks, row_bytes })
    }

    /// Uploads the modulation of `step`, `[blocks, timesteps, 18 · hidden]`.
    ///
    /// Errors: [`OpError`] when the device fails.
    pub(super) fn upload<O: Ops>(&self, ops: &O, step: usize, y: &mut Tensor<O::Buffer>) -> Result<(), OpError> {
        let rows = &self.steps[step];
        let mut bytes = Vec::with_capacity(self.blocks * rows.len() * self.row_bytes);
        for block in 0..self.blocks {
            let of_block = block * self.row_bytes..(block + 1) * self.row_bytes;
            rows.iter().for_each(|row| bytes.extend_from_slice(&row[of_block.clone()]));
        }
        ops.write_bytes(&bytes, y.view_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Command, Control, Uninterrupted};
    use crate::ops::cpu::Cpu;
    use crate::progress::Unwatched;
    use crate::run::Stop;
    use crate::tap::NoTap;
    use crate::weights::{BlockGuard, ResidentWeights, WeightError};

    const CPU: fn() -> Cpu = || Cpu::new(1 << 20);
    const BLOCKS: usize = 3;
    const WIDTH: usize = 36;
    const EMBEDDED: usize = 20;

    fn values(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|index| ((index * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    fn tensor(dtype: DType, seed: usize, shape: &[usize]) -> Tensor<<Cpu as Ops>::Buffer> {
        let mut tensor = CPU().alloc(dtype, shape.into()).unwrap();
        CPU().write(&values(seed, shape.iter().product()), tensor.view_mut()).unwrap();
        tensor
    }

    /// Projections that count how often a block of them is asked for.
    struct Counted(ResidentWeights<Linear<<Cpu as Ops>::Buffer>>, Mutex<usize>);

    impl Counted {
        fn of(dtype: DType) -> Self {
            let projection = |index| Linear {
                weight: tensor(dtype, index, &[WIDTH, EMBEDDED]),
                bias: tensor(dtype, 50 + index, &[WIDTH]),
            };
            Self(ResidentWeights::new((0..BLOCKS).map(projection).collect()), Mutex::new(0))
        }

        fn asked(&self) -> usize {
            std::mem::take(&mut *self.1.lock().unwrap())
        }
    }

    impl WeightSource<Cpu, Linear<<Cpu as Ops>::Buffer>> for Counted {
        fn len(&self) -> usize {
            BLOCKS
        }

        fn block(&self, ops: &Cpu, index: usize) -> Result<BlockGuard<'_, Linear<<Cpu as Ops>::Buffer>>, WeightError> {
            *self.1.lock().unwrap() += 1;
            self.0.block(ops, index)
        }
    }

    /// Steps of timesteps, and an embedding of each timestep that depends on it alone.
    fn schedule(dtype: DType, steps: &[&[f32]]) -> (Vec<StepTimesteps>, Tensor<<Cpu as Ops>::Buffer>) {
        let count = steps[0].len();
        let mut activated = CPU().alloc(dtype, [steps.len(), count, EMBEDDED].into()).unwrap();
        for (index, step) in steps.iter().enumerate() {
            let embedded: Vec<f32> = step.iter().flat_map(|t| values((t * 997.0) as usize, EMBEDDED)).collect();
            CPU().write(&embedded, activated.view_mut().select(0, index)).unwrap();
        }
        let step = |unique: &&[f32]| StepTimesteps {
            unique: unique.to_vec(),
            distinct: count,
            timestep_rows: vec![0],
            modulation_rows: vec![0],
        };
        (steps.iter().map(step).collect(), activated)
    }

    fn project(
        projections: &Counted,
        (steps, activated): &(Vec<StepTimesteps>, Tensor<<Cpu as Ops>::Buffer>),
        cache: &AdalnCache,
        control: &dyn Control,
    ) -> Result<ScheduleModulations, RunError> {
        let mut run = Run { control, progress: &Unwatched, tap: &mut NoTap };
        ScheduleModulations::project(&CPU(), projections, WIDTH, (steps, activated), cache, &mut run)
    }

    const STEPS: [&[f32]; 4] = [&[0.0, 0.25, 0.5], &[0.0, 0.3, 0.999], &[0.3, 0.5, 0.999], &[0.7, 0.8, 0.9]];

    #[test]
    fn a_table_holds_the_bits_that_a_block_would_compute_itself() {
        for dtype in [DType::F32, DType::Bf16] {
            let (ops, projections, schedule) = (CPU(), Counted::of(dtype), schedule(dtype, &STEPS));
            let table = project(&projections, &schedule, &AdalnCache::new(usize::MAX), &Uninterrupted).unwrap();
            let mut uploaded = ops.alloc(dtype, [BLOCKS, 3, WIDTH].into()).unwrap();
            let mut inline = ops.alloc(dtype, [3, WIDTH].into()).unwrap();
            for step in 0..STEPS.len() {
                table.upload(&ops, step, &mut uploaded).unwrap();
                for block in 0..BLOCKS {
                    let projection = projections.0.block(&ops, block).unwrap();
                    projection.apply(&ops, schedule.1.view().select(0, step), inline.view_mut()).unwrap();
                    let table = ops.read_bytes(uploaded.view().select(0, block)).unwrap();
                    assert_eq!(table, ops.read_bytes(inline.view()).unwrap(), "{dtype} step {step} block {block}");
                }
            }
        }
    }

    #[test]
    fn a_schedule_that_was_seen_asks_for_no_projection_and_a_longer_one_for_each_once() {
        let (projections, cache) = (Counted::of(DType::F32), AdalnCache::new(usize::MAX));
        let first = project(&projections, &schedule(DType::F32, &STEPS[..3]), &cache, &Uninterrupted).unwrap();
        assert_eq!(projections.asked(), BLOCKS);
        let again = project(&projections, &schedule(DType::F32, &STEPS[..3]), &cache, &Uninterrupted).unwrap();
        assert_eq!(projections.asked(), 0);
        assert_eq!(first.steps, again.steps);
        project(&projections, &schedule(DType::F32, &STEPS), &cache, &Uninterrupted).unwrap();
        assert_eq!(projections.asked(), BLOCKS);
        let fewer_rows: [&[f32]; 1] = [&[0.0, 0.25]];
        project(&projections, &schedule(DType::F32, &fewer_rows), &cache, &Uninterrupted).unwrap();
        assert_eq!(projections.asked(), BLOCKS, "rows of another product are not the same");
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_longest_unused_goes_first() {
        let timestep = BLOCKS * WIDTH * 4;
        let (projections, cache) = (Counted::of(DType::F32), AdalnCache::new(3 * timestep));
        let one = |t: &'static [f32]| schedule(DType::F32, &[t]);
        project(&projections, &one(&[0.1, 0.2]), &cache, &Uninterrupted).unwrap();
        project(&projections, &one(&[0.1, 0.3]), &cache, &Uninterrupted).unwrap();
        project(&projections, &one(&[0.1, 0.4]), &cache, &Uninterrupted).unwrap();
        let kept =
            |cache: &AdalnCache| cache.held.lock().unwrap().iter().map(|(key, _)| key.timestep).collect::<Vec<_>>();
        assert_eq!(kept(&cache), [0.3f32, 0.1, 0.4].map(f32::to_bits));
        let none = AdalnCache::new(timestep - 1);
        let table = project(&projections, &one(&[0.1, 0.2]), &none, &Uninterrupted).unwrap();
        assert_eq!((table.steps[0].len(), kept(&none).len()), (2, 0), "a request holds what it needs itself");
    }

    #[test]
    fn a_cancel_stops_between_two_blocks() {
        struct Cancelled;
        impl Control for Cancelled {
            fn command(&self) -> Command {
                Command::Cancel
            }
        }
        let (projections, cache) = (Counted::of(DType::F32), AdalnCache::new(usize::MAX));
        let stopped = project(&projections, &schedule(DType::F32, &STEPS), &cache, &Cancelled).err().unwrap();
        assert!(matches!(stopped, RunError::Stopped(Stop::Cancelled)), "{stopped}");
        assert_eq!((projections.asked(), cache.held.lock().unwrap().len()), (0, 0));
    }
}
