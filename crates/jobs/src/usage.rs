//! What tenants have used.

use crate::id::Tenant;

/// The sums of one tenant over all time, deleted jobs included.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Whose.
    pub tenant: Tenant,
    /// Jobs that were completed.
    pub completed: u64,
    /// What the completed jobs cost, in TFLOP of the cost model.
    pub tflop: f64,
    /// Seconds from the begin to the end of all attempts, those that came to nothing included.
    pub worker_seconds: f64,
}
