//! The noise levels of a run.

use serde::{Deserialize, Serialize};

/// A grid of noise levels in F32 that falls strictly from 1 (noise) to 0 (clean).
///
/// A grid of N points makes N-1 forwards of the transformer. Video and audio follow a grid each, of equal length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f32>", into = "Vec<f32>")]
pub struct Sigmas(Vec<f32>);

impl Sigmas {
    /// The least number of points a request may ask for: one forward.
    pub const MIN_POINTS: u32 = 2;
    /// The greatest number of points a request may ask for.
    pub const MAX_POINTS: u32 = 200;

    /// How far the first sigma may be from 1: distilled base levels start at 0.999.
    const START_TOLERANCE: f32 = 2e-3;

    /// Makes the grid of `points` equidistant levels, pushed towards noise by `shift`.
    ///
    /// Errors: [`SigmasError::Points`] outside 2 to 200; [`SigmasError::Shift`] unless finite and positive;
    /// [`SigmasError::Degenerate`] when the shift leaves no usable grid in F32.
    /// Source: diffusers 0.42.1 `MiniMaxH3Scheduler.set_timesteps`.
    pub fn shifted(points: u32, shift: f64) -> Result<Self, SigmasError> {
        if !(Self::MIN_POINTS..=Self::MAX_POINTS).contains(&points) {
            return Err(SigmasError::Points(points));
        }
        Self::from_base(&linspace_from_one_to_zero(points), shift)
    }

    /// Makes the grid of a distilled checkpoint's own base levels, pushed towards noise by `shift`.
    ///
    /// Each level b becomes s·b / (1 + (s-1)·b) in F32; equal neighbours that this makes are collapsed.
    ///
    /// Errors: [`SigmasError::Grid`] unless `base` falls strictly from 1, or 0.999, to 0; otherwise as
    /// [`Sigmas::shifted`].
    pub fn from_base(base: &[f32], shift: f64) -> Result<Self, SigmasError> {
        check_grid(base)?;
        if !(shift.is_finite() && shift > 0.0) {
            return Err(SigmasError::Shift(shift));
        }
        // The two factors are rounded to F32 apart, as PyTorch does with Python scalars.
        let (factor, excess) = (shift as f32, (shift - 1.0) as f32);
        let mut values: Vec<f32> = base.iter().map(|&level| factor * level / (1.0 + excess * level)).collect();
        values.dedup();
        check_grid(&values).map_err(|_| SigmasError::Degenerate { shift, points: base.len() })?;
        Ok(Self(values))
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of forwards: one less than the points.
    pub fn forwards(&self) -> usize {
        self.0.len() - 1
    }

    /// Returns the levels, from about 1 to exactly 0.
    pub fn values(&self) -> &[f32] {
        &self.0
    }

    /// Returns what the transformer is told at each forward: `1 - sigma` in F32, without the last level.
    pub fn timesteps(&self) -> Vec<f32> {
        self.0[..self.forwards()].iter().map(|sigma| 1.0 - sigma).collect()
    }
}

impl TryFrom<Vec<f32>> for Sigmas {
    type Error = SigmasError;

    fn try_from(values: Vec<f32>) -> Result<Self, Self::Error> {
        check_grid(&values)?;
        Ok(Self(values))
    }
}

impl From<Sigmas> for Vec<f32> {
    fn from(sigmas: Sigmas) -> Self {
        sigmas.0
    }
}

/// Counts down from 1 to 0 in F32, from both ends to the middle, with one rounding a level.
///
/// That is `torch.linspace` on a CPU to the bit, whose compiler fuses the multiplication with the addition.
fn linspace_from_one_to_zero(points: u32) -> Vec<f32> {
    let step = -1.0 / (points - 1) as f32;
    (0..points)
        .map(
            |i| {
                if i < points / 2 { step.mul_add(i as f32, 1.0) } else { (-step).mul_add((points - 1 - i) as f32, 0.0) }
            },
        )
        .collect()
}

fn check_grid(values: &[f32]) -> Result<(), SigmasError> {
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return Err(SigmasError::Grid { points: 0 });
    };
    let falls = values.windows(2).all(|pair| pair[1] < pair[0]);
    let starts = (first - 1.0).abs() <= Sigmas::START_TOLERANCE;
    if values.len() >= 2 && falls && starts && *last == 0.0 {
        Ok(())
    } else {
        Err(SigmasError::Grid { points: values.len() })
    }
}

/// Why there is no such grid.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SigmasError {
    /// The number of points is outside what a request may ask for.
    #[error("number of sigma points must be between 2 and 200, got {0}")]
    Points(u32),
    /// The shift is not a finite number above zero.
    #[error("shift must be finite and positive, got {0}")]
    Shift(f64),
    /// The shift is so strong that the levels run together in single precision.
    #[error("shift {shift} leaves no falling grid of {points} sigma points in single precision")]
    Degenerate {
        /// The shift as given.
        shift: f64,
        /// The number of points before the shift.
        points: usize,
    },
    /// The levels do not fall strictly from 1 to 0.
    #[error("sigmas must fall strictly from 1 to 0, got {points} points that do not")]
    Grid {
        /// The number of levels given.
        points: usize,
    },
}

#[cfg(test)]
mod tests;
