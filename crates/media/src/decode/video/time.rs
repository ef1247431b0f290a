//! Exact times of frames, and the slots of a constant rate that they fall into.

use crate::FrameRate;

/// How long a tick of a stream's clock lasts, in seconds, as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBase {
    /// Seconds…
    pub numerator: u32,
    /// …in so many ticks; not zero.
    pub denominator: u32,
}

/// A time in ticks of a stream's clock, counted from its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// Ticks since the first frame.
    pub ticks: i64,
    /// How long a tick lasts.
    pub time_base: TimeBase,
}

impl Timestamp {
    /// The time in seconds, rounded to an `f64`.
    pub fn as_seconds(&self) -> f64 {
        self.ticks as f64 * f64::from(self.time_base.numerator) / f64::from(self.time_base.denominator)
    }

    /// The slot that the time falls into at a constant `rate`: `floor(time * rate + 1/2)`, exactly.
    ///
    /// For frame `i` of a video at a constant `fps` this is `floor(i * rate / fps + 1/2)`.
    pub fn slot(&self, rate: FrameRate) -> i64 {
        let seconds = i128::from(self.ticks) * i128::from(self.time_base.numerator);
        let over = seconds.saturating_mul(2 * i128::from(rate.numerator));
        let under = i128::from(self.time_base.denominator) * i128::from(rate.denominator);
        let slot = over.saturating_add(under).div_euclid(2 * under);
        slot.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// The time one frame of `rate` later, on a clock that has both.
    pub(crate) fn one_frame_later(&self, rate: FrameRate) -> Option<Self> {
        // t = (ticks * n * rn + rd * d) / (d * rn)
        let TimeBase { numerator, denominator } = self.time_base;
        let seconds = i128::from(self.ticks) * i128::from(numerator);
        let frame = i128::from(rate.denominator) * i128::from(denominator);
        let ticks = seconds.saturating_mul(rate.numerator.into()).saturating_add(frame);
        let denominator = denominator.checked_mul(rate.numerator)?;
        Some(Self { ticks: i64::try_from(ticks).ok()?, time_base: TimeBase { numerator: 1, denominator } })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILM: FrameRate = FrameRate { numerator: 24, denominator: 1 };

    proptest! {
        #[test]
        fn slots_are_those_of_the_constant_rate_formula(i in 0i64..1000, fps in 1u32..121) {
            let time = Timestamp { ticks: i * 512, time_base: TimeBase { numerator: 1, denominator: 512 * fps } };
            // floor(24 i / fps + 1/2) in whole numbers.
            prop_assert_eq!(time.slot(FILM), (48 * i + i64::from(fps)) / (2 * i64::from(fps)));
            let end = time.one_frame_later(FrameRate { numerator: fps, denominator: 1 }).unwrap();
            prop_assert_eq!(end.slot(FILM), (48 * (i + 1) + i64::from(fps)) / (2 * i64::from(fps)));
        }

        #[test]
        fn no_number_of_ticks_overflows(ticks: i64, numerator in 1u32.., denominator in 1u32..) {
            let time = Timestamp { ticks, time_base: TimeBase { numerator, denominator } };
            let rate = FrameRate { numerator: u32::MAX, denominator: 1 };
            time.slot(rate);
            time.one_frame_later(rate);
        }
    }

    #[test]
    fn the_rates_of_television_fall_where_they_should() {
        let ntsc = |i: i64| Timestamp { ticks: 1001 * i, time_base: TimeBase { numerator: 1, denominator: 30_000 } };
        let slots: Vec<_> = (0..8).map(|i| ntsc(i).slot(FILM)).collect();
        assert_eq!(slots, [0, 1, 2, 2, 3, 4, 5, 6]);
        let halves = |i: i64| Timestamp { ticks: i, time_base: TimeBase { numerator: 1, denominator: 48 } };
        assert_eq!([0, 1, 2, 3].map(|i| halves(i).slot(FILM)), [0, 1, 1, 2]);
    }
}
