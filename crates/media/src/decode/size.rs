//! The size of pictures, checked before any pixel is decoded.

use crate::decode::{Error, Kind};

/// How large a picture may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeLimits {
    /// The longest side, in pixels.
    pub(crate) max_side: u32,
    /// The most pixels.
    pub(crate) max_pixels: u64,
}

impl SizeLimits {
    /// Checks the sides of `what`.
    ///
    /// Errors: [`Error::Header`] for a side of zero, [`Error::TooLarge`].
    pub(crate) fn check(self, what: Kind, width: u32, height: u32) -> Result<(), Error> {
        let Self { max_side, max_pixels } = self;
        if width == 0 || height == 0 {
            let value = format!("{width}x{height}");
            return Err(Error::Header { what, field: "size", value, rule: "at least 1x1" });
        }
        if width.max(height) > max_side || u64::from(width) * u64::from(height) > max_pixels {
            return Err(Error::TooLarge { what, width, height, max_side, max_pixels });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_holds_alone() {
        let check = |width, height| SizeLimits { max_side: 10, max_pixels: 50 }.check(Kind::Image, width, height);
        assert!(check(10, 5).is_ok());
        assert!(matches!(check(0, 5), Err(Error::Header { field: "size", .. })));
        assert!(matches!(check(1, 11), Err(Error::TooLarge { .. })));
        assert!(matches!(check(8, 7), Err(Error::TooLarge { .. })));
        assert!(matches!(check(u32::MAX, u32::MAX), Err(Error::TooLarge { .. })));
    }
}
