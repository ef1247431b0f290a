//! Conditional and partial reading, as HTTP has it (RFC 9110 §13 and §14).

use std::ops::Range;
use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderName, header};

/// What of an object a request wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// Some bytes of it.
    Part(Range<u64>),
    /// Nothing: the client has it.
    NotModified,
    /// Bytes that it does not have.
    Unsatisfiable,
}

/// An object, as the conditions of a request look at it.
#[derive(Debug, Clone)]
pub(super) struct Validators {
    /// Its strong entity tag, with the quotes.
    pub(super) etag: String,
    /// When it last changed, in whole seconds.
    pub(super) modified: SystemTime,
    /// Its length.
    pub(super) size_bytes: u64,
}

impl Validators {
    /// Makes validators; the time is cut to whole seconds, which is all that HTTP can say.
    pub(super) fn new(sha256: &str, modified_unix_s: u64, size_bytes: u64) -> Self {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(modified_unix_s);
        Self { etag: format!("\"{sha256}\""), modified, size_bytes }
    }

    /// Decides what a request with these headers wants.
    pub(super) fn wanted(&self, headers: &HeaderMap) -> Wanted {
        if self.is_known(headers) {
            return Wanted::NotModified;
        }
        match text(headers, header::RANGE).filter(|_| self.range_applies(headers)) {
            Some(range) => parse_range(range, self.size_bytes),
            None => Wanted::Whole,
        }
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(header::IF_NONE_MATCH) {
            let tags = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
            // Weak comparison: a tag counts with and without its W/.
            return tags
                .flat_map(|tags| tags.split(','))
                .map(str::trim)
                .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.etag);
        }
        let since = text(headers, header::IF_MODIFIED_SINCE).and_then(|text| httpdate::parse_http_date(text).ok());
        since.is_some_and(|since| self.modified <= since)
    }

    fn range_applies(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(header::IF_RANGE) else {
            return true;
        };
        // Strong comparison: a weak tag never matches, and a date only exactly.
        let condition = condition.to_str().unwrap_or_default();
        condition == self.etag || httpdate::parse_http_date(condition).is_ok_and(|date| date == self.modified)
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Reads `bytes=first-last`, `bytes=first-` or `bytes=-last_n`. Other units, several ranges and nonsense are answered
/// with the whole, which is always allowed.
fn parse_range(text: &str, size_bytes: u64) -> Wanted {
    let Some((unit, range)) = text.split_once('=') else {
        return Wanted::Whole;
    };
    let Some((first, last)) = range.trim().split_once('-') else {
        return Wanted::Whole;
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond 64 bits is beyond the end all the same.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Whole;
    }
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Wanted::Whole,
        (Some(first), _) if first >= size_bytes && (last.is_empty() || number(last).is_some()) => Wanted::Unsatisfiable,
        (Some(first), Some(last)) => Wanted::Part(first..last.saturating_add(1).min(size_bytes)),
        (Some(first), None) if last.is_empty() => Wanted::Part(first..size_bytes),
        (None, Some(0)) if first.is_empty() => Wanted::Unsatisfiable,
        (None, Some(_)) if first.is_empty() && size_bytes == 0 => Wanted::Unsatisfiable,
        (None, Some(tail)) if first.is_empty() => Wanted::Part(size_bytes.saturating_sub(tail)..size_bytes),
        _ => Wanted::Whole,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const DATE: &str = "Tue, 15 Nov 1994 08:12:31 GMT";
    const LATER: &str = "Tue, 15 Nov 1994 08:12:32 GMT";

    fn wanted(pairs: &[(HeaderName, &str)]) -> Wanted {
        let headers = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
        Validators::new("abc", 784_887_151, 100).wanted(&headers)
    }

    #[test]
    fn ranges_are_cut_to_the_object() {
        for (range, expected) in [
            ("bytes=0-9", Wanted::Part(0..10)),
            ("bytes=90-", Wanted::Part(90..100)),
            ("bytes=-5", Wanted::Part(95..100)),
            ("bytes=-500", Wanted::Part(0..100)),
            ("bytes=99-1000", Wanted::Part(99..100)),
            ("bytes=0-99999999999999999999999", Wanted::Part(0..100)),
            ("BYTES = 5-5", Wanted::Part(5..6)),
            ("bytes=100-", Wanted::Unsatisfiable),
            ("bytes=100-200", Wanted::Unsatisfiable),
            ("bytes=99999999999999999999999-", Wanted::Unsatisfiable),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=9-0", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("bytes", Wanted::Whole),
        ] {
            assert_eq!(wanted(&[(header::RANGE, range)]), expected, "{range}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_only_bytes_of_the_object_are_given(
            text in "bytes=[0-9 ,-]{0,24}|[bytes=0-9 -]{0,16}|\\PC{0,16}", size_bytes in prop_oneof![0u64..200, any::<u64>()]
        ) {
            if let Wanted::Part(range) = parse_range(&text, size_bytes) {
                prop_assert!(range.start < range.end && range.end <= size_bytes, "{range:?} of {size_bytes}");
            }
        }

        #[test]
        fn a_range_that_begins_within_the_object_is_cut_to_it(
            first in any::<u64>(), more in any::<u64>(), size_bytes in any::<u64>()
        ) {
            let last = first.saturating_add(more);
            let expected = match first < size_bytes {
                true => Wanted::Part(first..last.min(size_bytes - 1) + 1),
                false => Wanted::Unsatisfiable,
            };
            prop_assert_eq!(parse_range(&format!("bytes={first}-{last}"), size_bytes), expected);
            let open = if first < size_bytes { Wanted::Part(first..size_bytes) } else { Wanted::Unsatisfiable };
            prop_assert_eq!(parse_range(&format!("bytes={first}-"), size_bytes), open);
            let tail = match first.min(size_bytes) {
                0 => Wanted::Unsatisfiable,
                tail => Wanted::Part(size_bytes - tail..size_bytes),
            };
            prop_assert_eq!(parse_range(&format!("bytes=-{first}"), size_bytes), tail);
        }

        #[test]
        fn any_headers_are_read_without_harm(
            range in prop::collection::vec(any::<u8>().prop_filter("legal", |byte| *byte >= 32 && *byte != 127), 0..40),
            condition in "\\PC{0,20}", size_bytes in any::<u64>()
        ) {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_bytes(&range).unwrap());
            if let Ok(condition) = HeaderValue::from_str(&condition) {
                headers.insert(header::IF_RANGE, condition.clone());
                headers.insert(header::IF_NONE_MATCH, condition);
            }
            Validators::new("abc", u64::from(u32::MAX), size_bytes).wanted(&headers);
        }
    }

    #[test]
    fn nothing_of_an_empty_object_can_be_had() {
        assert_eq!(parse_range("bytes=0-", 0), Wanted::Unsatisfiable);
        assert_eq!(parse_range("bytes=-1", 0), Wanted::Unsatisfiable);
    }

    #[test]
    fn a_known_tag_needs_no_bytes() {
        for tag in ["\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "*"] {
            assert_eq!(wanted(&[(header::IF_NONE_MATCH, tag)]), Wanted::NotModified, "{tag}");
        }
        assert_eq!(wanted(&[(header::IF_NONE_MATCH, "\"x\"")]), Wanted::Whole);
        // The tag decides alone where both are given.
        assert_eq!(wanted(&[(header::IF_NONE_MATCH, "\"x\""), (header::IF_MODIFIED_SINCE, LATER)]), Wanted::Whole);
    }

    #[test]
    fn a_date_counts_in_whole_seconds() {
        assert_eq!(wanted(&[(header::IF_MODIFIED_SINCE, DATE)]), Wanted::NotModified);
        assert_eq!(wanted(&[(header::IF_MODIFIED_SINCE, LATER)]), Wanted::NotModified);
        assert_eq!(wanted(&[(header::IF_MODIFIED_SINCE, "Tue, 15 Nov 1994 08:12:30 GMT")]), Wanted::Whole);
        assert_eq!(wanted(&[(header::IF_MODIFIED_SINCE, "yesterday")]), Wanted::Whole);
    }

    #[test]
    fn a_range_of_another_version_is_the_whole_of_this_one() {
        let with = |condition| wanted(&[(header::RANGE, "bytes=0-0"), (header::IF_RANGE, condition)]);
        assert_eq!(with("\"abc\""), Wanted::Part(0..1));
        assert_eq!(with(DATE), Wanted::Part(0..1));
        for other in ["W/\"abc\"", "\"x\"", LATER, "yesterday"] {
            assert_eq!(with(other), Wanted::Whole, "{other}");
        }
    }
}
