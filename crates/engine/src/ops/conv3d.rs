//! What a causal convolution over frames looks at.

/// Taps of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSize {
    /// Frames.
    pub time: usize,
    /// Rows, and as many columns.
    pub side: usize,
}

/// Steps from one output to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stride {
    /// Frames.
    pub time: usize,
    /// Rows and columns.
    pub side: usize,
}

/// Rows and columns that a picture is extended by, mirrored at its first and last without repeating them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReflectPadding {
    /// Rows above and columns to the left.
    pub before: usize,
    /// Rows below and columns to the right.
    pub after: usize,
}

/// Kernel, stride and padding of a convolution over frames that sees no later frame: output frame `i` ends at input
/// frame `i · stride.time`, and what its kernel sees before the first frame is zero. No tap count and no step is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CausalConv3dShape {
    /// Taps.
    pub kernel: KernelSize,
    /// Steps.
    pub stride: Stride,
    /// Padding of each frame.
    pub padding: ReflectPadding,
}

impl CausalConv3dShape {
    /// A kernel of one tap.
    pub const POINTWISE: Self = Self {
        kernel: KernelSize { time: 1, side: 1 },
        stride: Stride { time: 1, side: 1 },
        padding: ReflectPadding { before: 0, after: 0 },
    };

    /// A 3 x 3 x 3 kernel that keeps the size.
    pub const SAME: Self = Self {
        kernel: KernelSize { time: 3, side: 3 },
        stride: Stride { time: 1, side: 1 },
        padding: ReflectPadding { before: 1, after: 1 },
    };

    /// A 3 x 3 x 3 kernel that halves both sides, rounding up, and divides time by `time`, rounding up.
    pub const fn halving(time: usize) -> Self {
        Self {
            kernel: KernelSize { time: 3, side: 3 },
            stride: Stride { time, side: 2 },
            padding: ReflectPadding { before: 0, after: 1 },
        }
    }

    /// Returns how many taps the kernel has.
    pub const fn taps(&self) -> usize {
        self.kernel.time * self.kernel.side * self.kernel.side
    }

    /// Returns the frames, rows and columns that come out of `[frames, rows, columns]`.
    ///
    /// None when there are no frames, or too few rows or columns to mirror or to fill the kernel.
    pub fn output(&self, [frames, rows, columns]: [usize; 3]) -> Option<[usize; 3]> {
        let ReflectPadding { before, after } = self.padding;
        let side = |length: usize| {
            let padded = length + before + after;
            // A mirror shows what lies beyond the edge, so there must be one more than it shows.
            let enough = length > before.max(after) && padded >= self.kernel.side;
            enough.then(|| (padded - self.kernel.side) / self.stride.side + 1)
        };
        let frames = (frames > 0).then(|| frames.div_ceil(self.stride.time))?;
        Some([frames, side(rows)?, side(columns)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_or_halve_rounding_up() {
        assert_eq!(CausalConv3dShape::SAME.output([17, 2, 9]), Some([17, 2, 9]));
        assert_eq!(CausalConv3dShape::POINTWISE.output([1, 1, 9]), Some([1, 1, 9]));
        assert_eq!(CausalConv3dShape::halving(2).output([17, 6, 7]), Some([9, 3, 3]));
        assert_eq!(CausalConv3dShape::halving(1).output([1, 2, 8]), Some([1, 1, 4]));
    }

    #[test]
    fn one_row_cannot_be_mirrored() {
        assert_eq!(CausalConv3dShape::SAME.output([1, 1, 9]), None);
        assert_eq!(CausalConv3dShape::halving(2).output([1, 9, 1]), None);
        assert_eq!(CausalConv3dShape::SAME.output([0, 9, 9]), None);
    }
}
