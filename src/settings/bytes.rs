//! Amounts of memory as settings spell them: `512MiB`, `12GiB`, `24GB`.

/// Reads a number, which may have a fraction, and its unit.
///
/// Errors: a sentence that names the text and the form.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not an amount of memory such as 512MiB, 12GiB, 7.5GiB or 24GB");
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let per_unit: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * per_unit as f64;
    // Beyond 2^53 a number would not be the one that was written.
    if (1.0..=9e15).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_carry_their_unit() {
        for (text, bytes) in [
            ("1B", 1),
            ("512MiB", 512 << 20),
            ("12GiB", 12 << 30),
            ("7.5GiB", 15 << 29),
            ("24GB", 24_000_000_000),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_form() {
        for text in ["", "12", "GiB", "-1GiB", "12 GiB", "12gb", "1.2.3GiB", "0GiB", "0.1B", "99999999TiB"] {
            let message = parse(text).unwrap_err();
            assert!(message.starts_with(&format!("{text:?} is not an amount of memory")), "{message}");
        }
    }
}
