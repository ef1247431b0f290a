//! A constant frame rate from frames at any times, by dropping and repeating.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Frame, FrameReader, TimeBase, Timestamp};
use crate::FrameRate;
use crate::decode::Error;

/// Frames of a [`FrameReader`] with how often each is shown at a constant rate.
///
/// A frame is shown from its own slot ([`super::Timestamp::slot`]) to that of the next; the last one lasts for a frame of
/// the average rate, but not beyond the longest that the video may last. A frame whose slot is taken by the next is
/// dropped, as is one that is due before its predecessor. So a variable rate needs no other treatment, and a constant
/// one gets `floor(i * rate / fps + 1/2)`.
#[derive(Debug)]
pub struct ConstantRate {
    reader: FrameReader,
    slots: Slots<Frame>,
}

impl ConstantRate {
    /// Shows the frames of `reader` at `rate`.
    pub fn new(reader: FrameReader, rate: FrameRate) -> Self {
        let slots = Slots::new(rate, reader.longest());
        Self { reader, slots }
    }

    /// The next frame and how many times it is shown, at least once; `None` after the last. Calls `moved` after every frame
    /// that is decoded, also those that are dropped.
    ///
    /// A video of any length shows one frame.
    ///
    /// Errors: those of [`FrameReader::next_frame`].
    pub fn next_frame(&mut self, moved: &mut dyn FnMut(), aborted: &AtomicBool) -> Result<Option<(Frame, u32)>, Error> {
        while let Some(frame) = self.reader.next_frame(aborted)? {
            moved();
            if let Some(shown) = self.slots.push(frame.time, frame) {
                return Ok(Some(shown));
            }
        }
        Ok(self.slots.finish(self.reader.frame_rate()))
    }
}

/// Which of the frames that are due at any times are shown, and how often.
#[derive(Debug)]
struct Slots<F> {
    rate: FrameRate,
    /// The first slot that nothing is shown in any more.
    end: i64,
    /// The frame that is not shown yet, with its time and slot.
    held: Option<(Timestamp, i64, F)>,
    shown: bool,
}

impl<F> Slots<F> {
    fn new(rate: FrameRate, longest: Duration) -> Self {
        let ticks = i64::try_from(longest.as_nanos()).unwrap_or(i64::MAX);
        let end = Timestamp { ticks, time_base: TimeBase { numerator: 1, denominator: 1_000_000_000 } }.slot(rate);
        Self { rate, end, held: None, shown: false }
    }

    /// Takes the next frame; gives the one before when it is shown.
    fn push(&mut self, time: Timestamp, frame: F) -> Option<(F, u32)> {
        let slot = time.slot(self.rate);
        match self.held.as_ref().map(|(_, held, _)| slot.saturating_sub(*held)) {
            // Due before the first frame, or before the one that is held.
            _ if time.ticks < 0 => None,
            Some(..0) => None,
            None | Some(0) => {
                self.held = Some((time, slot, frame));
                None
            }
            Some(1..) => {
                let before = self.held.replace((time, slot, frame));
                before.and_then(|(_, before, frame)| self.show(frame, before, slot))
            }
        }
    }

    /// Gives the last frame, which lasts for one of the average rate.
    fn finish(&mut self, average: Option<FrameRate>) -> Option<(F, u32)> {
        let (time, slot, frame) = self.held.take()?;
        let end = average.and_then(|rate| time.one_frame_later(rate));
        self.show(frame, slot, end.map_or(slot.saturating_add(1), |end| end.slot(self.rate)))
    }

    /// Shows a frame in the slots from `from` up to `to`, as far as they are allowed; the first one at least once.
    fn show(&mut self, frame: F, from: i64, to: i64) -> Option<(F, u32)> {
        let times = to.min(self.end).saturating_sub(from).max(i64::from(!self.shown));
        self.shown = true;
        (times > 0).then(|| (frame, u32::try_from(times).unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILM: FrameRate = FrameRate { numerator: 24, denominator: 1 };

    fn at(ticks: i64, ticks_a_second: u32) -> Timestamp {
        Timestamp { ticks, time_base: TimeBase { numerator: 1, denominator: ticks_a_second } }
    }

    /// How often each of the frames that are due at `ticks` of a 24th of a second is shown.
    fn shown(ticks: &[i64], average: Option<FrameRate>, longest: Duration) -> Vec<(usize, u32)> {
        let mut slots = Slots::new(FILM, longest);
        let mut shown: Vec<_> = ticks.iter().enumerate().filter_map(|(i, tick)| slots.push(at(*tick, 24), i)).collect();
        shown.extend(slots.finish(average));
        shown
    }

    #[test]
    fn frames_out_of_order_are_dropped() {
        let longest = Duration::from_secs(15);
        assert_eq!(shown(&[0, 1, 3, 2, 4], Some(FILM), longest), [(0, 1), (1, 2), (2, 1), (4, 1)]);
        assert_eq!(shown(&[0, -1, -5, 2], Some(FILM), longest), [(0, 2), (3, 1)]);
        assert_eq!(shown(&[-3, -1], Some(FILM), longest), []);
        assert_eq!(shown(&[7, i64::MIN, i64::MAX], None, longest), [(0, 353)]);
    }

    #[test]
    fn nothing_is_shown_beyond_the_longest() {
        // A file may say that it has one frame in a day.
        let slow = FrameRate { numerator: 1, denominator: 86_400 };
        assert_eq!(shown(&[0, 24], Some(slow), Duration::from_secs(2)), [(0, 24), (1, 24)]);
        assert_eq!(shown(&[0], Some(slow), Duration::ZERO), [(0, 1)]);
        assert_eq!(shown(&[0, 48], Some(FILM), Duration::from_secs(2)), [(0, 48)]);
    }

    proptest! {
        #[test]
        fn no_times_overflow_or_pass_the_longest(
            ticks: Vec<i64>,
            seconds in 0u64..20,
            numerator in 1u32..,
            denominator in 1u32..,
        ) {
            let average = Some(FrameRate { numerator, denominator });
            let total: u64 = shown(&ticks, average, Duration::from_secs(seconds)).iter().map(|(_, n)| u64::from(*n)).sum();
            prop_assert!(total <= (24 * seconds).max(1), "{}", total);
        }
    }
}
