//! Errors with all that led to them.

use std::error::Error;
use std::fmt;

/// Shows an error and all its causes on one line, for logs.
///
/// Written out as text, since a log in JSON would keep the outermost message of an error alone.
#[derive(Debug, Clone, Copy)]
pub struct Causes<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::store::StoreError;

    #[test]
    fn every_cause_is_told() {
        let source = Box::new(StoreError::Unavailable { doing: "renewing", source: io::Error::other("disk").into() });
        let error = StoreError::Unreadable { field: "spec", source };
        let expected = "the job store holds a spec that this program cannot read: \
                        could not reach the job store while renewing: disk";
        assert_eq!(Causes(&error).to_string(), expected);
    }
}
