//! A plan that fits.

use serde::Serialize;

use super::budget::Budgets;
use super::holding::{Phase, PhasePlan, Place};
use super::host::HostPlan;
use super::request::SequenceShape;

/// What one step of the transformer moves, and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepPlan {
    /// Blocks that are on the device throughout.
    pub resident_layers: usize,
    /// Blocks that are copied in every step.
    pub streamed_layers: usize,
    /// Bytes of one block, without its AdaLN projection.
    pub block_bytes: u64,
    /// Bytes of streamed blocks that a step copies.
    pub block_bytes_per_step: u64,
    /// Bytes of the AdaLN table that a step copies, for resident blocks as well.
    pub table_bytes_per_step: u64,
    /// Bytes of the AdaLN table, on the host.
    pub table_bytes: u64,
    /// Predicted seconds that a step's copies take alone.
    pub copy_seconds: f64,
    /// Predicted seconds that a step computes, were everything there.
    pub compute_seconds: f64,
    /// Predicted seconds of the first step, whose first copy hides behind nothing.
    pub first_seconds: f64,
    /// Predicted seconds of every later step.
    pub seconds: f64,
}

/// Where everything lives, and what it takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResidencyPlan {
    /// The request's sequence.
    pub sequence: SequenceShape,
    /// What it was allowed.
    pub budgets: Budgets,
    /// The phases, in order.
    pub phases: Vec<PhasePlan>,
    /// The steps of the phase that denoises.
    pub step: StepPlan,
    /// The host.
    pub host: HostPlan,
    /// What an engine takes of the device that keeps every weight there.
    pub unstreamed_hbm_bytes: u64,
}

impl ResidencyPlan {
    /// Returns the most memory that it takes of the device.
    pub fn peak_bytes(&self) -> u64 {
        self.phases.iter().map(PhasePlan::peak_bytes).max().unwrap_or(0)
    }

    /// Returns a phase; none that the request does not have.
    pub fn phase(&self, phase: Phase) -> Option<&PhasePlan> {
        self.phases.iter().find(|planned| planned.phase == phase)
    }

    /// Returns where a block of the transformer is while it denoises.
    pub fn dit_block(&self, index: usize) -> Place {
        if index < self.step.resident_layers { Place::Resident } else { Place::Streams }
    }

    /// Returns the bytes that are copied to the device in all.
    pub fn moved_bytes(&self) -> u64 {
        self.phases.iter().map(|phase| phase.moved_bytes).sum()
    }

    /// Returns the predicted seconds of those phases that have a prediction.
    pub fn seconds(&self) -> f64 {
        self.phases.iter().filter_map(|phase| phase.seconds).sum()
    }
}
