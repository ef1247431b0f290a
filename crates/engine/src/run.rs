//! One generation's ties to the outside, handed down to every network.

use crate::control::{Command, Control};
use crate::ops::{OpError, Ops, Tensor};
use crate::progress::{Progress, ProgressEvent, ShareProgress};
use crate::tap::Tap;
use crate::weights::WeightError;

/// Why a generation was stopped from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was cancelled: everything is discarded.
    Cancelled,
    /// It was asked to stop so that it can go on elsewhere, from the last state that its
    /// [`CheckpointSink`](crate::CheckpointSink) has taken.
    Checkpointed,
}

/// Why a network did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An operation failed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// Weights could not be had.
    #[error(transparent)]
    Weights(#[from] WeightError),
    /// The generation was stopped from outside.
    #[error("the generation was stopped: {0:?}")]
    Stopped(Stop),
}

/// What a network reports to and obeys while it runs.
pub struct Run<'a> {
    /// Says whether to go on.
    pub control: &'a dyn Control,
    /// Hears progress.
    pub progress: &'a dyn Progress,
    /// Sees intermediate tensors.
    pub tap: &'a mut dyn Tap,
}

impl Run<'_> {
    /// Obeys the control: called before every block, layer and tile.
    ///
    /// Errors: [`RunError::Stopped`] when told to stop.
    pub fn check(&self) -> Result<(), RunError> {
        obey(self.control)
    }

    /// Shows the tap values that are on the host already.
    ///
    /// Errors: what the tap gives.
    pub(crate) fn see(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Result<(), RunError> {
        Ok(self.tap.see(name, shape, &|| Ok(values.to_vec()))?)
    }

    /// Shows the tap one tensor.
    ///
    /// Errors: what the tap gives.
    pub(crate) fn show<O: Ops>(&mut self, ops: &O, name: &str, x: &Tensor<O::Buffer>) -> Result<(), RunError> {
        Ok(self.tap.see(name, x.shape(), &|| ops.read(x.view()))?)
    }

    /// Returns the same ties, but for progress that is a share of the phase's.
    pub(crate) fn sharing<'b>(&'b mut self, share: &'b ShareProgress<'_>) -> Run<'b> {
        Run { control: self.control, progress: share, tap: &mut *self.tap }
    }

    /// Reports that `done` of `total` parts of the phase are done.
    pub fn part(&self, done: usize, total: usize) {
        self.progress.report(ProgressEvent::Part { done, total });
    }
}

/// Asks `control` once.
///
/// Errors: [`RunError::Stopped`] when told to stop.
pub(crate) fn obey(control: &dyn Control) -> Result<(), RunError> {
    stop_of(control).map_or(Ok(()), |stop| Err(RunError::Stopped(stop)))
}

/// Asks `control` once, and returns how to stop if that is what it says.
pub(crate) fn stop_of(control: &dyn Control) -> Option<Stop> {
    match control.command() {
        Command::Run => None,
        Command::Cancel => Some(Stop::Cancelled),
        Command::CheckpointAndStop => Some(Stop::Checkpointed),
    }
}
