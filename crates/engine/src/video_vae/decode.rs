//! A whole film: chunks of tiles, blended, cross-faded and handed on.

use super::buffers::TileBuffers;
use super::chunks::{ChunkGeometry, ChunkPlan};
use super::decoder::decode_tile;
use super::error::DecodeError;
use super::latents::{Statistics, VideoLatents};
use super::precision::DecodePrecision;
use super::stitch::Mosaic;
use super::tiles::{TileGeometry, split_tiles};
use super::weights::{Loader, VitBlockWeights, VitWeights};
use crate::checkpoint::{Component, VideoVaeConfig};
use crate::load::LoadError;
use crate::ops::{DType, Ops, View};
use crate::run::Run;
use crate::weights::{ResidentWeights, WeightSource};

/// What was subtracted from each colour in `[0, 1]` for the network: ImageNet's mean.
pub const PIXEL_MEAN: [f32; 3] = [0.485, 0.456, 0.406];

/// What each colour was then divided by: ImageNet's standard deviation.
pub const PIXEL_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Takes a chunk of finished frames, `[channels, frames, height, width]`.
type Frames<'a, B, E> = dyn FnMut(View<'_, B>) -> Result<(), DecodeError<E>> + 'a;

/// A loaded video decoder.
pub struct VideoDecoder<O: Ops> {
    config: VideoVaeConfig,
    precision: DecodePrecision,
    tiles: TileGeometry,
    weights: VitWeights<O::Buffer>,
    blocks: Box<dyn WeightSource<O, VitBlockWeights<O::Buffer>>>,
}

