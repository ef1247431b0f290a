//! Weights that come to the GPU while it computes: slots, the stream of copies that fills them, and the threads that feed
//! it.
//!
//! A block's tensors are cut into steps ([`steps`]). Threads ([`copier`]) take them in order, bring the bytes where the GPU
//! can copy from (or find them there: [`masters`]), and queue the copies, again in order, on a stream of their own
//! ([`lane`]). Two events a slot keep the two streams apart: the copies wait for the last operation that reads what is
//! there, the operations for the last copy.

mod convert;
mod copier;
mod lane;
mod masters;
mod pinned;
mod slot;
mod steps;

pub use slot::CudaSlot;
pub(super) use slot::{SlotMemory, Streams};
