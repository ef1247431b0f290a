//! How a queue's window is shared between new jobs and those that are known to be ready.
//!
//! Whoever makes a job does not know whether it may run: its tenant may have as many running as it may, its partition may
//! be paused. The scheduler knows. So hints at new jobs take up to one half of a window and push nothing out of it, and
//! the other half is there for what the scheduler finds ready. A new job that is left out waits for the next refill,
//! behind a queue that is half full.

/// Returns up to how many hints a queue of this window takes hints at new jobs: the larger half.
pub(crate) const fn for_new_jobs(window: usize) -> usize {
    window.div_ceil(2)
}
