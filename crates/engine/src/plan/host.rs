//! What a plan takes of the host.

use serde::Serialize;

use super::parts::Part;
use crate::weights::SLOTS;

/// One line of the host's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostHolding {
    /// What it is.
    pub name: &'static str,
    /// Blocks in memory, pinned.
    pub in_memory: usize,
    /// Blocks that are read from their file each time they are needed.
    pub from_file: usize,
    /// Bytes in memory, of all of them.
    pub bytes: u64,
}

/// The host's side of a plan: pinned and private memory. Pages that the system caches of files by itself are not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostPlan {
    /// Everything that it holds.
    pub holdings: Vec<HostHolding>,
}

impl HostPlan {
    /// Returns the memory in all.
    pub fn bytes(&self) -> u64 {
        self.holdings.iter().map(|holding| holding.bytes).sum()
    }

    /// Returns the share of a part's blocks that are read from their file.
    pub(super) fn share_from_file(&self, name: &str) -> f64 {
        let named = self.holdings.iter().find(|holding| holding.name == name);
        named.map_or(0.0, |holding| holding.from_file as f64 / (holding.in_memory + holding.from_file).max(1) as f64)
    }
}

/// Weights that the host would like to keep: the name, the blocks, and what one takes.
pub(super) type Wish = (&'static str, Part, u64);

/// Keeps as much of `wishes`, the first ones first, as the budget holds beside what is `needed` anyway, and reads the rest from
/// files through a bounded number of pinned buffers.
///
/// Errors: The least memory that would do, when the budget is less.
pub(super) fn host_plan(budget: Option<u64>, needed: &[(&'static str, u64)], wishes: &[Wish]) -> Result<HostPlan, u64> {
    let keep = |room: u64, staging: u64| {
        let mut holdings: Vec<HostHolding> =
            needed.iter().map(|&(name, bytes)| HostHolding { name, in_memory: 1, from_file: 0, bytes }).collect();
        if staging > 0 {
            holdings.push(HostHolding { name: "reading buffers", in_memory: SLOTS, from_file: 0, bytes: staging });
        }
        let mut left = room;
        for &(name, part, each) in wishes {
            let fits = left.checked_div(each).map_or(part.count, |fits| fits.min(part.count as u64) as usize);
            let bytes = fits as u64 * each;
            left -= bytes;
            holdings.push(HostHolding { name, in_memory: fits, from_file: part.count - fits, bytes });
        }
        HostPlan { holdings }
    };
    let fixed: u64 = needed.iter().map(|(_, bytes)| bytes).sum();
    let Some(budget) = budget else { return Ok(keep(u64::MAX, 0)) };
    // Without buffers for reading, if nothing has to be read.
    if let Some(room) = budget.checked_sub(fixed) {
        let everything = keep(room, 0);
        if everything.holdings.iter().all(|holding| holding.from_file == 0) {
            return Ok(everything);
        }
    }
    let largest = wishes.iter().map(|(_, _, each)| *each).max().unwrap_or(0);
    let least = fixed + SLOTS as u64 * largest;
    let room = budget.checked_sub(least).ok_or(least)?;
    Ok(keep(room, SLOTS as u64 * largest))
}
