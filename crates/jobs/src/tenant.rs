//! What a tenant may have, and the keys by which it is known.

use std::fmt;

use crate::rank;

/// A tenant's share and bounds. A tenant about whom nothing was said has the default ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantLimits {
    /// Its share in the fair order relative to others, positive.
    pub weight: f64,
    /// How many of its jobs run at once at most; none for any number.
    pub max_running: Option<u32>,
    /// How many of its jobs wait at most; none for any number.
    pub max_queued: Option<u32>,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self { weight: rank::DEFAULT_WEIGHT, max_running: None, max_queued: None }
    }
}

/// The SHA-256 of an API key. Stores keep only this, and a key is random enough to need no salt.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(..)")
    }
}
