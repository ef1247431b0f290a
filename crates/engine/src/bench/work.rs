//! What a computation consists of.

/// What operations computed and moved.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations of products, attention and convolutions: two for a multiplication and an addition.
    pub flops: f64,
    /// Bytes of every operand and result of every operation, each counted once: what has to be moved between operations
    /// that keep nothing.
    pub bytes: f64,
    /// The seconds that no device of the roofline could stay below, operation by operation; 0 without a roofline.
    pub floor_seconds: f64,
    /// Bytes of the buffers that were made, whether or not they were given up again.
    pub made_bytes: u64,
}
