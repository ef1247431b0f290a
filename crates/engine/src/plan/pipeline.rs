//! How long a step takes whose blocks stream through two slots.

use crate::weights::SLOTS;

/// The blocks of a step: the leading ones are on the device, the others are copied one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pipeline {
    pub(super) resident: usize,
    pub(super) streamed: usize,
    /// Seconds that a block computes.
    pub(super) compute_seconds: f64,
    /// Seconds that a block is copied.
    pub(super) copy_seconds: f64,
}

/// What the first step and every later one take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepSeconds {
    pub(super) first: f64,
    pub(super) later: f64,
}

impl Pipeline {
    /// Plays steps until they repeat. A copy begins when the one before has ended and its slot is free; a block computes when
    /// the one before has and it is there. The first copy of the first step hides behind nothing but resident blocks.
    pub(super) fn play(&self) -> StepSeconds {
        const STEPS: usize = 4;
        let (mut copied, mut computed) = (0.0f64, 0.0f64);
        // When each slot was last computed with.
        let mut freed = [0.0f64; SLOTS];
        let mut slot = 0;
        let mut ends = Vec::with_capacity(STEPS);
        for _ in 0..STEPS {
            computed += self.resident as f64 * self.compute_seconds;
            for _ in 0..self.streamed {
                copied = copied.max(freed[slot]) + self.copy_seconds;
                computed = computed.max(copied) + self.compute_seconds;
                freed[slot] = computed;
                slot = (slot + 1) % SLOTS;
            }
            ends.push(computed);
        }
        StepSeconds { first: ends[0], later: ends[STEPS - 1] - ends[STEPS - 2] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_copy_that_is_shorter_hides_but_for_the_first() {
        let step = Pipeline { resident: 0, streamed: 50, compute_seconds: 0.1178, copy_seconds: 0.0139 }.play();
        assert!((step.first - (50.0 * 0.1178 + 0.0139)).abs() < 1e-9, "{step:?}");
        assert!((step.later - 50.0 * 0.1178).abs() < 1e-9, "{step:?}");
        // 118.5 ms a block were measured for these rates on an H200, 39,000 rows.
        assert!((step.first / 50.0 / 0.1185 - 1.0).abs() < 0.01);
    }

    #[test]
    fn leading_residents_hide_only_as_many_copies_as_there_are_slots() {
        let alone = Pipeline { resident: 0, streamed: 50, compute_seconds: 0.010, copy_seconds: 0.014 };
        let half = Pipeline { resident: 25, streamed: 25, ..alone };
        assert!((alone.play().later - 50.0 * 0.014).abs() < 1e-9);
        // 25 computed while two are copied, then one copy after the other for the 23 that are left.
        let later = half.play().later;
        assert!((25.0 * 0.010 + 23.0 * 0.014..25.0 * 0.010 + 25.0 * 0.014).contains(&later), "{later}");
    }

    proptest! {
        #[test]
        fn a_step_is_never_shorter_than_its_copies_or_its_blocks(
            resident in 0usize..40, streamed in 2usize..40, compute in 0.001f64..0.1, copy in 0.001f64..0.1,
        ) {
            let step = Pipeline { resident, streamed, compute_seconds: compute, copy_seconds: copy }.play();
            let computed = (resident + streamed) as f64 * compute;
            prop_assert!(step.later >= computed - 1e-9 && step.later >= streamed as f64 * copy - 1e-9);
            prop_assert!(step.later <= computed + streamed as f64 * copy + 1e-9);
            prop_assert!(step.first <= step.later + copy + 1e-9);
        }
    }
}
