//! The transformer: what begins a request, and its steps.

use super::super::holding::{HoldingKind, Phase, PhasePlan, Place};
use super::super::planner::Planner;
use crate::activations::{ActivationPlan, Planned};
use crate::denoise::state_plan;
use crate::dit::{DitBuffers, DitShape, embedding_plan, fixed_plan, products_plan, refiner_plan};
use crate::ops::cpu::HostBuffer;
use crate::ops::cuda::log_sum_bytes;

/// What the sizes of the transformer's buffers follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct TransformerShape {
    pub(in super::super) dit: DitShape,
    pub(in super::super) forwards: usize,
}

impl Planner {
    /// Refines the text, embeds the timesteps and makes the AdaLN table.
    pub(in super::super) fn prepare(&self, shape: &TransformerShape) -> PhasePlan {
        let (config, dtype) = (&self.sizes.dit, self.precision.dtype);
        let parts = &self.parts;
        let mut phase = self.phase(Phase::Prepare);
        phase.stage("transformer start", parts.dit_start);
        phase.stream("refiner blocks", parts.refiner_blocks, 1);
        phase.stream("AdaLN projections", parts.adaln, 1);
        phase.slots(&[parts.refiner_blocks, parts.adaln]);
        // First of all: a sequence that memory has no room for is refused before anything is computed.
        phase.buffers(&DitBuffers::<HostBuffer>::plan(config, dtype, &shape.dit));
        let rows = shape.dit.text_rows;
        let prompt = Planned::new("prompt_embeds", dtype, [rows, config.text_dim]);
        phase.buffers(&ActivationPlan::new(vec![prompt]));
        let refiner = refiner_plan(config, dtype, rows, self.memory).bytes() as u64;
        phase.hold("refiner", HoldingKind::Buffer, 1, refiner);
        phase.buffers(&embedding_plan(config, shape.dit.timesteps));
        phase.buffers(&products_plan(config, dtype, shape.forwards, shape.dit.timesteps));
        // The refined text is one of the refiner's own buffers.
        self.hold_fixed(&mut phase, shape, &["text"]);
        phase.hold("attention sums", HoldingKind::Workspace, 1, log_sum_bytes(rows, config.num_heads) as u64);
        phase
    }

    /// Steps with `resident` leading blocks on the device.
    pub(in super::super) fn denoise(&self, shape: &TransformerShape, resident: usize) -> PhasePlan {
        let (config, dtype, blocks) = (&self.sizes.dit, self.precision.dtype, self.parts.dit_blocks);
        let streamed = blocks.count - resident;
        let mut phase = self.phase(Phase::Denoise);
        phase.stage("transformer ends", self.parts.dit_ends);
        let resident_bytes = resident as u64 * blocks.device_bytes;
        if resident > 0 {
            phase.hold("resident blocks", HoldingKind::Weights(Place::Resident), resident, resident_bytes);
        }
        if streamed > 0 {
            phase.hold("streamed blocks", HoldingKind::Weights(Place::Streams), streamed, 0);
            phase.slots(&[blocks]);
        }
        phase.leave("AdaLN projections", self.parts.adaln);
        let streamed_bytes = streamed as u64 * blocks.device_bytes;
        let a_step = streamed_bytes + self.table_bytes_per_step(shape);
        phase.moved_bytes += resident_bytes + shape.forwards as u64 * a_step;

        phase.buffers(&DitBuffers::<HostBuffer>::plan(config, dtype, &shape.dit));
        self.hold_fixed(&mut phase, shape, &[]);
        phase.buffers(&state_plan(config, &shape.dit));
        let sums = log_sum_bytes(shape.dit.rows, config.num_heads) as u64;
        phase.hold("attention sums", HoldingKind::Workspace, 1, sums);
        phase
    }

    /// The bytes of the AdaLN table that a step reads: what each block makes of each of its timesteps.
    pub(in super::super) fn table_bytes_per_step(&self, shape: &TransformerShape) -> u64 {
        let row = self.sizes.dit.num_layers * self.sizes.dit.adaln_features() * self.precision.dtype.size();
        (shape.dit.timesteps * row) as u64
    }

    fn hold_fixed(&self, phase: &mut PhasePlan, shape: &TransformerShape, except: &[&str]) {
        let plan = fixed_plan(&self.sizes.dit, self.precision.dtype, &shape.dit, shape.forwards);
        let kept = plan.buffers().iter().filter(|planned| !except.contains(&planned.name));
        phase.buffers(&ActivationPlan::new(kept.copied().collect()));
    }
}
