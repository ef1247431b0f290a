//! What a tenant may have, and the keys by which it is known.

use std::fmt;

/// A tenant's share in the fair order relative to others: a positive, finite number within bounds that keep every rank
/// finite.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Weight(f64);

/// Says that a number cannot be a tenant's share.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the weight of a tenant is from {} to {}, not {given}", Weight::LEAST.get(), Weight::MOST.get())]
pub struct InvalidWeight {
    /// What was given.
    pub given: f64,
}

impl Weight {
    /// The share of a tenant about whom nothing else is said.
    pub const DEFAULT: Self = Self(1.0);
    /// The smallest share. The stores' tables have the same bounds.
    pub const LEAST: Self = Self(0.001);
    /// The largest share.
    pub const MOST: Self = Self(1000.0);

    /// Takes a number as a share.
    ///
    /// Errors: [`InvalidWeight`] when it is not a number or out of bounds.
    pub fn new(given: f64) -> Result<Self, InvalidWeight> {
        if (Self::LEAST.0..=Self::MOST.0).contains(&given) { Ok(Self(given)) } else { Err(InvalidWeight { given }) }
    }

    /// Returns the number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A tenant's share and bounds. A tenant about whom nothing was said has the default ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TenantLimits {
    /// Its share in the fair order relative to others.
    pub weight: Weight,
    /// How many of its jobs run at once at most; none for any number.
    pub max_running: Option<u32>,
    /// How many of its jobs wait at most; none for any number.
    pub max_queued: Option<u32>,
}

/// The SHA-256 of an API key. Stores keep only this, and a key is random enough to need no salt.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_that_would_spoil_the_order_is_refused_with_a_sentence() {
        for nonsense in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 1e9] {
            assert!(Weight::new(nonsense).is_err(), "{nonsense}");
        }
        for weight in [Weight::LEAST, Weight::DEFAULT, Weight::MOST] {
            assert_eq!(Weight::new(weight.get()), Ok(weight));
        }
        let refused = Weight::new(0.0).unwrap_err().to_string();
        assert_eq!(refused, "the weight of a tenant is from 0.001 to 1000, not 0");
    }
}
