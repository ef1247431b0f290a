//! How fast a device can be.

use crate::ops::DType;

/// The rates that bound a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// Floating-point operations a second of dense products in 16-bit types.
    pub flops_16: f64,
    /// The same in F32 without TF32.
    pub flops_32: f64,
    /// Bytes a second between processor and memory.
    pub bytes: f64,
}

impl Roofline {
    /// The rates of the GPU that its vendor calls `name`; none for one that nobody has measured. Products in 16-bit types
    /// were measured over random values, the others are the vendor's.
    pub fn of(name: &str) -> Option<Self> {
        (name == "NVIDIA H200").then_some(Self { flops_16: 790e12, flops_32: 67e12, bytes: 4.8e12 })
    }

    /// Seconds that an operation takes at the least.
    pub(super) fn floor(&self, flops: f64, bytes: f64, dtype: DType) -> f64 {
        let rate = if dtype == DType::F32 { self.flops_32 } else { self.flops_16 };
        (flops / rate).max(bytes / self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_of_two_times_is_the_floor() {
        let roofline = Roofline { flops_16: 100.0, flops_32: 10.0, bytes: 50.0 };
        assert_eq!(roofline.floor(200.0, 50.0, DType::Bf16), 2.0);
        assert_eq!(roofline.floor(200.0, 50.0, DType::F32), 20.0);
        assert_eq!(roofline.floor(0.0, 150.0, DType::F32), 3.0);
    }

    #[test]
    fn a_card_that_nobody_has_measured_has_none() {
        assert_eq!(Roofline::of("NVIDIA H200 NVL"), None);
        assert!(Roofline::of("NVIDIA H200").is_some());
    }
}
