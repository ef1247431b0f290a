//! The trace that a job belongs to.

use std::fmt;
use std::str::FromStr;

/// A `traceparent` of W3C Trace Context, version 00, as the client of a job has sent it: it is passed on with the job's
/// webhooks, and the id of its trace stands in what workers log of the job. Where traces are on, the row of a job keeps that of
/// the span that has made it instead, which is a child of the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent(String);

/// Says that a text is no `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a traceparent is 00-TRACE-SPAN-FLAGS in lower-case hex digits, neither of the ids all zero")]
pub struct InvalidTraceParent;

impl TraceParent {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id of the trace, 32 hex digits.
    pub fn trace_id(&self) -> &str {
        &self.0[3..35]
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let parts: Vec<&str> = text.split('-').collect();
        let is_hex = |part: &str, length| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_id = |part: &str, length| is_hex(part, length) && part.bytes().any(|byte| byte != b'0');
        match parts[..] {
            ["00", trace, span, flags] if is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(InvalidTraceParent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_documented_shape_is_taken() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parsed: TraceParent = text.parse().unwrap();
        assert_eq!((parsed.as_str(), parsed.trace_id()), (text, "4bf92f3577b34da6a3ce929d0e0e4736"));
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert_eq!(wrong.parse::<TraceParent>(), Err(InvalidTraceParent), "{wrong:?}");
        }
    }
}
