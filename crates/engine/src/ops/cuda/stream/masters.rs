//! Which weights the GPU copies from the checkpoint's own pages.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::pinned::Registered;
use crate::checkpoint::RawTensor;
use crate::ops::cuda::context::Context;

/// Below this, a registration costs more than it saves.
const LEAST_BYTES: usize = 1 << 20;

/// What pages begin at multiples of, at the most: larger ones are multiples of it.
const PAGE_BYTES: usize = 4096;

/// Pages that are kept in memory for the GPU, up to a budget.
///
/// Only whole pages inside a tensor are, so that no page is registered twice; its ragged ends are copied.
pub(super) struct HostMasters {
    context: Arc<Context>,
    budget: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Dropped before the tensors that keep the pages mapped.
    pages: HashMap<usize, Option<(Registered, RawTensor)>>,
    bytes: usize,
    has_told: bool,
}

impl HostMasters {
    /// Keeps at most `budget` bytes.
    pub(super) fn new(context: &Arc<Context>, budget: usize) -> Self {
        Self { context: Arc::clone(context), budget, held: Mutex::default() }
    }

    /// Returns which bytes of `piece` the GPU can copy as they lie, and keeps them in memory from now on if they are not
    /// yet; none for a tensor that is small, beyond the budget, or in memory that the driver refuses.
    pub(super) fn direct(&self, piece: &RawTensor) -> Option<Range<usize>> {
        let bytes = piece.bytes();
        let range = whole_pages(bytes.as_ptr() as usize, bytes.len());
        if range.len() < LEAST_BYTES {
            return None;
        }
        let pages = &bytes[range.clone()];
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Held { pages: known, bytes: taken, has_told } = &mut *held;
        let kept = known.entry(pages.as_ptr() as usize).or_insert_with(|| {
            let room = self.budget.saturating_sub(*taken);
            if pages.len() > room {
                tell(has_told, format_args!("the host's budget of {} bytes is used up", self.budget));
                return None;
            }
            // SAFETY: the tensor beside it keeps the pages mapped, and is dropped after it.
            match unsafe { Registered::new(&self.context, pages) } {
                Ok(registered) => {
                    *taken += pages.len();
                    Some((registered, piece.clone()))
                }
                Err(error) => {
                    tell(has_told, format_args!("{error}"));
                    None
                }
            }
        });
        // A tensor of the same beginning may be shorter.
        kept.as_ref().filter(|(registered, _)| registered.bytes() >= pages.len()).map(|_| range)
    }
}

/// Says once why weights are copied on the host first.
fn tell(has_told: &mut bool, why: std::fmt::Arguments<'_>) {
    if !std::mem::replace(has_told, true) {
        tracing::info!("some weights that stream are copied through buffers: {why}");
    }
}

/// Returns the whole pages of `bytes` bytes at `address`, as a range of them.
fn whole_pages(address: usize, bytes: usize) -> Range<usize> {
    let start = address.next_multiple_of(PAGE_BYTES) - address;
    let end = (address + bytes) / PAGE_BYTES * PAGE_BYTES;
    if end > address + start { start..end - address } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_a_tensor_shares_with_its_neighbours_are_left_out() {
        assert_eq!(whole_pages(8192, 4096), 0..4096);
        assert_eq!(whole_pages(8193, 4096), 0..0);
        assert_eq!(whole_pages(8193, 8192), 4095..8191);
        assert_eq!(whole_pages(4000, 10_000), 96..8288);
        assert_eq!(whole_pages(4000, 10), 0..0);
    }
}
