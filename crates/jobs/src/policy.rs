//! The durations and limits that one deployment's store goes by.

use std::time::Duration;

/// How long leases last and how often a job is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long a claim holds without a beat.
    pub lease: Duration,
    /// How many attempts a job has, at least 1.
    pub max_attempts: u32,
    /// How long a result is kept after its job was completed; none for as long as the job itself.
    pub result_life: Option<Duration>,
    /// How long an ended job is kept, with its prompt and all that belongs to it; none until somebody deletes it.
    pub record_life: Option<Duration>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { lease: Duration::from_secs(60), max_attempts: 3, result_life: None, record_life: None }
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
    /// The job would be gone before its result.
    #[error("a job that is kept for {record:?} cannot keep its result for {result:?}")]
    ResultOutlivesRecord {
        /// How long the result should be kept.
        result: Duration,
        /// How long the job is kept.
        record: Duration,
    },
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
        if let (Some(result), Some(record)) = (self.result_life, self.record_life)
            && result > record
        {
            return Err(InvalidPolicy::ResultOutlivesRecord { result, record });
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
        let (result, record) = (Duration::from_secs(20), Duration::from_secs(10));
        let outlived = Policy { result_life: Some(result), record_life: Some(record), ..Policy::default() };
        assert_eq!(outlived.validated(), Err(InvalidPolicy::ResultOutlivesRecord { result, record }));
    }
}
