//! Latents to frames and samples.

use clapboard_h3::cost::{BlockStack, VideoDecoder};
use clapboard_h3::{Canvas, FrameCount};

use super::super::holding::{HoldingKind, Phase, PhasePlan};
use super::super::planner::Planner;
use crate::activations::{ActivationPlan, Planned};
use crate::audio_vae;
use crate::ops::DType;
use crate::ops::cpu::HostBuffer;
use crate::ops::cuda::{GATHER_BYTES, log_sum_bytes};
use crate::video_vae::chunks::ChunkGeometry;
use crate::video_vae::tiles::split_tiles;
use crate::video_vae::{TileBuffers, film_plan};

impl Planner {
    /// Latents to samples.
    pub(in super::super) fn decode_audio(&self, frames: FrameCount) -> PhasePlan {
        let mut phase = self.phase(Phase::DecodeAudio);
        phase.stage("audio decoder", self.parts.audio_decoder);
        phase.buffers(&audio_vae::decode_plan(&self.sizes.audio_vae, frames.audio_latents() as usize));
        phase.hold("gathered taps", HoldingKind::Workspace, 1, GATHER_BYTES as u64);
        phase
    }

    /// Latents to frames.
    pub(in super::super) fn decode_video(&self, canvas: Canvas, frames: FrameCount) -> PhasePlan {
        let (config, compute, tiles) = (&self.sizes.video_vae, self.precision.decode, self.sizes.tiles());
        let side = config.spatial_compression();
        let [height, width] = [canvas.height(), canvas.width()].map(|pixels| pixels as usize);
        let (rows, columns) = (split_tiles(height, tiles, side), split_tiles(width, tiles, side));
        let cost = self.decoder_cost();

        let mut phase = self.phase(Phase::DecodeVideo);
        phase.stage("video decoder ends", self.parts.video_decoder_ends);
        phase.stage("video decoder blocks", self.parts.video_decoder_blocks);
        let [tile_height, tile_width] = [rows[0].len / side, columns[0].len / side];
        let tile = TileBuffers::<HostBuffer>::plan(config, compute, tile_height, tile_width);
        let tokens = ChunkGeometry::of(config).clip_latents() * tile_height * tile_width;
        let rows = tokens + config.decoder_num_register_tokens + 1;
        phase.buffers(&tile);
        // Row 0 for every token of the grid.
        let first_row = Planned::new("first_row", DType::U32, [tokens]);
        phase.buffers(&ActivationPlan::new(vec![first_row]));
        phase.buffers(&film_plan(config, compute, tiles, [height, width]));
        let sums = log_sum_bytes(rows, config.decoder_num_heads) as u64;
        phase.hold("attention sums", HoldingKind::Workspace, 1, sums);

        let rate = self.rates.decode_tflops;
        let computed = self.rates.compute_seconds(cost.decode(canvas, frames).get(), rate, compute);
        let copied = self.rates.copy_seconds(phase.moved_bytes);
        phase.seconds = Some(copied + computed);
        phase
    }

    fn decoder_cost(&self) -> VideoDecoder {
        let config = &self.sizes.video_vae;
        let side = config.spatial_compression();
        let [hidden, ffn, layers, latent_channels, token_values, tile, min_overlap] = [
            config.decoder_dim(),
            config.decoder_ffn_dim(),
            config.decoder_num_layers,
            config.latent_channels,
            config.out_channels * config.temporal_compression() * side * side,
            config.tile_size,
            config.tile_overlap_min,
        ]
        .map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        VideoDecoder {
            blocks: BlockStack { hidden, inner: hidden, ffn, layers },
            latent_channels,
            token_values,
            tile,
            min_overlap,
        }
    }
}
