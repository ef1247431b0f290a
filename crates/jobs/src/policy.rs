//! The durations and limits that one deployment's store goes by.

use std::time::Duration;

/// How long leases last and how often a job is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long a claim holds without a beat.
    pub lease: Duration,
    /// How many attempts a job has, at least 1.
    pub max_attempts: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { lease: Duration::from_secs(60), max_attempts: 3 }
    }
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    /// The lease would have ended before its worker could beat.
    #[error("the lease of {lease:?} is shorter than the least of {:?}", Policy::MIN_LEASE)]
    LeaseTooShort {
        /// The lease that was asked for.
        lease: Duration,
    },
    /// A job could never run.
    #[error("a job needs at least one attempt")]
    NoAttempts,
}

impl Policy {
    /// The shortest lease.
    pub const MIN_LEASE: Duration = Duration::from_secs(1);

    /// Checks the policy.
    ///
    /// Errors: [`InvalidPolicy`], naming the rule that is broken.
    pub fn validated(self) -> Result<Self, InvalidPolicy> {
        if self.lease < Self::MIN_LEASE {
            return Err(InvalidPolicy::LeaseTooShort { lease: self.lease });
        }
        if self.max_attempts == 0 {
            return Err(InvalidPolicy::NoAttempts);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        assert!(Policy::default().validated().is_ok());
    }

    #[test]
    fn nonsense_is_refused_with_a_sentence() {
        let short = Policy { lease: Duration::from_millis(10), ..Policy::default() };
        assert_eq!(short.validated().unwrap_err().to_string(), "the lease of 10ms is shorter than the least of 1s");
        let never = Policy { max_attempts: 0, ..Policy::default() };
        assert_eq!(never.validated(), Err(InvalidPolicy::NoAttempts));
    }
}
