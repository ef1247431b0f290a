//! The buffers of one tile's decode, planned from its token grid.

use super::chunks::ChunkGeometry;
use super::rope::rotary_tables;
use super::stitch::mosaic_plan;
use super::tiles::{TileGeometry, split_tiles};
use crate::activations::{ActivationPlan, Planned};
use crate::checkpoint::VideoVaeConfig;
use crate::ops::{DType, OpError, Ops, Tensor};

/// The named activations of the decoder, and the rotary tables of its grid.
pub(crate) struct TileBuffers<B> {
    /// Tokens `[t, h, w]`.
    pub(super) grid: [usize; 3],
    /// Latents as token rows, `[tokens, channels]`.
    pub(super) latents: Tensor<B>,
    /// After the convolution in front, `[tokens, channels]`.
    pub(super) post_quant: Tensor<B>,
    /// The residual stream, F32 `[tokens + suffix, dim]`.
    pub(super) hidden: Tensor<B>,
    /// A norm's result, `[tokens + suffix, dim]`.
    pub(super) normed: Tensor<B>,
    /// Queries, keys and values, `[tokens + suffix, 3 · dim]`.
    pub(super) qkv: Tensor<B>,
    /// Attention's result, `[tokens + suffix, dim]`.
    pub(super) attended: Tensor<B>,
    /// A branch's result, `[tokens + suffix, dim]`.
    pub(super) branch: Tensor<B>,
    /// Gate and value, `[tokens + suffix, 2 · ffn]`.
    pub(super) gate_up: Tensor<B>,
    /// Their product, `[tokens + suffix, ffn]`.
    pub(super) gated: Tensor<B>,
    /// One patch of pixels a token, `[tokens, patch]`.
    pub(super) patches: Tensor<B>,
    /// Head and tail frames of the tile, `[channels, kept frames, height, width]`.
    pub(super) pixels: Tensor<B>,
    /// Row 0 for every token: how one row becomes many, U32 `[tokens]`.
    pub(super) first_row: Tensor<B>,
    /// Cosines of the rotary angles, F32 `[tokens + suffix, rotary]`.
    pub(super) rope_cos: Tensor<B>,
    /// Sines of the rotary angles, F32 `[tokens + suffix, rotary]`.
    pub(super) rope_sin: Tensor<B>,
}

impl<B: Send + Sync> TileBuffers<B> {
    /// Plans the buffers for tiles of `height` by `width` latents.
    pub(crate) fn plan(config: &VideoVaeConfig, compute: DType, height: usize, width: usize) -> ActivationPlan {
        let geometry = ChunkGeometry::of(config);
        let tokens = geometry.clip_latents() * height * width;
        let rows = tokens + config.decoder_num_register_tokens + 1;
        let (channels, dim, ffn) = (config.latent_channels, config.decoder_dim(), config.decoder_ffn_dim());
        let side = config.spatial_compression();
        let patch = config.out_channels * config.temporal_compression() * side * side;
        let rotary = config.decoder_rope_dim();
        ActivationPlan::new(vec![
            Planned::new("latents", compute, [tokens, channels]),
            Planned::new("post_quant", compute, [tokens, channels]),
            Planned::new("hidden", DType::F32, [rows, dim]),
            Planned::new("normed", compute, [rows, dim]),
            Planned::new("qkv", compute, [rows, 3 * dim]),
            Planned::new("attended", compute, [rows, dim]),
            Planned::new("branch", compute, [rows, dim]),
            Planned::new("gate_up", compute, [rows, 2 * ffn]),
            Planned::new("gated", compute, [rows, ffn]),
            Planned::new("patches", compute, [tokens, patch]),
            Planned::new("pixels", compute, [config.out_channels, geometry.kept_frames(), height * side, width * side]),
            Planned::new("rope_cos", DType::F32, [rows, rotary]),
            Planned::new("rope_sin", DType::F32, [rows, rotary]),
        ])
    }

    /// Makes the buffers and fills the rotary tables.
    pub(super) fn make<O: Ops<Buffer = B>>(
        ops: &O,
        config: &VideoVaeConfig,
        compute: DType,
        height: usize,
        width: usize,
    ) -> Result<Self, OpError> {
        let plan = Self::plan(config, compute, height, width);
        let make = |name| plan.make(ops, name);
        let grid = [ChunkGeometry::of(config).clip_latents(), height, width];
        let (cos, sin) = rotary_tables(
            grid,
            config.decoder_num_register_tokens + 1,
            config.decoder_rope_dim(),
            config.decoder_rope_theta,
        );
        let (mut rope_cos, mut rope_sin) = (make("rope_cos")?, make("rope_sin")?);
        ops.write(&cos, rope_cos.view_mut())?;
        ops.write(&sin, rope_sin.view_mut())?;
        Ok(Self {
            grid,
            latents: make("latents")?,
            post_quant: make("post_quant")?,
            hidden: make("hidden")?,
            normed: make("normed")?,
            qkv: make("qkv")?,
            attended: make("attended")?,
            branch: make("branch")?,
            gate_up: make("gate_up")?,
            gated: make("gated")?,
            patches: make("patches")?,
            pixels: make("pixels")?,
            first_row: ops.indices(&vec![0; grid.iter().product()])?,
            rope_cos,
            rope_sin,
        })
    }

    /// Tokens of the grid, the suffix not counted.
    pub(super) fn tokens(&self) -> usize {
        self.grid.iter().product()
    }
}

/// Plans what holds a film of `height` by `width` pixels together beside the tile that is decoded: the picture with the edges
/// of its tiles, the frames that are faded out, and the frames in bytes.
pub(crate) fn film_plan(
    config: &VideoVaeConfig,
    compute: DType,
    tiles: TileGeometry,
    [height, width]: [usize; 2],
) -> ActivationPlan {
    let geometry = ChunkGeometry::of(config);
    let (head, tail) = (geometry.head_frames(), geometry.tail_frames());
    let (channels, side) = (config.out_channels, config.spatial_compression());
    let (rows, columns) = (split_tiles(height, tiles, side), split_tiles(width, tiles, side));
    let mut buffers = vec![Planned::new("rgb", DType::U8, [head.max(tail), height, width, channels])];
    buffers.extend(mosaic_plan(compute, channels, head + tail, &rows, &columns));
    if tail > 0 {
        buffers.push(Planned::new("faded_out", compute, [channels, tail, height, width]));
    }
    ActivationPlan::new(buffers)
}
