//! Whether noise levels are those of a checkpoint.

use clapboard_h3::{ModelProfile, Sigmas};

/// How far two levels may be apart that are the same one, computed from shifts that differ by their rounding.
const TOLERANCE: f64 = 1e-4;

/// Tells whether a served model could have made such a grid: any, unless the checkpoint is distilled for levels of its own, which
/// then have to be these, pushed by whatever shift.
pub(super) fn fits(grid: &Sigmas, profile: &ModelProfile) -> bool {
    match &profile.base_schedule {
        Some(base) => is_shifted(grid.values(), base),
        None => true,
    }
}

/// Tells whether a grid is made of base levels by one shift s: each level b becomes s·b / (1 + (s-1)·b).
fn is_shifted(grid: &[f32], base: &[f32]) -> bool {
    let pairs = || grid.iter().zip(base).map(|(&level, &base)| (f64::from(level), f64::from(base)));
    // The level in the middle says most exactly what the shift was: s = level·(1-b) / (b·(1-level)).
    let inner = pairs().filter(|(level, base)| *level > 0.0 && *level < 1.0 && *base > 0.0 && *base < 1.0);
    let middle = inner.min_by(|a, b| (a.0 - 0.5).abs().total_cmp(&(b.0 - 0.5).abs()));
    let shift = middle.map_or(1.0, |(level, base)| level * (1.0 - base) / (base * (1.0 - level)));
    let pushed = |base: f64| shift * base / (1.0 + (shift - 1.0) * base);
    grid.len() == base.len() && pairs().all(|(level, base)| (level - pushed(base)).abs() < TOLERANCE)
}

#[cfg(test)]
mod tests {
    use clapboard_h3::Partition;
    use proptest::prelude::*;

    use super::*;

    const BASE: [f32; 5] = [0.999, 0.9, 0.6, 0.25, 0.0];

    fn distilled() -> ModelProfile {
        let released = ModelProfile::released("h3", vec![Partition::Fl2va]);
        ModelProfile { base_schedule: Some(BASE.to_vec()), ..released }
    }

    proptest! {
        #[test]
        fn what_a_checkpoint_makes_by_any_shift_is_its_own(shift in 0.6f64..50.0) {
            prop_assert!(fits(&Sigmas::from_base(&BASE, shift).unwrap(), &distilled()));
        }

        #[test]
        fn equal_steps_are_no_distilled_ones_however_many_and_whatever_the_shift(
            points in 3u32..60, shift in 0.2f64..20.0
        ) {
            let grid = Sigmas::shifted(points, shift).unwrap();
            prop_assert!(!fits(&grid, &distilled()));
            prop_assert!(fits(&grid, &ModelProfile::released("h3", vec![Partition::Fl2va])));
        }
    }
}
