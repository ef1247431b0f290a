//! How large a job is, in the terms in which workers say how much they can hold.

use std::fmt;

/// A class of jobs by the rows of their packed sequence: what a worker must be able to hold to run any of them.
///
/// The bounds double from 8,192 rows to 4,194,304, the longest sequence that the model's layout allows. A job belongs to
/// the smallest class that holds it, so a class splits a partition's queue without a table of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapacityClass(u8);

impl CapacityClass {
    /// How many classes there are.
    pub const COUNT: u8 = 10;
    /// The smallest class.
    pub const SMALLEST: Self = Self(0);
    const SMALLEST_ROWS: u64 = 8_192;

    /// Returns the class of a job; jobs beyond every bound belong to the largest.
    pub fn of_rows(rows: u64) -> Self {
        Self::all().find(|class| rows <= class.max_rows()).unwrap_or(Self(Self::COUNT - 1))
    }

    /// Returns every class, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Returns the classes that have jobs which a worker of at most `max_rows` can hold; all of them for none.
    ///
    /// In the last one there may be jobs too large for the worker: the claim compares the rows themselves.
    pub fn within_reach(max_rows: Option<u64>) -> impl Iterator<Item = Self> {
        let largest = max_rows.map_or(Self(Self::COUNT - 1), Self::of_rows);
        Self::all().take_while(move |class| *class <= largest)
    }

    /// Returns the classes all of whose jobs a worker of at most `max_rows` can hold; all of them for none.
    pub fn held_whole(max_rows: Option<u64>) -> impl Iterator<Item = Self> {
        Self::all().take_while(move |class| max_rows.is_none_or(|most| class.max_rows() <= most))
    }

    /// Returns the most rows that a job of this class has.
    pub const fn max_rows(self) -> u64 {
        Self::SMALLEST_ROWS << self.0
    }

    /// Returns the rows that every job of this class exceeds; none for the smallest. A worker that holds no more can run none
    /// of its jobs.
    pub fn exceeded_rows(self) -> Option<u64> {
        self.0.checked_sub(1).map(|smaller| Self(smaller).max_rows())
    }

    /// Returns the number that stores keep: 0 for the smallest.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Reads the number that a store has kept; none beyond the largest.
    pub const fn from_number(number: u8) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }
}

impl fmt::Display for CapacityClass {
    /// Writes the bound in units of 1,024 rows: `8k`, `16k`, …
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}k", self.max_rows() / 1024)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bounds_double_up_to_the_longest_sequence() {
        let bounds: Vec<u64> = CapacityClass::all().map(CapacityClass::max_rows).collect();
        assert_eq!((bounds[0], bounds[1], bounds[9]), (8_192, 16_384, 4_194_304));
        assert_eq!(CapacityClass::of_rows(39_000).to_string(), "64k");
        assert_eq!(CapacityClass::of_rows(u64::MAX).number(), 9);
    }

    proptest! {
        #[test]
        fn a_job_exceeds_what_the_next_smaller_class_holds(rows in 1u64..8_000_000) {
            let class = CapacityClass::of_rows(rows);
            prop_assert!(class.exceeded_rows().is_none_or(|exceeded| rows > exceeded));
            prop_assert_eq!(class.exceeded_rows().is_none(), class == CapacityClass::SMALLEST);
        }

        #[test]
        fn a_job_is_within_reach_of_every_worker_that_can_hold_it(rows in 1u64..4_194_304, room in 1u64..5_000_000) {
            let class = CapacityClass::of_rows(rows);
            prop_assert!(rows <= class.max_rows());
            if rows <= room {
                prop_assert!(CapacityClass::within_reach(Some(room)).any(|reached| reached == class));
            }
            if CapacityClass::held_whole(Some(room)).any(|held| held == class) {
                prop_assert!(rows <= room);
            }
        }
    }
}
