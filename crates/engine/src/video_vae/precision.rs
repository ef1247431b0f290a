//! How precisely the decoder computes.

use crate::ops::DType;

/// The element type of the decoder's projections and of its frames.
///
/// Whatever it is, norms read and the residual stream holds F32, and queries and keys are normalised in F32. In 16-bit
/// types everything else rounds to them: the latents, every projection with its weights and bias, rotary tables,
/// attention's result, SwiGLU, and the frames with their blends and cross-fades.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecodePrecision {
    /// Everything in F32.
    F32,
    /// As PyTorch's autocast to F16 computes: the release's way.
    F16,
    /// As a decoder loaded in BF16 with F32 norms and branch scales computes.
    Bf16,
}

impl DecodePrecision {
    /// Returns the element type of projections and frames.
    pub fn compute(self) -> DType {
        match self {
            DecodePrecision::F32 => DType::F32,
            DecodePrecision::F16 => DType::F16,
            DecodePrecision::Bf16 => DType::Bf16,
        }
    }
}
