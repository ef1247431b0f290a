//! Random inputs from a seed.

/// Draws by the splitmix64 sequence.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not draw the same sequence one step apart.
        let mut draw = Self(seed.wrapping_mul(0xD1B5_4A32_D192_ED03));
        draw.next();
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Numbers within 1 of `around`, with 24 bits in use.
    pub(super) fn floats(&mut self, count: usize, around: f32) -> Vec<f32> {
        let unit = |bits: u64| (bits >> 40) as f32 / 8_388_608.0 - 1.0;
        (0..count).map(|_| around + unit(self.next())).collect()
    }

    /// Numbers below `below`, repeated or not.
    pub(super) fn picks(&mut self, count: usize, below: usize) -> Vec<u32> {
        (0..count).map(|_| (self.next() % below.max(1) as u64) as u32).collect()
    }

    /// Distinct numbers below `below`, in no order.
    ///
    /// Panics: When there are not so many.
    pub(super) fn places(&mut self, count: usize, below: usize) -> Vec<u32> {
        assert!(count <= below, "{count} distinct numbers below {below}");
        let mut all: Vec<u32> = (0..below as u32).collect();
        for index in 0..count {
            let other = index + (self.next() % (below - index) as u64) as usize;
            all.swap(index, other);
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinct_and_floats_stay_near() {
        let mut draw = Draw::new(3);
        let mut places = draw.places(9, 12);
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 9);
        assert!(draw.floats(100, 2.0).iter().all(|value| (1.0..3.0).contains(value)));
        assert_ne!(Draw::new(4).floats(2, 0.0), Draw::new(5).floats(2, 0.0));
    }
}
