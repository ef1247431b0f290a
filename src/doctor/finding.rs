//! What an examination has found.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and something is worse than it could be.
    Warn,
    /// It does not work.
    Fail,
}

/// One line of the report.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    about: &'static str,
    text: String,
}

impl Finding {
    /// Says that something is as it should be.
    pub(super) fn ok(about: &'static str, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, about, text: text.into() }
    }

    /// Says that something is worse than it could be.
    pub(super) fn warn(about: &'static str, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, about, text: text.into() }
    }

    /// Says that something does not work.
    pub(super) fn fail(about: &'static str, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, about, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        };
        write!(f, "{verdict:<4}  {:<8}  {}", self.about, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_the_worst_one_counts() {
        assert_eq!(Finding::ok("s3", "well").to_string(), "ok    s3        well");
        assert_eq!(Finding::fail("postgres", "away").to_string(), "fail  postgres  away");
        let worst = [Finding::warn("s3", "slow"), Finding::ok("s3", "well")].map(|finding| finding.verdict);
        assert_eq!(worst.into_iter().max(), Some(Verdict::Warn));
    }
}