impl<O: Ops> VideoDecoder<O>
where
    O::Buffer: 'static,
{
    /// Takes the decoder of a video VAE.
    ///
    /// Errors: [`LoadError`] naming a missing or ill-shaped tensor, or tiles off the latent grid.
    pub fn load(
        ops: &O,
        component: &Component,
        config: VideoVaeConfig,
        precision: DecodePrecision,
        tiles: TileGeometry,
    ) -> Result<Self, LoadError> {
        let step = config.spatial_compression();
        if !tiles.fits(step) {
            return Err(LoadError::Tiles { geometry: tiles, step });
        }
        let loader = Loader { ops, component, config: &config, compute: precision.compute() };
        let weights = loader.frame()?;
        let blocks = (0..config.decoder_num_layers).map(|index| loader.block(index)).collect::<Result<_, _>>()?;
        Ok(Self { precision, tiles, weights, blocks: Box::new(ResidentWeights::new(blocks)), config })
    }

    /// Returns the sizes of the network.
    pub fn config(&self) -> &VideoVaeConfig {
        &self.config
    }

    /// How many frames `latent_frames` decode to; `None` when they are too few.
    pub fn frames(&self, latent_frames: usize) -> Option<usize> {
        Some(ChunkGeometry::of(&self.config).plan(latent_frames)?.frames)
    }

    /// Decodes normalised latents to RGB bytes. `emit` is given whole frames in order, a chunk at a time, each
    /// `height × width × 3`.
    ///
    /// Errors: [`DecodeError`]; what `emit` says comes back in [`DecodeError::Emit`].
    pub fn decode<E>(
        &self,
        ops: &O,
        latents: VideoLatents<'_>,
        run: &mut Run<'_>,
        emit: &mut dyn FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), DecodeError<E>> {
        let statistics = Statistics { mean: &self.config.latents_mean, std: &self.config.latents_std };
        let side = self.config.spatial_compression();
        let (height, width) = (latents.height * side, latents.width * side);
        let geometry = ChunkGeometry::of(&self.config);
        let most = geometry.head_frames().max(geometry.tail_frames());
        let mut rgb = ops.alloc(DType::U8, [most, height, width, PIXEL_MEAN.len()].into())?;
        self.run(ops, latents, Some(statistics), run, &mut |pixels| {
            let frames = 0..pixels.shape()[1];
            ops.pixels_to_rgb8(pixels, PIXEL_MEAN, PIXEL_STD, rgb.rows_mut(frames.clone()))?;
            emit(ops.read_bytes(rgb.rows(frames))?).map_err(DecodeError::Emit)
        })
    }

    /// Decodes latents that are already denormalised to pixels as the network makes them. `emit` is given
    /// `[channels, frames, height, width]` row major with its number of frames, a chunk at a time.
    ///
    /// Errors: [`DecodeError`]; what `emit` says comes back in [`DecodeError::Emit`].
    pub fn decode_pixels<E>(
        &self,
        ops: &O,
        latents: VideoLatents<'_>,
        run: &mut Run<'_>,
        emit: &mut dyn FnMut(Vec<f32>, usize) -> Result<(), E>,
    ) -> Result<(), DecodeError<E>> {
        self.run(ops, latents, None, run, &mut |pixels| {
            emit(ops.read(pixels)?, pixels.shape()[1]).map_err(DecodeError::Emit)
        })
    }

    fn run<E>(
        &self,
        ops: &O,
        latents: VideoLatents<'_>,
        statistics: Option<Statistics<'_>>,
        run: &mut Run<'_>,
        emit: &mut Frames<'_, O::Buffer, E>,
    ) -> Result<(), DecodeError<E>> {
        let config = &self.config;
        let plan = self.plan(&latents)?;
        let geometry = ChunkGeometry::of(config);
        let (head, tail) = (geometry.head_frames(), geometry.tail_frames());
        let compute = self.precision.compute();
        let side = config.spatial_compression();
        let rows = split_tiles(latents.height * side, self.tiles, side);
        let columns = split_tiles(latents.width * side, self.tiles, side);
        let mut buffers = TileBuffers::make(ops, config, compute, rows[0].len / side, columns[0].len / side)?;
        let mut mosaic = Mosaic::make(ops, compute, config.out_channels, head + tail, rows, columns)?;
        let mut faded_out = match mosaic.pixels().shape() {
            &[channels, _, height, width] if tail > 0 => {
                Some(ops.alloc(compute, [channels, tail, height, width].into())?)
            }
            _ => None,
        };

        let parts = plan.chunks * mosaic.tiles().count();
        let mut tokens = Vec::new();
        let mut done = 0;
        let mut remaining = plan.frames;
        for chunk in 0..plan.chunks {
            for at in mosaic.tiles() {
                run.check()?;
                let (y, x) = mosaic.spans(at);
                let (rows, columns) =
                    (y.start / side..(y.start + y.len) / side, x.start / side..(x.start + x.len) / side);
                latents.pack(config.latent_channels, plan.latents(chunk), rows, columns, statistics, &mut tokens);
                ops.write(&tokens, buffers.latents.view_mut())?;
                decode_tile(ops, config, &self.weights, &*self.blocks, &mut buffers, run, done == 0)?;
                mosaic.place(ops, at, buffers.pixels.view())?;
                done += 1;
                run.part(done, parts);
            }
            if let Some(faded_out) = &mut faded_out {
                if chunk > 0 {
                    let extent = tail.min(head);
                    let old = faded_out.view().narrow(1, tail - extent..tail);
                    ops.cross_fade(old, 1, extent, mosaic.pixels_mut().view_mut().narrow(1, 0..extent))?;
                }
                ops.cast(mosaic.pixels().view().narrow(1, head..head + tail), faded_out.view_mut())?;
            }
            let frames = head.min(remaining);
            remaining -= frames;
            emit(mosaic.pixels().view().narrow(1, 0..frames))?;
        }
        if let Some(faded_out) = faded_out
            && remaining > 0
        {
            emit(faded_out.view().narrow(1, 0..remaining))?;
        }
        Ok(())
    }

    /// Checks the latents' shape and plans their chunks.
    fn plan<E>(&self, latents: &VideoLatents<'_>) -> Result<ChunkPlan, DecodeError<E>> {
        let VideoLatents { values, frames, height, width } = *latents;
        let channels = self.config.latent_channels;
        if height * width == 0 || values.len() != channels * frames * height * width {
            return Err(DecodeError::Shape { actual: values.len(), channels, frames, height, width });
        }
        let geometry = ChunkGeometry::of(&self.config);
        geometry.plan(frames).ok_or(DecodeError::TooShort { frames, least: geometry.least_latents() })
    }
}
