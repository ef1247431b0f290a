//! Moments as people and programs read them.

use clapboard_jobs::Micros;

const MICROS_PER_DAY: i64 = 24 * 3600 * 1_000_000;

/// Writes a moment by RFC 3339 with microseconds: `2026-11-30T12:55:47.000123Z`.
pub(crate) fn rfc3339(moment: Micros) -> String {
    let (date, time) = parts(moment);
    format!("{date}T{time}.{:06}Z", moment.0.rem_euclid(1_000_000))
}

/// Writes a moment for people, to the second: `2026-11-30 12:55:47Z`.
pub(crate) fn seconds(moment: Micros) -> String {
    let (date, time) = parts(moment);
    format!("{date} {time}Z")
}

/// Returns the date and the time of day.
fn parts(moment: Micros) -> (String, String) {
    let (year, month, day) = civil(moment.0.div_euclid(MICROS_PER_DAY));
    let second = moment.0.rem_euclid(MICROS_PER_DAY) / 1_000_000;
    let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    (format!("{year:04}-{month:02}-{day:02}"), time)
}

/// Returns year, month and day of a day counted from 1970-01-01.
///
/// Counted in eras of 400 years that begin on the first of March, so that the day which not every year has is a year's
/// last.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468; // from 0000-03-01
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_in_utc() {
        assert_eq!(rfc3339(Micros(1_796_043_347_000_123)), "2026-11-30T12:55:47.000123Z");
        assert_eq!(seconds(Micros(1_796_043_347_999_999)), "2026-11-30 12:55:47Z");
        assert_eq!(rfc3339(Micros(-1)), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for count in 0..146_097 {
            assert_eq!(civil(count), (year, month, day), "day {count}");
            let last = match month {
                2 => 28 + i64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, today) if today == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }
}
