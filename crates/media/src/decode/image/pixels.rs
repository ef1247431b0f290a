//! Decoded samples of any depth and number of channels to 8-bit RGB.

use image::ColorType;

/// Drops alpha, repeats grey and keeps the high byte of 16-bit samples; `None` for a type that no decoder here gives.
pub(super) fn to_rgb8(stored: Vec<u8>, color: ColorType) -> Option<Vec<u8>> {
    let (channels, sample_bytes) = match color {
        ColorType::Rgb8 => return Some(stored),
        ColorType::L8 => (1, 1),
        ColorType::La8 => (2, 1),
        ColorType::Rgba8 => (4, 1),
        ColorType::L16 => (1, 2),
        ColorType::La16 => (2, 2),
        ColorType::Rgb16 => (3, 2),
        ColorType::Rgba16 => (4, 2),
        _ => return None,
    };
    // Samples of two bytes come in the machine's own order.
    let high = if sample_bytes == 2 && cfg!(target_endian = "little") { 1 } else { 0 };
    let mut rgb = Vec::with_capacity(stored.len() / (channels * sample_bytes) * 3);
    for pixel in stored.chunks_exact(channels * sample_bytes) {
        let sample = |channel: usize| pixel[channel * sample_bytes + high];
        match channels {
            1 | 2 => rgb.extend([sample(0); 3]),
            _ => rgb.extend([sample(0), sample(1), sample(2)]),
        }
    }
    Some(rgb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_keep_their_high_byte_and_alpha_goes() {
        let samples = [0x12FFu16, 0xFEFF, 0x80FF, 0x0000].map(u16::to_ne_bytes).concat();
        assert_eq!(to_rgb8(samples.clone(), ColorType::Rgba16).unwrap(), [0x12, 0xFE, 0x80]);
        assert_eq!(to_rgb8(samples.clone(), ColorType::La16).unwrap(), [0x12, 0x12, 0x12, 0x80, 0x80, 0x80]);
        assert_eq!(to_rgb8(samples[..2].to_vec(), ColorType::L16).unwrap(), [0x12; 3]);
        assert_eq!(to_rgb8(vec![1, 2, 3, 0], ColorType::Rgba8).unwrap(), [1, 2, 3]);
        assert_eq!(to_rgb8(vec![9, 0], ColorType::La8).unwrap(), [9; 3]);
        assert_eq!(to_rgb8(vec![0; 16], ColorType::Rgba32F), None);
    }
}
