//! Why a request does not fit, and what would.

use std::fmt;

use clapboard_h3::{Canvas, FrameCount};
use serde::Serialize;

use super::holding::{Phase, PhasePlan};
use super::request::ShapeError;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The request contradicts itself or the checkpoint.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Blocks stream through two slots, of which one alone would keep both.
    #[error(
        "of {blocks} blocks {resident} resident ones leave one to stream, which takes as much memory twice: \
         resident layers must leave none or at least two"
    )]
    OneStreamed {
        /// The resident blocks that were asked for.
        resident: usize,
        /// The transformer's blocks.
        blocks: usize,
    },
    /// A phase takes more of the device than it may.
    #[error("phase {} needs {} of the GPU, the budget is {}; {alternatives}", phase.as_str(), Gib(*needed), Gib(*budget))]
    Device {
        /// The phase that takes the most.
        phase: Phase,
        /// What it needs at the least.
        needed: u64,
        /// What it may take.
        budget: u64,
        /// What it needs most for, largest first.
        largest: Vec<(&'static str, u64)>,
        /// What would fit.
        alternatives: Box<Alternatives>,
    },
    /// The host has too little memory even with every weight in its file.
    #[error("the host needs at least {}, the budget is {}", Gib(*needed), Gib(*budget))]
    Host {
        /// What it needs at the least.
        needed: u64,
        /// What it may take.
        budget: u64,
    },
}

/// How many of the largest holdings a refusal names.
const NAMED: usize = 5;

impl PhasePlan {
    /// Says that a phase takes more than `budget`, and of what the most.
    pub(super) fn refused(&self, budget: u64, alternatives: Alternatives) -> Refusal {
        let mut largest: Vec<(&'static str, u64)> =
            self.holdings.iter().map(|holding| (holding.name, holding.bytes)).collect();
        largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        largest.truncate(NAMED);
        let (phase, needed) = (self.phase, self.peak_bytes());
        Refusal::Device { phase, needed, budget, largest, alternatives: Box::new(alternatives) }
    }
}

/// What would fit in place of a request that does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Alternatives {
    /// The device's memory with which the request would fit.
    pub least_hbm_bytes: u64,
    /// The resident blocks with which it would fit, where too many were asked for.
    pub resident_layers: Option<usize>,
    /// The most frames of the same size that fit, if such a film is as long as the checkpoint makes them.
    pub num_frames: Option<FrameCount>,
    /// The largest canvas of about the same ratio that fits with the same frames.
    pub canvas: Option<Canvas>,
}

impl fmt::Display for Alternatives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it would fit in {}", Gib(self.least_hbm_bytes))?;
        if let Some(layers) = self.resident_layers {
            return write!(f, ", or with {layers} resident layers");
        }
        if let Some(frames) = self.num_frames {
            write!(f, ", or with at most {frames} frames of this size")?;
        }
        if let Some(canvas) = self.canvas {
            write!(f, ", or at {canvas} with these frames")?;
        }
        Ok(())
    }
}

/// Bytes in units of 2^30, rounded up to hundredths: what is said to fit does.
struct Gib(u64);

impl fmt::Display for Gib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} GiB", (self.0 as f64 / (1u64 << 30) as f64 * 100.0).ceil() / 100.0)
    }
}
