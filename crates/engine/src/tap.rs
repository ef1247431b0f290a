//! Intermediate tensors, for those who compare them with golden ones.

use crate::ops::OpError;

/// Sees named intermediate tensors while a generation runs. Names are those of the golden files.
pub trait Tap {
    /// Is shown tensor `name` of `shape`; `read` downloads it and is called only by those who want the values.
    ///
    /// Errors: What `read` gives.
    fn see(&mut self, name: &str, shape: &[usize], read: &dyn Fn() -> Result<Vec<f32>, OpError>)
    -> Result<(), OpError>;
}

/// Looks at nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTap;

impl Tap for NoTap {
    fn see(&mut self, _: &str, _: &[usize], _: &dyn Fn() -> Result<Vec<f32>, OpError>) -> Result<(), OpError> {
        Ok(())
    }
}
