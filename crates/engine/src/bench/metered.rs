//! Operations that count what they compute and move.

use std::sync::{Mutex, PoisonError};

use super::error::BenchError;
use super::machine::Machine;
use super::roofline::Roofline;
use super::work::Work;
use crate::ops::{DType, Ops, View, ViewMut};

/// A device whose operations are counted.
pub(crate) struct Metered<O> {
    pub(crate) ops: O,
    roofline: Option<Roofline>,
    work: Mutex<Work>,
}

/// Bytes of the elements that a view shows.
pub(super) fn bytes<B>(x: &View<'_, B>) -> f64 {
    (x.window().shape.elements() * x.dtype().size()) as f64
}

/// Bytes of the elements that an output takes.
pub(super) fn bytes_mut<B>(y: &ViewMut<'_, B>) -> f64 {
    (y.window().shape.elements() * y.dtype().size()) as f64
}

impl<O: Machine> Metered<O> {
    /// Counts what `ops` does, by the roofline of the device if it has one.
    pub(crate) fn new(ops: O) -> Self {
        let roofline = ops.model().and_then(Roofline::of);
        Self { ops, roofline, work: Mutex::default() }
    }

    pub(super) fn roofline(&self) -> Option<Roofline> {
        self.roofline
    }

    /// Counts what `run` does.
    pub(crate) fn counted(&self, run: &mut dyn FnMut() -> Result<(), BenchError>) -> Result<Work, BenchError> {
        *self.tally() = Work::default();
        run()?;
        Ok(*self.tally())
    }
}

impl<O: Ops> Metered<O> {
    /// Takes note of a buffer that was made.
    pub(super) fn made(&self, dtype: DType, elements: usize) {
        self.tally().made_bytes += (elements * dtype.size()) as u64;
    }

    /// Takes note of one operation.
    pub(super) fn note(&self, flops: f64, bytes: f64, dtype: DType) {
        let floor = self.roofline.map_or(0.0, |roofline| roofline.floor(flops, bytes, dtype));
        let mut work = self.tally();
        work.flops += flops;
        work.bytes += bytes;
        work.floor_seconds += floor;
    }
}

impl<O> Metered<O> {
    fn tally(&self) -> std::sync::MutexGuard<'_, Work> {
        // A panic while it was held leaves sums of whole operations.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::cpu::Cpu;

    #[test]
    fn a_product_is_counted_by_its_sizes() {
        let ops = Metered::new(Cpu::new(1 << 20));
        let make = |rows: usize, width: usize| ops.alloc(DType::Bf16, [rows, width].into()).unwrap();
        let (w, x, mut y) = (make(5, 8), make(3, 8), make(3, 5));
        let work = ops.counted(&mut || Ok(ops.linear(w.view(), None, x.view(), y.view_mut())?)).unwrap();
        assert_eq!(work.flops, 2.0 * 3.0 * 5.0 * 8.0);
        assert_eq!(work.bytes, 2.0 * (40 + 24 + 15) as f64);
        assert_eq!(work.floor_seconds, 0.0, "nobody knows how fast this processor could be");
    }

    #[test]
    fn causal_attention_is_half_of_the_scores() {
        let ops = Metered::new(Cpu::new(1 << 20));
        let heads = ops.alloc(DType::F32, [6, 2, 16].into()).unwrap();
        let mut y = ops.alloc(DType::F32, [6, 32].into()).unwrap();
        let mut count = |causal| {
            let run =
                &mut || Ok(ops.attention(heads.view(), heads.view(), heads.view(), 0.25, causal, y.view_mut())?);
            ops.counted(run).unwrap().flops
        };
        assert_eq!(count(false), 4.0 * 6.0 * 6.0 * 2.0 * 16.0);
        assert_eq!(count(true), 2.0 * 6.0 * 6.0 * 2.0 * 16.0);
    }
}
