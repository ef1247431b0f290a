//! Durations as settings spell them: `250ms`, `10s`, `5m`, `1h`, `30d`.

use std::time::Duration;

/// The longest duration: a hundred years. What is longer was not meant, and no clock can count it.
const LONGEST_DAYS: u64 = 36_500;

/// What a help text says of the form.
pub(crate) const FORM: &str =
    "A DURATION is a whole number and its unit: 250ms, 10s, 5m, 1h or 30d. Without a unit it counts seconds.";

/// Reads a whole number and its unit; without a unit it counts seconds.
///
/// Errors: a sentence that names the text and the form.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 250ms, 10s, 5m, 1h or 30d");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let milliseconds_per_unit = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        _ => return Err(wrong()),
    };
    let duration = number.checked_mul(milliseconds_per_unit).map(Duration::from_millis).ok_or_else(wrong)?;
    if duration > Duration::from_secs(LONGEST_DAYS * 24 * 3600) {
        return Err(format!("{text:?} is longer than the longest duration, {LONGEST_DAYS}d"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_their_unit() {
        for (text, milliseconds) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("10", 10_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("30d", 2_592_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_no_clock_can_count_is_refused() {
        assert!(parse("36500d").is_ok());
        for text in ["36501d", "876001h", "99999999999d", "18446744073709551615ms"] {
            assert_eq!(parse(text), Err(format!("{text:?} is longer than the longest duration, 36500d")));
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_form() {
        for text in ["", "s", "-1s", "1.5s", "10 s", "10w", "99999999999999999999s", "18446744073709551615d"] {
            let message = parse(text).unwrap_err();
            assert_eq!(message, format!("{text:?} is not a duration such as 250ms, 10s, 5m, 1h or 30d"));
        }
    }
}
