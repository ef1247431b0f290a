//! A stack whose blocks come to the device one at a time.

use std::ops::Deref;

use super::{BlockGuard, WeightError, WeightSource};
use crate::load::LoadError;
use crate::ops::Ops;

type Load<O, W> = Box<dyn Fn(&O, usize) -> Result<W, LoadError> + Send + Sync>;

/// The leading blocks stay on the device, each other one is brought there when it is asked for and leaves with its guard.
///
/// Nothing is brought ahead: a block waits for its copy.
pub struct LayerwiseWeights<O, W> {
    resident: Vec<W>,
    len: usize,
    load: Load<O, W>,
}

impl<O: Ops, W> LayerwiseWeights<O, W> {
    /// Holds the leading blocks of `len`; `load` brings any of the others.
    pub fn new(
        resident: Vec<W>,
        len: usize,
        load: impl Fn(&O, usize) -> Result<W, LoadError> + Send + Sync + 'static,
    ) -> Self {
        Self { resident, len, load: Box::new(load) }
    }
}

impl<O: Ops, W: Send + Sync + 'static> WeightSource<O, W> for LayerwiseWeights<O, W> {
    fn len(&self) -> usize {
        self.len
    }

    fn block(&self, ops: &O, index: usize) -> Result<BlockGuard<'_, W>, WeightError> {
        if index >= self.len {
            return Err(WeightError::beyond(index, self.len));
        }
        if let Some(weights) = self.resident.get(index) {
            return Ok(Box::new(weights));
        }
        let weights = (self.load)(ops, index).map_err(|source| WeightError { index, source: Box::new(source) })?;
        Ok(Box::new(Brought(weights)))
    }
}

/// Weights that leave with their guard.
struct Brought<W>(W);

impl<W> Deref for Brought<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ops::cpu::Cpu;
    use crate::run::Stop;

    /// A block that counts how many of its kind there are.
    struct Counted(usize, Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn residents_stay_and_the_others_leave_with_their_guards() {
        let (ops, held) = (Cpu::new(1), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&held);
        let load = move |_: &Cpu, index| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, LoadError>(Counted(index, Arc::clone(&count)))
        };
        let resident = (0..2).map(|index| load(&ops, index).unwrap()).collect();
        let source = LayerwiseWeights::new(resident, 5, load);
        for round in 0..2 {
            for index in 0..5 {
                let weights = source.block(&ops, index).unwrap();
                assert_eq!(weights.0, index, "round {round}");
                assert_eq!(held.load(Ordering::Relaxed), if index < 2 { 2 } else { 3 });
            }
        }
        assert_eq!(held.load(Ordering::Relaxed), 2);
        assert!(source.block(&ops, 5).is_err());
    }

    #[test]
    fn a_block_that_cannot_be_brought_is_named_with_the_reason() {
        let load = |_: &Cpu, index| if index == 1 { Err(LoadError::Stopped(Stop::Cancelled)) } else { Ok(index) };
        let source = LayerwiseWeights::new(Vec::new(), 2, load);
        let error = source.block(&Cpu::new(1), 1).err().unwrap();
        assert_eq!(error.index, 1);
        assert!(error.source.to_string().contains("stopped"), "{}", error.source);
    }
}
