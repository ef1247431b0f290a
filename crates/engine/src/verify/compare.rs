//! How far a stage is from its golden tensor.

/// What is measured, and how far it may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Every value equal; the error is the number of values that differ.
    Exact,
    /// Root mean square of the difference over that of the golden values.
    RelativeRms(f64),
    /// Largest difference of two values.
    Absolute(f64),
    /// Largest relative difference of two values, in units of 2⁻²³: one step in the last place of an F32.
    LastPlaces(f64),
    /// 8-bit levels: the largest difference, and which share of values may differ at all.
    Levels {
        /// Largest difference.
        most: u8,
        /// Share of values that may differ.
        share: f64,
    },
    /// 8-bit levels: which share of values may differ by more than `most`, and by how much; the error is their share.
    LevelsBeyond {
        /// Largest difference of the others.
        most: u8,
        /// Share of values that may differ by more.
        share: f64,
        /// Largest difference of all.
        worst: u8,
    },
}

/// By how much 8-bit values differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelDifferences {
    /// The largest difference.
    pub worst: u8,
    /// The share of values that differ by more than [`LevelDifferences::FAR`].
    pub far: f64,
}

impl LevelDifferences {
    /// What counts as far.
    pub const FAR: u8 = 4;
}

/// The outcome of one comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Comparison {
    pub(super) error: f64,
    pub(super) passed: bool,
    /// How 8-bit values differ, where such were compared.
    pub(super) levels: Option<LevelDifferences>,
}

impl Comparison {
    fn of(error: f64, passed: bool) -> Self {
        Self { error, passed, levels: None }
    }

    /// Values that cannot be compared.
    pub(super) fn hopeless() -> Self {
        Self::of(f64::INFINITY, false)
    }
}

impl Tolerance {
    /// Compares floats. What is not finite on either side fails, since its differences would be lost in a maximum.
    pub(super) fn floats(self, actual: &[f32], golden: &[f32]) -> Comparison {
        if actual.len() != golden.len() || actual.iter().chain(golden).any(|value| !value.is_finite()) {
            return Comparison::hopeless();
        }
        let pairs = || actual.iter().zip(golden).map(|(a, g)| (f64::from(*a), f64::from(*g)));
        let (error, limit) = match self {
            Tolerance::Exact => (actual.iter().zip(golden).filter(|(a, g)| a != g).count() as f64, 0.0),
            Tolerance::RelativeRms(limit) => {
                let difference: f64 = pairs().map(|(a, g)| (a - g) * (a - g)).sum();
                let size: f64 = pairs().map(|(_, g)| g * g).sum();
                (if difference == 0.0 { 0.0 } else { (difference / size).sqrt() }, limit)
            }
            Tolerance::Absolute(limit) => (pairs().map(|(a, g)| (a - g).abs()).fold(0.0, f64::max), limit),
            Tolerance::LastPlaces(limit) => {
                let unit = f64::from(f32::EPSILON);
                let places = |(a, g): (f64, f64)| if a == g { 0.0 } else { (a - g).abs() / g.abs() / unit };
                (pairs().map(places).fold(0.0, f64::max), limit)
            }
            Tolerance::Levels { .. } | Tolerance::LevelsBeyond { .. } => (f64::INFINITY, 0.0),
        };
        Comparison::of(error, error <= limit)
    }

    /// Compares 8-bit levels.
    pub(super) fn bytes(self, actual: &[u8], golden: &[u8]) -> Comparison {
        if actual.len() != golden.len() || golden.is_empty() {
            return Comparison::hopeless();
        }
        let differences = || actual.iter().zip(golden).map(|(a, g)| a.abs_diff(*g));
        let share_beyond = |level: u8| {
            let beyond = differences().filter(|difference| *difference > level).count();
            beyond as f64 / golden.len() as f64
        };
        let worst = differences().max().unwrap_or(0);
        let levels = Some(LevelDifferences { worst, far: share_beyond(LevelDifferences::FAR) });
        let (error, passed) = match self {
            Tolerance::LevelsBeyond { most, share, worst: limit } => {
                let beyond = share_beyond(most);
                (beyond, beyond <= share && worst <= limit)
            }
            Tolerance::Levels { most, share } => (f64::from(worst), worst <= most && share_beyond(0) <= share),
            _ => (f64::from(worst), worst == 0),
        };
        Comparison { error, passed, levels }
    }
}

/// Compares values that have to be equal.
pub(super) fn equal<T: PartialEq>(actual: &[T], golden: &[T]) -> Comparison {
    if actual.len() != golden.len() {
        return Comparison::hopeless();
    }
    let differing = actual.iter().zip(golden).filter(|(a, g)| a != g).count();
    Comparison::of(differing as f64, differing == 0)
}

/// Compares doubles bit by bit.
pub(super) fn equal_bits(actual: &[f64], golden: &[f64]) -> Comparison {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    equal(&bits(actual), &bits(golden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_or_a_nan_never_passes() {
        let loose = Tolerance::RelativeRms(1e9);
        assert!(!loose.floats(&[1.0], &[1.0, 2.0]).passed);
        for tolerance in [loose, Tolerance::Absolute(1e9), Tolerance::LastPlaces(1e9), Tolerance::Exact] {
            assert!(!tolerance.floats(&[f32::NAN], &[1.0]).passed, "{tolerance}");
            assert!(!tolerance.floats(&[1.0], &[f32::NAN]).passed, "{tolerance}");
        }
        assert!(!Tolerance::Levels { most: 255, share: 1.0 }.bytes(&[], &[]).passed);
    }

    #[test]
    fn relative_rms_is_the_error_over_the_size() {
        let Comparison { error, passed, .. } = Tolerance::RelativeRms(0.2).floats(&[3.0, 4.5], &[3.0, 4.0]);
        assert!((error - 0.1).abs() < 1e-12 && passed);
    }

    #[test]
    fn levels_bound_both_the_worst_and_the_share() {
        let levels = Tolerance::Levels { most: 1, share: 0.25 };
        assert!(levels.bytes(&[1, 1, 1, 2], &[1, 1, 1, 1]).passed);
        assert!(!levels.bytes(&[1, 1, 2, 2], &[1, 1, 1, 1]).passed);
        assert!(!levels.bytes(&[1, 1, 1, 3], &[1, 1, 1, 1]).passed);
    }

    #[test]
    fn a_share_of_levels_may_lie_beyond_but_not_far() {
        let levels = Tolerance::LevelsBeyond { most: 4, share: 0.25, worst: 8 };
        assert!(levels.bytes(&[5, 1, 9, 1], &[1, 1, 1, 1]).passed);
        assert!(!levels.bytes(&[6, 1, 9, 1], &[1, 1, 1, 1]).passed);
        assert!(!levels.bytes(&[1, 1, 10, 1], &[1, 1, 1, 1]).passed);
        let Comparison { error, levels: seen, .. } = levels.bytes(&[6, 1, 9, 1], &[1, 1, 1, 1]);
        assert_eq!((error, seen), (0.5, Some(LevelDifferences { worst: 8, far: 0.5 })));
        assert!(!levels.bytes(&[], &[]).passed);
    }

    #[test]
    fn last_places_count_steps_of_an_f32() {
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        assert!(Tolerance::LastPlaces(1.0).floats(&[next, 0.0], &[1.0, 0.0]).passed);
        assert!(!Tolerance::LastPlaces(1.0).floats(&[1e-9], &[0.0]).passed);
    }
}
