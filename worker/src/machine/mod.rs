//! What this machine has and lacks.

pub(crate) mod health;
pub(crate) mod media_store;
pub(crate) mod memory;
pub(crate) mod weights;
