//! What all sweeps have in common.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Error;

/// What one run of a sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// How many things it did.
    pub done: usize,
    /// It stopped at its limit: there is more to do now.
    pub more: bool,
}

/// One repair, to be done again and again.
///
/// It may be dropped at any await: what it has not finished, the next run does.
#[async_trait]
pub trait Sweep: Send + Sync {
    /// The name in logs and metrics.
    fn name(&self) -> &'static str;

    /// How long it may rest at most.
    fn interval(&self) -> Duration;

    /// Whether it also has to run when something falls due in the store.
    fn when_due(&self) -> bool;

    /// Does what there is to do, up to its limit.
    ///
    /// Errors: [`Error`]; what was done before stays done.
    async fn sweep_once(&self) -> Result<Swept, Error>;
}
