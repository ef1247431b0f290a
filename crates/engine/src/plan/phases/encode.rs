//! Text, pictures, videos and sounds on their way in.

use super::super::conditions::{Pixels, PlannedConditions};
use super::super::holding::{HoldingKind, Phase, PhasePlan};
use super::super::planner::Planner;
use crate::activations::{ActivationPlan, Planned};
use crate::ops::cpu::HostBuffer;
use crate::ops::cuda::{GATHER_BYTES, log_sum_bytes};
use crate::ops::{DType, cuda};
use crate::text::TextBuffers;
use crate::video_vae;
use crate::vision::{VisionBuffers, rows_per_batch};
use crate::{audio_vae, vision};

impl Planner {
    /// Pictures and videos through the vision tower; nothing without any.
    pub(in super::super) fn vision(&self, conditions: &PlannedConditions) -> Option<PhasePlan> {
        let (config, dtype) = (&self.sizes.text.vision, self.precision.dtype);
        let bytes = self.memory.feed_forward_bytes;
        let most = rows_per_batch(config, dtype, bytes);
        let of_pictures = conditions.pictures.iter().map(|picture| (picture.patches(config), 1));
        let of_videos = conditions.videos.iter().map(|video| (video.patches(config), conditions.pairs(video, config)));
        // Frames of one kind run together, as many as fit and at least one.
        let batch = |frames: &[(usize, usize)]| {
            let each = frames.iter().map(|(patches, _)| *patches).max()?;
            let count: usize = frames.iter().map(|(_, count)| *count).sum();
            Some(each * (most / each.max(1)).clamp(1, count.max(1)))
        };
        let (pictures, videos): (Vec<_>, Vec<_>) = (of_pictures.collect(), of_videos.collect());
        let rows = batch(&pictures).into_iter().chain(batch(&videos)).max()?;
        let frame = pictures.iter().chain(&videos).map(|(patches, _)| *patches).max()?;

        let mut phase = self.phase(Phase::Vision);
        phase.stage("vision ends", self.parts.vision_ends);
        // Every batch goes through all blocks.
        let all: usize = pictures.iter().chain(&videos).map(|(patches, count)| patches * count).sum();
        phase.stream("vision blocks", self.parts.vision_blocks, all.div_ceil(rows) as u64);
        phase.slots(&[self.parts.vision_blocks]);
        phase.buffers(&VisionBuffers::<HostBuffer>::plan(config, dtype, bytes, rows));
        phase.buffers(&self.features(conditions));
        let taps = Planned::new("position_taps", DType::U32, [rows, vision::TAPS]);
        phase.buffers(&ActivationPlan::new(vec![taps]));
        let sums = log_sum_bytes(frame, config.num_heads) as u64;
        phase.hold("attention sums", HoldingKind::Workspace, 1, sums);
        Some(phase)
    }

    /// What the vision tower hands to the language model.
    fn features(&self, conditions: &PlannedConditions) -> ActivationPlan {
        let config = &self.sizes.text.vision;
        let merged = config.spatial_merge_size * config.spatial_merge_size;
        let tokens = |pixels: &Pixels, frames| frames * pixels.patches(config) / merged;
        let pictures: usize = conditions.pictures.iter().map(|picture| tokens(picture, 1)).sum();
        let videos: usize = conditions.videos.iter().map(|video| tokens(video, conditions.pairs(video, config))).sum();
        let count = 1 + config.deepstack_visual_indexes.len();
        let shape = [count, pictures + videos, config.out_hidden_size];
        ActivationPlan::new(vec![Planned::new("vision_features", self.precision.dtype, shape)])
    }

    /// The prompt through the language model.
    pub(in super::super) fn text(&self, rows: usize, conditions: &PlannedConditions) -> PhasePlan {
        let (config, dtype) = (&self.sizes.text.text, self.precision.dtype);
        let mut phase = self.phase(Phase::Text);
        phase.leave("token embeddings", self.parts.embed_tokens);
        phase.stream("language layers", self.parts.text_layers, 1);
        phase.slots(&[self.parts.text_layers]);
        phase.buffers(&TextBuffers::<HostBuffer>::plan(config, dtype, self.memory.feed_forward_bytes, rows));
        if !(conditions.pictures.is_empty() && conditions.videos.is_empty()) {
            phase.buffers(&self.features(conditions));
        }
        phase
    }

    /// The embeddings of the prompt, which wait for the transformer.
    fn prompt_embeds(&self, rows: usize) -> ActivationPlan {
        let shape = [rows, self.sizes.text.text.hidden_size];
        ActivationPlan::new(vec![Planned::new("prompt_embeds", self.precision.dtype, shape)])
    }

    /// Pictures and videos through the video VAE, the largest of them; nothing without any.
    pub(in super::super) fn encode_video(&self, rows: usize, conditions: &PlannedConditions) -> Option<PhasePlan> {
        let plan = |pixels: &Pixels| {
            let sides = [pixels.height, pixels.width];
            let config = &self.sizes.video_vae;
            video_vae::encode_plan::<HostBuffer>(config, self.sizes.tiles(), pixels.frames, sides)
        };
        let buffers =
            conditions.pictures.iter().chain(&conditions.videos).map(plan).max_by_key(ActivationPlan::bytes)?;
        let mut phase = self.phase(Phase::EncodeVideo);
        phase.stage("video encoder", self.parts.video_encoder);
        phase.buffers(&buffers);
        phase.buffers(&self.prompt_embeds(rows));
        phase.hold("gathered taps", HoldingKind::Workspace, 1, GATHER_BYTES as u64);
        Some(phase)
    }

    /// Sounds through the audio VAE, the longest of them; nothing without any.
    pub(in super::super) fn encode_audio(&self, rows: usize, conditions: &PlannedConditions) -> Option<PhasePlan> {
        let latents = *conditions.sounds.iter().max()?;
        let mut phase = self.phase(Phase::EncodeAudio);
        phase.stage("audio encoder", self.parts.audio_encoder);
        phase.buffers(&audio_vae::encode_plan(&self.sizes.audio_vae, latents));
        phase.buffers(&self.prompt_embeds(rows));
        phase.hold("gathered taps", HoldingKind::Workspace, 1, GATHER_BYTES as u64);
        Some(phase)
    }

    /// A phase that holds what every phase does.
    pub(in super::super) fn phase(&self, phase: Phase) -> PhasePlan {
        let mut plan = PhasePlan::new(phase);
        plan.hold("driver and libraries", HoldingKind::Overhead, 1, self.overhead_bytes);
        plan.hold("products", HoldingKind::Workspace, 1, cuda::WORKSPACE_BYTES as u64);
        plan
    }
}
