//! Numbers by hash: the same bits wherever they are computed, one by one and in any order.

/// The step of the counter: 2⁶⁴ over the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of uniform numbers, named by a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    start: u64,
}

impl Sequence {
    /// The sequence of `key`: its counter starts at the key's 64-bit FNV-1a hash.
    pub(crate) fn of(key: &str) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        Self { start: key.bytes().fold(0xCBF2_9CE4_8422_2325, step) }
    }

    /// Number `index`, in `[0, 1)`: 24 bits of the counter, mixed by splitmix64's finaliser.
    pub(crate) fn uniform(self, index: usize) -> f64 {
        let state = self.start.wrapping_add(STEP.wrapping_mul((index as u64).wrapping_add(1)));
        (splitmix64(state) >> 40) as f64 * 2.0_f64.powi(-24)
    }

    /// Number `index` with a mean and a standard deviation. Evaluated in F64 in this order, then rounded once: other orders
    /// give other last bits.
    pub(crate) fn value(self, index: usize, mean: f64, std: f64) -> f32 {
        (mean + std * 3.0_f64.sqrt() * (2.0 * self.uniform(index) - 1.0)) as f32
    }
}

fn splitmix64(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_key_and_index_alone() {
        let of = |key| (0..4).map(|index| Sequence::of(key).uniform(index)).collect::<Vec<_>>();
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        // FNV-1a of nothing is its offset; splitmix64 of it plus one step, by the published algorithms in Python.
        assert_eq!(Sequence::of("").start, 0xCBF2_9CE4_8422_2325);
        assert_eq!(of("")[0], 12_812_668.0 / 2.0_f64.powi(24));
        assert!(of("").iter().all(|number| (0.0..1.0).contains(number)));
    }

    #[test]
    fn a_thousand_numbers_have_the_mean_and_the_deviation() {
        let values: Vec<f64> = (0..1000).map(|index| f64::from(Sequence::of("x").value(index, 1.0, 0.5))).collect();
        let mean = values.iter().sum::<f64>() / 1000.0;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1000.0;
        assert!((mean - 1.0).abs() < 0.05 && (variance.sqrt() - 0.5).abs() < 0.05, "{mean} {variance}");
    }
}
