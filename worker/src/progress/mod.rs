//! How far an attempt has come, whether it still moves, and who wants it to stop.

pub(crate) mod meter;
pub(crate) mod pace;
pub(crate) mod pulse;
pub(crate) mod watch;
