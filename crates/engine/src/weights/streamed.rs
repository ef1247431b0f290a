//! A stack whose blocks come to the device one after another, each while the one before it is computed with.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::loader::{SlotLoader, WeightLoader};
use super::{BlockGuard, WeightError, WeightSource};
use crate::load::LoadError;
use crate::ops::{Masters, Ops, Slot};

/// How many blocks a stack has on the device beside those that stay: one that is computed with, and one that comes.
pub(crate) const SLOTS: usize = 2;

/// Brings a block, or lays it out in a slot.
pub(super) type Load<B, W> = Box<dyn Fn(&dyn WeightLoader<B>, usize) -> Result<W, LoadError> + Send + Sync>;

/// The leading blocks stay on the device from the first that is asked for; the others go through two slots.
///
/// Asking for a block also begins to bring the next one, if its slot is not lent. After the last block of a stack that
/// recurs comes the first one that streams, so that the next round finds it there.
pub(crate) struct StreamedWeights<O: Ops, W> {
    len: usize,
    resident: usize,
    masters: Masters,
    load: Load<O::Buffer, W>,
    held: Mutex<Held<O::Slot, W>>,
}

/// What is on the device.
struct Held<S, W> {
    resident: Vec<Arc<W>>,
    places: Vec<Place<S, W>>,
}

/// A slot, and the block that it holds or is being filled with.
struct Place<S, W> {
    slot: S,
    block: Option<(usize, Arc<W>)>,
    is_lent: bool,
}

impl<O: Ops, W> StreamedWeights<O, W> {
    /// Makes a stack of `len` blocks, of which the leading `resident` stay; `load` brings any of them. Nothing is brought
    /// before it is asked for.
    pub(crate) fn new(
        len: usize,
        resident: usize,
        masters: Masters,
        load: impl Fn(&dyn WeightLoader<O::Buffer>, usize) -> Result<W, LoadError> + Send + Sync + 'static,
    ) -> Self {
        let held = Mutex::new(Held { resident: Vec::new(), places: Vec::new() });
        Self { len, resident: resident.min(len), masters, load: Box::new(load), held }
    }

    fn held(&self) -> MutexGuard<'_, Held<O::Slot, W>> {
        // Whoever panicked while it was held has left whole places.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block that is brought while `index` is computed with; none after the last one of a stack that does not recur.
    fn after(&self, index: usize) -> Option<usize> {
        let next = (index + 1).max(self.resident);
        match self.masters {
            _ if next < self.len => Some(next),
            Masters::Recurring if self.resident < self.len => Some(self.resident),
            Masters::Recurring | Masters::Passing => None,
        }
    }

    fn bring_residents(&self, ops: &O, held: &mut Held<O::Slot, W>) -> Result<(), WeightError> {
        while held.resident.len() < self.resident {
            let index = held.resident.len();
            let weights = (self.load)(ops, index).map_err(failed(index))?;
            held.resident.push(Arc::new(weights));
        }
        Ok(())
    }

    /// Begins to fill a slot with block `index`, and returns which.
    fn fill(&self, ops: &O, held: &mut Held<O::Slot, W>, index: usize) -> Result<usize, WeightError> {
        let free = held.places.iter().position(|place| !place.is_lent && place.block.is_none());
        let number = match free.or_else(|| held.places.iter().position(|place| !place.is_lent)) {
            Some(number) if free.is_some() || held.places.len() == SLOTS => number,
            _ if held.places.len() < SLOTS => {
                let slot = ops.slot(self.masters).map_err(failed(index))?;
                held.places.push(Place { slot, block: None, is_lent: false });
                held.places.len() - 1
            }
            _ => return Err(failed(index)("all slots are lent")),
        };
        let place = &mut held.places[number];
        place.block = None;
        let loader = SlotLoader::new(&place.slot);
        let weights = (self.load)(&loader, index).map_err(failed(index))?;
        loader.fill().map_err(failed(index))?;
        place.block = Some((index, Arc::new(weights)));
        Ok(number)
    }
}

impl<S, W> Held<S, W> {
    fn place_of(&self, index: usize) -> Option<usize> {
        self.places.iter().position(|place| place.block.as_ref().is_some_and(|(block, _)| *block == index))
    }

    /// Tells whether a slot could be filled.
    fn has_room(&self) -> bool {
        self.places.len() < SLOTS || self.places.iter().any(|place| !place.is_lent)
    }
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(index: usize) -> impl Fn(E) -> WeightError {
    move |source| WeightError { index, source: source.into() }
}

impl<O: Ops + 'static, W: Send + Sync + 'static> WeightSource<O, W> for StreamedWeights<O, W> {
    fn len(&self) -> usize {
        self.len
    }

    fn block(&self, ops: &O, index: usize) -> Result<BlockGuard<'_, W>, WeightError> {
        if index >= self.len {
            return Err(WeightError::beyond(index, self.len));
        }
        let mut held = self.held();
        self.bring_residents(ops, &mut held)?;
        let guard = match held.resident.get(index) {
            Some(weights) => StreamedGuard { source: self, weights: Arc::clone(weights), place: None },
            None => {
                let number = match held.place_of(index) {
                    Some(number) => number,
                    None => self.fill(ops, &mut held, index)?,
                };
                let place = &mut held.places[number];
                if let Err(error) = place.slot.acquire() {
                    place.block = None;
                    return Err(failed(index)(error));
                }
                let (_, weights) = place.block.as_ref().expect("it holds the block or is being filled with it");
                let weights = Arc::clone(weights);
                place.is_lent = true;
                StreamedGuard { source: self, weights, place: Some(number) }
            }
        };
        if let Some(next) = self.after(index).filter(|next| held.place_of(*next).is_none() && held.has_room()) {
            // Before the guard, whose end asks for what is held.
            let filled = self.fill(ops, &mut held, next);
            drop(held);
            filled?;
        }
        Ok(Box::new(guard))
    }

    fn rest(&self) {
        let mut held = self.held();
        held.places.retain(|place| place.is_lent);
        held.resident.clear();
    }
}

/// Weights that stay where they are until it ends.
struct StreamedGuard<'a, O: Ops, W> {
    source: &'a StreamedWeights<O, W>,
    weights: Arc<W>,
    place: Option<usize>,
}

impl<O: Ops, W> Deref for StreamedGuard<'_, O, W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.weights
    }
}

impl<O: Ops, W> Drop for StreamedGuard<'_, O, W> {
    fn drop(&mut self) {
        if let Some(number) = self.place {
            let mut held = self.source.held();
            let place = &mut held.places[number];
            place.slot.release();
            place.is_lent = false;
        }
    }
}

#[cfg(test)]
mod tests;
