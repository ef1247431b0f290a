//! Bringing a generation's networks to the device, each for as long as it is used.

use clapboard_h3::Partition;

use crate::generate::{GenerateError, network};
use crate::load::{LoadError, Loading};
use crate::ops::Ops;
use crate::ops::cuda::fault;
use crate::run::{Run, RunError};
use crate::weights::{Placement, Staged, StagedGuard};

/// Which weights stay on the device, and whose they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Staging {
    pub(crate) partition: Partition,
    pub(crate) placement: Placement,
}

impl Staging {
    /// The same, with another placement.
    pub(crate) fn placed(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }

    /// Lends a network for a phase; one that does not stay leaves with the guard, and finds what the last one has left.
    ///
    /// Errors: [`GenerateError::Stopped`]; [`GenerateError::Load`] when its weights cannot be had any more, or what else
    /// became of the device.
    pub(crate) fn enter<'a, O: Ops, T>(
        self,
        staged: &'a Staged<O, T>,
        ops: &O,
        run: &Run<'_>,
    ) -> Result<StagedGuard<'a, T>, GenerateError> {
        if self.placement != Placement::Resident {
            ops.trim().map_err(RunError::from)?;
        }
        let loading = Loading { placement: self.placement, control: run.control, progress: run.progress };
        staged.enter(ops, loading).map_err(|error| match error {
            LoadError::Stopped(stop) => GenerateError::Stopped(stop),
            error if fault(&error).is_some() => network(error),
            error => GenerateError::Load { partition: self.partition, source: Box::new(error) },
        })
    }
}
