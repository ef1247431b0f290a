//! The pixels of the generated video: from a named ratio, or as asked for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::geometry::GeometryProfile;

/// The narrowest ratio of width to height that the model was trained on, and its inverse the widest.
const MIN_RATIO: f64 = 0.25;
const MAX_RATIO: f64 = 4.0;

/// The width and height of a video, in pixels; both are positive multiples of [`Canvas::MULTIPLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Sides")]
pub struct Canvas {
    width: u32,
    height: u32,
}

impl Canvas {
    /// The unit of both sides: 16 pixels per latent of the video VAE times 2 latents per transformer patch.
    pub const MULTIPLE: u32 = 32;

    /// Pixels per latent along each side.
    const LATENT_STRIDE: u32 = 16;

    /// Makes a canvas of the given sides, in pixels.
    ///
    /// Errors: [`CanvasError::Multiple`] unless both are positive multiples of [`Canvas::MULTIPLE`].
    pub fn new(width: u32, height: u32) -> Result<Self, CanvasError> {
        let fits = |side: u32| side > 0 && side.is_multiple_of(Self::MULTIPLE);
        if fits(width) && fits(height) {
            Ok(Self { width, height })
        } else {
            Err(CanvasError::Multiple { width, height })
        }
    }

    /// Returns the width in pixels.
    pub fn width(self) -> u32 {
        self.width
    }

    /// Returns the height in pixels.
    pub fn height(self) -> u32 {
        self.height
    }

    /// Returns the area in pixels.
    pub fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Returns the height in latents of the video VAE.
    pub fn latent_height(self) -> u32 {
        self.height / Self::LATENT_STRIDE
    }

    /// Returns the width in latents of the video VAE.
    pub fn latent_width(self) -> u32 {
        self.width / Self::LATENT_STRIDE
    }
}

impl fmt::Display for Canvas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// The sides of a canvas as they are written down, not yet checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sides {
    width: u32,
    height: u32,
}

impl TryFrom<Sides> for Canvas {
    type Error = CanvasError;

    fn try_from(sides: Sides) -> Result<Self, Self::Error> {
        Self::new(sides.width, sides.height)
    }
}

/// Why two sides or a ratio make no canvas.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CanvasError {
    /// A side is zero or not a multiple of the canvas unit.
    #[error("canvas sides must be positive multiples of 32, got {width}x{height}")]
    Multiple {
        /// The width as given.
        width: u32,
        /// The height as given.
        height: u32,
    },
    /// A side vanished when it was floored.
    #[error("canvas sides must be at least {multiple} pixels, got {width}x{height}")]
    TooSmall {
        /// The width as asked for.
        width: u64,
        /// The height as asked for.
        height: u64,
        /// The unit that sides are floored to.
        multiple: u32,
    },
    /// The canvas is narrower or wider than the model was trained for.
    #[error("canvas ratio must be between 1:4 and 4:1, got {width}x{height}")]
    Ratio {
        /// The width after flooring.
        width: u64,
        /// The height after flooring.
        height: u64,
    },
    /// The canvas has more pixels than the checkpoint is made for.
    #[error(
        "canvas may cover at most {max_pixels} pixels, or be what an aspect ratio gives, got {width}x{height} = {pixels} pixels"
    )]
    TooLarge {
        /// The width after flooring.
        width: u64,
        /// The height after flooring.
        height: u64,
        /// The area after flooring.
        pixels: u128,
        /// The geometry's area limit.
        max_pixels: u64,
    },
    /// A ratio is no number, or outside the model's range.
    #[error("aspect ratio must be between 1:4 and 4:1, got {0}")]
    AspectRatio(f64),
}

impl GeometryProfile {
    /// Derives the canvas of a ratio of width to height.
    ///
    /// The short edge starts at `canvas_short_edge`; an area above `canvas_max_pixels` scales both sides down to it;
    /// then each side is rounded to the nearest `canvas_multiple`, halves to even, and at least one. As rounding comes
    /// last, the area may end slightly above `canvas_max_pixels`.
    ///
    /// Errors: [`CanvasError::AspectRatio`] outside 1:4 to 4:1.  Source: diffusers 0.42.1 `resolve_canvas_size`.
    pub fn canvas(&self, ratio: f64) -> Result<Canvas, CanvasError> {
        if !(MIN_RATIO..=MAX_RATIO).contains(&ratio) {
            return Err(CanvasError::AspectRatio(ratio));
        }
        let short_edge = f64::from(self.canvas_short_edge);
        let (mut width, mut height) =
            if ratio >= 1.0 { (short_edge * ratio, short_edge) } else { (short_edge, short_edge / ratio) };
        let area = width * height;
        if area > self.canvas_max_pixels as f64 {
            let scale = (self.canvas_max_pixels as f64 / area).sqrt();
            width *= scale;
            height *= scale;
        }
        Canvas::new(self.round_side(width), self.round_side(height))
    }

