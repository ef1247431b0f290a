//! The sizes and durations that one checkpoint is made for.

use serde::{Deserialize, Serialize};

use crate::canvas::Canvas;
use crate::frames::FrameCount;

/// The limits of canvas and duration that come with a checkpoint; the tiny checkpoints shrink them.
///
/// The rules of the canvas itself are in [`GeometryProfile::canvas`] and [`GeometryProfile::explicit_canvas`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometryProfile {
    /// The short edge, in pixels, that a canvas derived from a ratio aims at.
    pub canvas_short_edge: u32,
    /// The area, in pixels, that a canvas derived from a ratio is scaled down to before its sides are rounded.
    pub canvas_max_pixels: u64,
    /// What both sides of a canvas are a multiple of, in pixels; itself a multiple of [`Canvas::MULTIPLE`].
    pub canvas_multiple: u32,
    /// The short edge, in pixels, that reference images are resized to.
    pub reference_image_short_edge: u32,
    /// The shortest duration a request may ask for, in seconds, before frames are snapped.
    pub min_duration_seconds: f64,
    /// The longest duration a request may ask for, in seconds, before frames are snapped.
    pub max_duration_seconds: f64,
}

impl GeometryProfile {
    /// Returns the geometry of the released checkpoints: the 768x1344 class, 4 to 15 seconds.
    pub fn released() -> Self {
        Self {
            canvas_short_edge: 768,
            canvas_max_pixels: 768 * 1344,
            canvas_multiple: 32,
            reference_image_short_edge: 2048,
            min_duration_seconds: 4.0,
            max_duration_seconds: 15.0,
        }
    }

    /// Checks that the numbers make sense together.
    ///
    /// Errors: the first [`GeometryError`] found; every rule of canvas and duration here assumes that there is none.
    pub fn check(&self) -> Result<(), GeometryError> {
        if self.canvas_multiple == 0 || !self.canvas_multiple.is_multiple_of(Canvas::MULTIPLE) {
            return Err(GeometryError::Multiple(self.canvas_multiple));
        }
        if self.canvas_short_edge < self.canvas_multiple {
            return Err(GeometryError::ShortEdge {
                short_edge: self.canvas_short_edge,
                multiple: self.canvas_multiple,
            });
        }
        if self.canvas_max_pixels < u64::from(self.canvas_multiple).pow(2) {
            return Err(GeometryError::MaxPixels {
                max_pixels: self.canvas_max_pixels,
                multiple: self.canvas_multiple,
            });
        }
        if self.reference_image_short_edge == 0 {
            return Err(GeometryError::ReferenceShortEdge);
        }
        let (min, max) = (self.min_duration_seconds, self.max_duration_seconds);
        if !(0.0 < min && min <= max && max <= FrameCount::MAX.seconds()) {
            return Err(GeometryError::Durations { min, max });
        }
        Ok(())
    }
}

/// Why a geometry profile cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GeometryError {
    /// The multiple would give canvases that the networks cannot patchify.
    #[error("canvas_multiple must be a positive multiple of 32, got {0}")]
    Multiple(u32),
    /// No canvas has so short an edge.
    #[error("canvas_short_edge must be at least canvas_multiple {multiple}, got {short_edge}")]
    ShortEdge {
        /// The short edge of the profile.
        short_edge: u32,
        /// The multiple of the profile.
        multiple: u32,
    },
    /// No canvas has so small an area.
    #[error("canvas_max_pixels must be at least the square of canvas_multiple {multiple}, got {max_pixels}")]
    MaxPixels {
        /// The area of the profile.
        max_pixels: u64,
        /// The multiple of the profile.
        multiple: u32,
    },
    /// Reference images would vanish.
    #[error("reference_image_short_edge must be positive, got 0")]
    ReferenceShortEdge,
    /// The range of durations is empty, not made of numbers, or reaches beyond an hour.
    #[error(
        "min_duration_seconds and max_duration_seconds must satisfy 0 < min <= max <= {most}, got {min} and {max}",
        most = FrameCount::MAX.seconds()
    )]
    Durations {
        /// The least duration of the profile.
        min: f64,
        /// The greatest duration of the profile.
        max: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_released_geometry_is_sound() {
        assert_eq!(GeometryProfile::released().check(), Ok(()));
    }

    #[test]
    fn broken_profiles_are_named() {
        let released = GeometryProfile::released;
        let mut g = released();
        g.canvas_multiple = 48;
        assert_eq!(g.check(), Err(GeometryError::Multiple(48)));
        let mut g = released();
        g.canvas_short_edge = 16;
        assert!(matches!(g.check(), Err(GeometryError::ShortEdge { .. })));
        let mut g = released();
        g.canvas_max_pixels = 1000;
        assert!(matches!(g.check(), Err(GeometryError::MaxPixels { .. })));
        let mut g = released();
        g.reference_image_short_edge = 0;
        assert_eq!(g.check(), Err(GeometryError::ReferenceShortEdge));
        for (min, max) in [(0.0, 15.0), (f64::NAN, 15.0), (4.0, f64::INFINITY), (5.0, 4.0), (4.0, 3601.0)] {
            let mut g = released();
            (g.min_duration_seconds, g.max_duration_seconds) = (min, max);
            assert!(matches!(g.check(), Err(GeometryError::Durations { .. })));
        }
    }
}
