//! Floats from one type to another, on the host.

use half::{bf16, f16};

use crate::ops::DType;

/// Converts the little-endian elements of `from` to `to`, rounding to the nearest as the GPU does.
///
/// Panics: When `out` has not the room of as many elements.
pub(super) fn convert(bytes: &[u8], from: DType, to: DType, out: &mut [u8]) {
    match from {
        DType::F32 => narrow(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)), to, out),
        DType::Bf16 => narrow(bytes.as_chunks::<2>().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32()), to, out),
        DType::F16 => narrow(bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()), to, out),
        DType::U8 | DType::U32 => unreachable!("weights are floats: whoever placed them has looked"),
    }
}

fn narrow(values: impl ExactSizeIterator<Item = f32>, to: DType, out: &mut [u8]) {
    assert_eq!(out.len(), values.len() * to.size(), "as many elements go out as come in");
    match to {
        DType::F32 => put(values.map(f32::to_le_bytes), out),
        DType::Bf16 => put(values.map(|value| bf16::from_f32(value).to_le_bytes()), out),
        DType::F16 => put(values.map(|value| f16::from_f32(value).to_le_bytes()), out),
        DType::U8 | DType::U32 => unreachable!("weights are floats: whoever placed them has looked"),
    }
}

fn put<const N: usize>(values: impl Iterator<Item = [u8; N]>, out: &mut [u8]) {
    for (place, value) in out.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_can_hold_comes_through_it_unchanged_and_the_rest_is_rounded_to_even() {
        let values = [0.0_f32, -1.5, 3.0e38, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut narrow = vec![0; 10];
        convert(&bytes, DType::F32, DType::Bf16, &mut narrow);
        let mut wide = vec![0; 20];
        convert(&narrow, DType::Bf16, DType::F32, &mut wide);
        let back: Vec<f32> = wide.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(back[..2], values[..2]);
        assert_eq!(back[3..], [1.0, 1.0 + 4.0 / 256.0]);
        let mut half = vec![0; 10];
        convert(&narrow, DType::Bf16, DType::F16, &mut half);
        let halves: Vec<f16> = half.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b)).collect();
        assert_eq!(halves[1], f16::from_f32(-1.5));
        assert!(halves[2].is_infinite());
    }
}