    /// Makes a canvas of the sides that a request asks for, in pixels.
    ///
    /// Both are floored to `canvas_multiple`. The result must not vanish, must lie between 1:4 and 4:1, and must cover
    /// at most `canvas_max_pixels`, except that a canvas which [`GeometryProfile::canvas`] itself gives for some ratio
    /// is always accepted: 1408x736 is what the ratio 1.91 rounds to, and asking for it by name means the same thing.
    ///
    /// Errors: [`CanvasError::TooSmall`], [`CanvasError::Ratio`], [`CanvasError::TooLarge`].
    pub fn explicit_canvas(&self, width: u64, height: u64) -> Result<Canvas, CanvasError> {
        let multiple = u64::from(self.canvas_multiple);
        let (floored_width, floored_height) = (width / multiple * multiple, height / multiple * multiple);
        if floored_width == 0 || floored_height == 0 {
            return Err(CanvasError::TooSmall { width, height, multiple: self.canvas_multiple });
        }
        let (width, height) = (floored_width, floored_height);
        if u128::from(width) > 4 * u128::from(height) || u128::from(height) > 4 * u128::from(width) {
            return Err(CanvasError::Ratio { width, height });
        }
        let pixels = u128::from(width) * u128::from(height);
        let too_large = CanvasError::TooLarge { width, height, pixels, max_pixels: self.canvas_max_pixels };
        let (Ok(width), Ok(height)) = (u32::try_from(width), u32::try_from(height)) else {
            return Err(too_large);
        };
        let canvas = Canvas::new(width, height)?;
        if pixels <= u128::from(self.canvas_max_pixels) || self.is_canvas_of_some_ratio(canvas) {
            Ok(canvas)
        } else {
            Err(too_large)
        }
    }

    fn round_side(&self, side: f64) -> u32 {
        let multiple = f64::from(self.canvas_multiple);
        let units = (side / multiple).round_ties_even().max(1.0);
        (units * multiple) as u32
    }

    /// Tells whether an area-limited ratio rounds to this canvas.
    ///
    /// Scaled to the area limit M, the ratio a has sides sqrt(M·a) and sqrt(M/a). Each side fixes an interval of
    /// ratios that round to it; the middle of what both have in common decides, by running the rule itself.
    fn is_canvas_of_some_ratio(&self, canvas: Canvas) -> bool {
        let max_pixels = self.canvas_max_pixels as f64;
        let half = f64::from(self.canvas_multiple) / 2.0;
        let least = |side: u32| {
            if side == self.canvas_multiple {
                0.0 // everything below one unit is rounded up to it
            } else {
                f64::from(side) - half
            }
        };
        let most = |side: u32| f64::from(side) + half;
        let low =
            (least(canvas.width).powi(2) / max_pixels).max(max_pixels / most(canvas.height).powi(2)).max(MIN_RATIO);
        let high =
            (most(canvas.width).powi(2) / max_pixels).min(max_pixels / least(canvas.height).powi(2)).min(MAX_RATIO);
        low <= high && self.canvas((low * high).sqrt()) == Ok(canvas)
    }
}

/// One of the ratios of width to height that requests name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AspectRatio {
    width: u32,
    height: u32,
}

impl AspectRatio {
    /// Holds the supported ratios, widest first.
    pub const ALL: [Self; 6] =
        [Self::of(21, 9), Self::of(16, 9), Self::of(4, 3), Self::of(1, 1), Self::of(3, 4), Self::of(9, 16)];

    /// What a request with references gets that names none.
    pub const WIDE: Self = Self::of(16, 9);

    const fn of(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    /// Returns width over height.
    pub fn value(self) -> f64 {
        f64::from(self.width) / f64::from(self.height)
    }

    /// Tells whether a text asks for the ratio of the input picture, which only keyframes have.
    pub fn is_adaptive(text: &str) -> bool {
        matches!(text.trim().to_ascii_lowercase().as_str(), "adaptive" | "auto")
    }
}

impl fmt::Display for AspectRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.width, self.height)
    }
}

impl FromStr for AspectRatio {
    type Err = UnknownAspectRatio;

    /// Reads a name such as `16:9`, or a decimal that equals one of the supported ratios to 1e-6.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const TOLERANCE: f64 = 1e-6;
        let asked = text.trim();
        let decimal = asked.parse::<f64>().ok();
        Self::ALL
            .into_iter()
            .find(|ratio| {
                asked == ratio.to_string() || decimal.is_some_and(|value| (value - ratio.value()).abs() <= TOLERANCE)
            })
            .ok_or_else(|| UnknownAspectRatio(text.to_owned()))
    }
}

/// Says that a text is none of the supported ratios.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("aspect_ratio must be one of 21:9, 16:9, 4:3, 1:1, 3:4, 9:16 or the equal decimal, got {0:?}")]
pub struct UnknownAspectRatio(pub String);

#[cfg(test)]
mod tests;
