//! What a run takes, in floating-point operations.
//!
//! Counted are the linear layers and the attention of the transformer's blocks and of the video decoder, which are
//! nearly all of a run: the text encoder, the token refiner and the audio decoder are left out (some TFLOP together,
//! against thousands). A multiply-add counts as two operations.

use std::fmt;
use std::ops::{Add, Mul};

use serde::{Deserialize, Serialize};

use crate::canvas::Canvas;
use crate::frames::FrameCount;

/// A number of floating-point operations, in units of 10^12.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tflop(f64);

impl Tflop {
    /// Returns the number in units of 10^12.
    pub fn get(self) -> f64 {
        self.0
    }

    fn from_flop(flop: f64) -> Self {
        Self(flop / 1e12)
    }
}

impl Add for Tflop {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Mul<f64> for Tflop {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }
}

impl fmt::Display for Tflop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} TFLOP", self.0)
    }
}

/// The sizes of a stack of equal attention blocks with a gated feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStack {
    /// The width of the residual stream, H.
    pub hidden: u32,
    /// Heads times head width, I.
    pub inner: u32,
    /// The width of the feed-forward, F.
    pub ffn: u32,
    /// The number of blocks.
    pub layers: u32,
}

impl BlockStack {
    /// Returns the cost of one pass of `rows` rows: `2·S·(3HI + IH + 3HF) + 4·S²·I` per block.
    pub fn forward(&self, rows: usize) -> Tflop {
        let [hidden, inner, ffn] = [self.hidden, self.inner, self.ffn].map(f64::from);
        let rows = rows as f64;
        let linear = 2.0 * rows * (4.0 * hidden * inner + 3.0 * hidden * ffn);
        let attention = 4.0 * rows * rows * inner;
        Tflop::from_flop(f64::from(self.layers) * (linear + attention))
    }
}

/// The video decoder: its blocks, and how frames and pixels are cut into pieces for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoDecoder {
    /// Its blocks.
    pub blocks: BlockStack,
    /// Channels of a latent.
    pub latent_channels: u32,
    /// Values that one token becomes: 3 channels, 4 frames, 16 x 16 pixels.
    pub token_values: u32,
    /// The side of a tile, in pixels.
    pub tile: u32,
    /// The least overlap of neighbouring tiles, in pixels.
    pub min_overlap: u32,
}

impl VideoDecoder {
    /// Latent frames of one temporal chunk, and by how many the next chunk starts later.
    const CHUNK_LATENTS: u32 = 7;
    const CHUNK_STRIDE: u32 = 5;
    /// Latent frames that the encoder drops at the end of a video.
    const TOKEN_DROP: u32 = 3;
    /// Register tokens and the zero token that go with every piece.
    const EXTRA_TOKENS: u32 = 5;
    /// Pixels per latent along each side.
    const LATENT_STRIDE: u32 = 16;

    /// Counts the tiles along a side of `length` pixels: the fewest that cover it with the least overlap.
    pub fn tiles(&self, length: u32) -> u32 {
        length.saturating_sub(self.min_overlap).div_ceil(self.tile - self.min_overlap).max(1)
    }

    /// Counts the temporal chunks of a video.
    pub fn chunks(&self, frames: FrameCount) -> u32 {
        (frames.latent_frames() + Self::TOKEN_DROP).div_ceil(Self::CHUNK_STRIDE) - 1
    }

    /// Returns the cost of decoding a whole video.
    pub fn decode(&self, canvas: Canvas, frames: FrameCount) -> Tflop {
        let latents = |side: u32| side.min(self.tile) / Self::LATENT_STRIDE;
        let tokens = Self::CHUNK_LATENTS * latents(canvas.height()) * latents(canvas.width());
        let ends = f64::from(self.latent_channels + self.token_values);
        let projections = 2.0 * f64::from(tokens) * f64::from(self.blocks.hidden) * ends;
        let piece = self.blocks.forward((tokens + Self::EXTRA_TOKENS) as usize) + Tflop::from_flop(projections);
        let [down, across, chunks] =
            [self.tiles(canvas.height()), self.tiles(canvas.width()), self.chunks(frames)].map(f64::from);
        piece * (down * across * chunks)
    }
}

/// The sizes that a run's cost follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostModel {
    /// The diffusion transformer.
    pub transformer: BlockStack,
    /// The video decoder.
    pub video_decoder: VideoDecoder,
}

impl CostModel {
    /// Returns the sizes of the released checkpoints.
    pub fn released() -> Self {
        Self {
            transformer: BlockStack { hidden: 5376, inner: 7168, ffn: 14336, layers: 50 },
            video_decoder: VideoDecoder {
                blocks: BlockStack { hidden: 2048, inner: 2048, ffn: 8192, layers: 36 },
                latent_channels: 24,
                token_values: 3072,
                tile: 256,
                min_overlap: 64,
            },
        }
    }

    /// Returns the cost of a run: `forwards` passes of `rows` packed rows, and the decoding of the video.
    pub fn generation(&self, rows: usize, forwards: usize, canvas: Canvas, frames: FrameCount) -> Tflop {
        self.transformer.forward(rows) * forwards as f64 + self.video_decoder.decode(canvas, frames)
    }
}

#[cfg(test)]
mod tests;
