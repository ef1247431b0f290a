//! Placing a request whose sequence is laid out already.

use clapboard_h3::{Canvas, FrameCount};

use super::budget::Budgets;
use super::phases::TransformerShape;
use super::planner::Planner;
use super::refusal::{Alternatives, Refusal};
use crate::dit::DitShape;
use crate::weights::ResidentLayers;

/// What decides how much of a device a laid-out request takes from here on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaidOut {
    /// Its sequence.
    pub(crate) dit: DitShape,
    /// Runs of the transformer.
    pub(crate) forwards: usize,
    /// Its pixels.
    pub(crate) canvas: Canvas,
    /// Its frames.
    pub(crate) num_frames: FrameCount,
}

impl Planner {
    /// Returns how many leading blocks stay on the device while `request` is denoised: as many as were asked for, or as the
    /// budget holds. Media are encoded before and are not looked at.
    ///
    /// Errors: [`Refusal::Device`] when it does not fit, then or when it is decoded.
    pub(crate) fn place(&self, request: &LaidOut, budgets: &Budgets) -> Result<usize, Refusal> {
        let transformer = TransformerShape { dit: request.dit, forwards: request.forwards };
        let (blocks, budget) = (self.parts.dit_blocks.count, budgets.hbm_bytes);
        let auto = self.most_resident(&transformer, budget);
        let resident = match budgets.resident_layers {
            ResidentLayers::Auto => auto,
            ResidentLayers::Fixed(layers) => layers.min(blocks),
        };
        let beside = || {
            [
                self.prepare(&transformer),
                self.decode_audio(request.num_frames),
                self.decode_video(request.canvas, request.num_frames),
            ]
        };
        let least = beside().iter().chain([&self.denoise(&transformer, 0)]).map(|phase| phase.peak_bytes()).max();
        let phases = beside().into_iter().chain([self.denoise(&transformer, resident)]);
        let tightest = phases.max_by_key(|phase| phase.peak_bytes()).expect("there are four");
        if tightest.peak_bytes() <= budget {
            return Ok(resident);
        }
        let least_hbm_bytes = least.unwrap_or(u64::MAX);
        let resident_layers = (least_hbm_bytes <= budget).then_some(auto);
        let alternatives = Alternatives { least_hbm_bytes, resident_layers, num_frames: None, canvas: None };
        Err(tightest.refused(budget, alternatives))
    }
}
