//! A whole picture or clip: clips of tiles, blended into moments.

use super::clips::{ClipGeometry, ClipSpan};
use super::encoder::{EncodeBuffers, Steps, TileEncoder};
use super::encoder_weights::{EncoderLoader, EncoderWeights, LevelWeights};
use super::error::EncodeError;
use super::frames::VideoFrames;
use super::moments::{ConditionLatents, Moments};
use super::stitch::{Mosaic, mosaic_plan};
use super::tiles::{Span, TileGeometry, split_tiles};
use crate::activations::ActivationPlan;
use crate::checkpoint::{Component, VideoVaeConfig};
use crate::load::LoadError;
use crate::ops::{DType, Ops};
use crate::run::Run;
use crate::sampling::LatentShape;
use crate::weights::{ResidentWeights, WeightSource};

/// A loaded video encoder. It computes in F32: what conditions a generation is as exact as the release makes it.
pub struct VideoEncoder<O: Ops> {
    config: VideoVaeConfig,
    tiles: TileGeometry,
    weights: EncoderWeights<O::Buffer>,
    levels: Box<dyn WeightSource<O, LevelWeights<O::Buffer>>>,
}

impl<O: Ops> VideoEncoder<O>
where
    O::Buffer: 'static,
{
    /// Takes the encoder of a video VAE.
    ///
    /// Errors: [`LoadError`] naming a missing or ill-shaped tensor, or tiles off the latent grid or of fewer than two
    /// latents a side.
    pub fn load(
        ops: &O,
        component: &Component,
        config: VideoVaeConfig,
        tiles: TileGeometry,
    ) -> Result<Self, LoadError> {
        let step = config.spatial_compression();
        if !tiles.fits(step) || tiles.size < least_side(&config) {
            return Err(LoadError::Tiles { geometry: tiles, step });
        }
        let loader = EncoderLoader { ops, component, config: &config };
        let weights = loader.frame()?;
        let levels = (0..config.block_out_channels.len()).map(|index| loader.level(index)).collect::<Result<_, _>>()?;
        Ok(Self { tiles, weights, levels: Box::new(ResidentWeights::new(levels)), config })
    }

    /// Returns the sizes of the network.
    pub fn config(&self) -> &VideoVaeConfig {
        &self.config
    }

    /// How many latent frames `frames` frames are encoded to.
    pub fn latent_frames(&self, frames: usize) -> usize {
        ClipGeometry::of(&self.config).latent_frames(frames)
    }

    /// How many parts an encode of `frames` frames of `height` times `width` pixels reports.
    pub fn parts(&self, frames: usize, height: usize, width: usize) -> usize {
        let (rows, columns) = self.spans(height, width);
        let tiles = rows.len() * columns.len();
        ClipGeometry::of(&self.config).clips(frames).len() * tiles * Steps::per_tile(&self.config)
    }

    /// Encodes a picture or a clip to the latents that condition a generation.
    ///
    /// Errors: as [`moments`](Self::moments) and [`Moments::condition`].
    pub fn encode(&self, ops: &O, frames: VideoFrames<'_>, run: &mut Run<'_>) -> Result<ConditionLatents, EncodeError> {
        self.moments(ops, frames, run)?.condition(&self.config)
    }

    /// Encodes a picture or a clip to the distribution of its latents. The first clip's first tile is shown to the tap.
    ///
    /// Errors: [`EncodeError`]: frames of other sizes than they say, sides off the latent grid, moments that are not finite,
    /// a failed operation, or a stop.
    pub fn moments(&self, ops: &O, frames: VideoFrames<'_>, run: &mut Run<'_>) -> Result<Moments, EncodeError> {
        self.check(&frames)?;
        let (config, side) = (&self.config, self.config.spatial_compression());
        let clips = ClipGeometry::of(config).clips(frames.frames);
        let (rows, columns) = self.spans(frames.height, frames.width);
        let longest = clips.iter().map(|clip| clip.frames).max().unwrap_or(0);
        let mut buffers = EncodeBuffers::make(ops, config, [longest, rows[0].len, columns[0].len])?;
        let encoder = TileEncoder { ops, config, weights: &self.weights, levels: &*self.levels };
        let mut moments = Moments::zeroed(LatentShape {
            channels: config.latent_channels,
            frames: self.latent_frames(frames.frames),
            height: frames.height / side,
            width: frames.width / side,
        });
        let total = self.parts(frames.frames, frames.height, frames.width);
        let mut steps = Steps { run, done: 0, total };
        let mut pixels = Vec::new();
        for clip in clips {
            let in_latents = |spans: &[Span]| spans.iter().map(|span| span.in_latents(side)).collect();
            let channels = 2 * config.latent_channels;
            let mut mosaic =
                Mosaic::make(ops, DType::F32, channels, clip.latents, in_latents(&rows), in_latents(&columns))?;
            for at in mosaic.tiles() {
                let (y, x) = (rows[at.0], columns[at.1]);
                frames.pack(clip.frames(), y.start..y.start + y.len, x.start..x.start + x.len, &mut pixels);
                let tapped = steps.done == 0;
                let tile = encoder.encode(&pixels, [clip.frames, y.len, x.len], &mut buffers, &mut steps, tapped)?;
                mosaic.place(ops, at, tile)?;
            }
            moments.insert(clip.first_latent, &ops.read(mosaic.pixels().view())?)?;
        }
        Ok(moments)
    }

    /// Tiles along the height and along the width, in pixels.
    fn spans(&self, height: usize, width: usize) -> (Vec<Span>, Vec<Span>) {
        let spans = |length| split_tiles(length, self.tiles, self.config.spatial_compression());
        (spans(height), spans(width))
    }

    fn check(&self, frames: &VideoFrames<'_>) -> Result<(), EncodeError> {
        let VideoFrames { frames: count, height, width, .. } = *frames;
        let (actual, needed) = frames.lengths();
        if actual != needed || count == 0 {
            return Err(EncodeError::Shape { actual, frames: count, height, width });
        }
        let (step, least) = (self.config.spatial_compression(), least_side(&self.config));
        if [height, width].iter().any(|side| !side.is_multiple_of(step) || *side < least) {
            return Err(EncodeError::Sides { height, width, step, least });
        }
        Ok(())
    }
}

/// Plans the buffers in which `frames` frames of `height` by `width` pixels are encoded, a clip of a tile at a time.
pub(crate) fn encode_plan<B: Send + Sync>(
    config: &VideoVaeConfig,
    tiles: TileGeometry,
    frames: usize,
    [height, width]: [usize; 2],
) -> ActivationPlan {
    let side = config.spatial_compression();
    let clips = ClipGeometry::of(config).clips(frames);
    let longest = |of: fn(&ClipSpan) -> usize| clips.iter().map(of).max().unwrap_or(0);
    let (rows, columns) = (split_tiles(height, tiles, side), split_tiles(width, tiles, side));
    let size = [longest(|clip| clip.frames), rows[0].len, columns[0].len];
    let mut buffers = EncodeBuffers::<B>::plan(config, size).buffers().to_vec();
    let in_latents = |spans: &[Span]| spans.iter().map(|span| span.in_latents(side)).collect::<Vec<_>>();
    let (rows, columns) = (in_latents(&rows), in_latents(&columns));
    let latents = longest(|clip| clip.latents);
    buffers.extend(mosaic_plan(DType::F32, 2 * config.latent_channels, latents, &rows, &columns));
    ActivationPlan::new(buffers)
}

/// The shortest side: the last levels mirror their pictures' edges, for which two latents are needed.
fn least_side(config: &VideoVaeConfig) -> usize {
    2 * config.spatial_compression()
}
