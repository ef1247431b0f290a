//! Resizing 8-bit pictures to the same bytes as Pillow.
//!
//! The networks were conditioned on pictures that Pillow resized, so its rounding is followed: coefficients in fixed
//! point, one pass along each axis, 8 bits between them. A picture that already has the size of one axis skips that
//! axis. The passes do not commute, as both round: see [`Resizer::resize`] for their order.
//!
//! What the language model sees goes through PyTorch instead, whose arithmetic on bytes differs in the fixed point
//! alone: [`Resizer::torch_bicubic`].

use super::media::{MediaError, Picture, frame_bytes};

/// Fractional bits of a coefficient in Pillow: what 32 bits leave beside 8 bits of sample and 2 bits of sign and
/// overshoot.
const PRECISION_BITS: u32 = 32 - 8 - 2;

/// In what fixed point coefficients are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FixedPoint {
    /// [`PRECISION_BITS`] for all.
    Pillow,
    /// As many bits as let the largest coefficient of the axis fit 16.
    Torch,
}

impl FixedPoint {
    /// Fractional bits, given the largest coefficient.
    fn bits(self, largest: f64) -> u32 {
        let fills = |bits: &u32| 0.5 + largest * f64::from(1u32 << (bits + 1)) >= f64::from(1 << 15);
        match self {
            Self::Pillow => PRECISION_BITS,
            Self::Torch => (0..PRECISION_BITS).find(fills).unwrap_or(PRECISION_BITS),
        }
    }
}

/// A resampling filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filter {
    /// Three lobes of a windowed sinc.
    Lanczos,
    /// Cubic convolution with `a = -0.5`.
    Bicubic,
}

impl Filter {
    /// Distance beyond which the filter is zero, in source pixels when nothing shrinks.
    fn support(self) -> f64 {
        match self {
            Self::Lanczos => 3.0,
            Self::Bicubic => 2.0,
        }
    }

    fn at(self, x: f64) -> f64 {
        match self {
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Lanczos => 0.0,
            Self::Bicubic => cubic(x.abs()),
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let angle = x * std::f64::consts::PI;
    angle.sin() / angle
}

fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

/// The source samples and coefficients of every output sample along one axis.
#[derive(Debug, Clone)]
struct Axis {
    windows: Vec<Window>,
    coefficients: Vec<i32>,
    /// Fractional bits of a coefficient.
    bits: u32,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    /// The first source sample.
    start: usize,
    /// The first of its coefficients.
    first: usize,
    /// The number of samples.
    len: usize,
}

impl Axis {
    /// Plans one axis; none when nothing changes along it.
    fn plan(from: u32, to: u32, filter: Filter, fixed: FixedPoint) -> Option<Self> {
        if from == to {
            return None;
        }
        let scale = f64::from(from) / f64::from(to);
        let filter_scale = scale.max(1.0);
        let support = filter.support() * filter_scale;
        let (mut windows, mut exact) = (Vec::with_capacity(to as usize), Vec::new());
        for index in 0..to {
            let center = (f64::from(index) + 0.5) * scale;
            // Truncation towards zero and the bounds of the picture, in the order of the original.
            let start = (center - support + 0.5).max(0.0) as usize;
            let end = ((center + support + 0.5) as usize).min(from as usize);
            let weights: Vec<f64> =
                (start..end).map(|x| filter.at((x as f64 - center + 0.5) * (1.0 / filter_scale))).collect();
            let total: f64 = weights.iter().sum();
            windows.push(Window { start, first: exact.len(), len: weights.len() });
            exact.extend(weights.iter().map(|w| if total == 0.0 { *w } else { w / total }));
        }
        let bits = fixed.bits(exact.iter().copied().fold(0.0, f64::max));
        Some(Self { windows, coefficients: exact.iter().map(|c| fixed_point(*c, bits)).collect(), bits })
    }

    fn taps(&self, window: &Window) -> &[i32] {
        &self.coefficients[window.first..window.first + window.len]
    }

    /// Half a level, so that the shift rounds.
    fn half(&self) -> i32 {
        (1 << self.bits) >> 1
    }

    fn level(&self, sum: i32) -> u8 {
        (sum >> self.bits).clamp(0, 255) as u8
    }
}

/// Rounds a coefficient away from zero at the half.
fn fixed_point(coefficient: f64, bits: u32) -> i32 {
    let scaled = coefficient * f64::from(1 << bits);
    (if coefficient < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
}

/// Resizes RGB frames of one size to another; planned once, used for every frame of a clip.
#[derive(Debug, Clone)]
pub struct Resizer {
    from: (u32, u32),
    to: (u32, u32),
    horizontal: Option<Axis>,
    vertical: Option<Axis>,
    vertical_first: bool,
}

impl Resizer {
    /// Plans resizing from one width and height to another.
    ///
    /// Errors: [`MediaError::Sides`] when either has a side of zero or more bytes than there are addresses.
    pub fn new(from: (u32, u32), to: (u32, u32), filter: Filter) -> Result<Self, MediaError> {
        Self::plan(from, to, filter, FixedPoint::Pillow)
    }

    /// Plans the same by antialiased bicubic interpolation to the same bytes as PyTorch on 8-bit tensors.
    ///
    /// Errors: as [`new`](Self::new).
    ///
    /// Source: PyTorch 2.15 `upsample_bicubic2d_aa`, through torchvision 0.29.2 `resize`.
    pub fn torch_bicubic(from: (u32, u32), to: (u32, u32)) -> Result<Self, MediaError> {
        Self::plan(from, to, Filter::Bicubic, FixedPoint::Torch)
    }

    fn plan(from: (u32, u32), to: (u32, u32), filter: Filter, fixed: FixedPoint) -> Result<Self, MediaError> {
        frame_bytes(from.0, from.1)?;
        frame_bytes(to.0, to.1)?;
        frame_bytes(to.0, from.1)?;
        frame_bytes(from.0, to.1)?;
        let horizontal = Axis::plan(from.0, to.0, filter, fixed);
        let vertical = Axis::plan(from.1, to.1, filter, fixed);
        // As Pillow 13 decides; the versions before it, and PyTorch, always begin with the horizontal pass.
        let lost = |from: u32, to: u32| u64::from(from.saturating_sub(to));
        let vertical_first = matches!(fixed, FixedPoint::Pillow) && lost(from.1, to.1) > 2 * lost(from.0, to.0);
        Ok(Self { from, to, horizontal, vertical, vertical_first })
    }

    /// Tells whether every frame comes out as it went in.
    pub fn is_identity(&self) -> bool {
        self.horizontal.is_none() && self.vertical.is_none()
    }

    /// Resizes one frame `[height, width, 3]`.
    ///
    /// Under Pillow's rules the vertical pass comes first when the height loses more than twice the pixels that the
    /// width loses; otherwise the horizontal one does.
    ///
    /// Errors: [`MediaError::PictureBytes`] when the bytes are not a frame of the planned size.
    pub fn resize(&self, rgb: &[u8]) -> Result<Vec<u8>, MediaError> {
        let (width, height) = self.from;
        let expected = frame_bytes(width, height)?;
        if rgb.len() != expected {
            return Err(MediaError::PictureBytes { width, height, expected, actual: rgb.len() });
        }
        let across = |rgb: &[u8]| self.horizontal.as_ref().map(|axis| resize_rows(axis, rgb, width as usize * 3));
        let down =
            |rgb: &[u8], width: u32| self.vertical.as_ref().map(|axis| resize_columns(axis, rgb, width as usize * 3));
        let (first, second);
        if self.vertical_first {
            first = down(rgb, width);
            second = across(first.as_deref().unwrap_or(rgb));
        } else {
            first = across(rgb);
            second = down(first.as_deref().unwrap_or(rgb), self.to.0);
        }
        Ok(second.or(first).unwrap_or_else(|| rgb.to_vec()))
    }
}

/// The horizontal pass over rows of `stride` bytes.
fn resize_rows(axis: &Axis, rgb: &[u8], stride: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(rgb.len() / stride * axis.windows.len() * 3);
    for row in rgb.chunks_exact(stride) {
        for window in &axis.windows {
            let mut sums = [axis.half(); 3];
            let pixels = row[window.start * 3..].chunks_exact(3);
            for (pixel, tap) in pixels.zip(axis.taps(window)) {
                for (sum, sample) in sums.iter_mut().zip(pixel) {
                    *sum += i32::from(*sample) * tap;
                }
            }
            out.extend(sums.map(|sum| axis.level(sum)));
        }
    }
    out
}

/// The vertical pass over rows of `stride` bytes.
fn resize_columns(axis: &Axis, rgb: &[u8], stride: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(axis.windows.len() * stride);
    let mut sums = vec![axis.half(); stride];
    for window in &axis.windows {
        sums.fill(axis.half());
        let rows = rgb[window.start * stride..].chunks_exact(stride);
        for (row, tap) in rows.zip(axis.taps(window)) {
            for (sum, sample) in sums.iter_mut().zip(row) {
                *sum += i32::from(*sample) * tap;
            }
        }
        out.extend(sums.iter().map(|sum| axis.level(*sum)));
    }
    out
}

/// Resizes a picture to the same bytes as Pillow.
///
/// Errors: [`MediaError::Sides`] for a side of zero.
pub fn resize(picture: &Picture, width: u32, height: u32, filter: Filter) -> Result<Picture, MediaError> {
    let resizer = Resizer::new((picture.width(), picture.height()), (width, height), filter)?;
    Picture::new(width, height, resizer.resize(picture.rgb())?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use safetensors::SafeTensors;
    use sha2::{Digest, Sha256};

    use super::*;

    /// Noise by formula, which drives the filters into both clipping bounds.
    fn noise(width: u32, height: u32) -> Picture {
        let bytes = (0..width * height * 3).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        Picture::new(width, height, bytes).unwrap()
    }

    fn digest(picture: &Picture) -> String {
        Sha256::digest(picture.rgb()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_are_those_of_pillow() {
        // Pillow 13.0.0, `Image.resize`; the first eight bytes of each result's SHA-256.
        for (from, to, filter, expected) in [
            ([37, 23], [64, 96], Filter::Lanczos, "4a735c00c3095a5e"),
            ([37, 23], [64, 96], Filter::Bicubic, "178f852eeaa44d67"),
            ([120, 100], [32, 64], Filter::Lanczos, "027c1798c234d08d"),
            ([120, 100], [32, 64], Filter::Bicubic, "ce0c347050601f98"),
            ([100, 70], [33, 70], Filter::Lanczos, "570836b5e7b000c6"),
            ([100, 70], [33, 70], Filter::Bicubic, "d99d03a16623ddfb"),
            ([64, 48], [64, 31], Filter::Lanczos, "3706e28c2e9f28ab"),
            ([64, 48], [64, 31], Filter::Bicubic, "fa9eff9f7e1e765c"),
            ([1, 1], [32, 32], Filter::Lanczos, "a0365e85e6627be3"),
            ([2, 3], [96, 64], Filter::Lanczos, "bd48013dead20e1d"),
            ([2, 3], [96, 64], Filter::Bicubic, "2b1c57fbb134c813"),
            ([501, 7], [32, 32], Filter::Lanczos, "e16802713b82270d"),
            ([501, 7], [32, 32], Filter::Bicubic, "b559b1a1d4956d82"),
            ([33, 200], [40, 41], Filter::Lanczos, "5ebc031c8ecdf885"),
            ([33, 200], [40, 41], Filter::Bicubic, "aec10f1e26186301"),
            ([32, 32], [32, 32], Filter::Lanczos, "732075cbc403f638"),
            // Around the order of the passes: 31 and 30 rows lost beside 15 columns, one row beside none.
            ([60, 60], [45, 29], Filter::Lanczos, "26fe977ef75cce25"),
            ([60, 60], [45, 30], Filter::Lanczos, "d3eb72c44d8a90d3"),
            ([60, 60], [45, 30], Filter::Bicubic, "2b1b49ec57a31d7a"),
            ([60, 40], [61, 39], Filter::Bicubic, "ef5e88baf4124af9"),
        ] {
            let resized = resize(&noise(from[0], from[1]), to[0], to[1], filter).unwrap();
            assert_eq!(digest(&resized), expected, "{from:?} to {to:?} by {filter:?}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_torch() {
        // torchvision 0.29.2 on PyTorch 2.15, `resize(…, BICUBIC, antialias=True)` of bytes.
        for (from, to, expected) in [
            ([37, 23], [64, 96], "93bc04644c3b96c3"),
            ([120, 100], [32, 64], "33548e745f438ad6"),
            ([100, 70], [33, 70], "e3a904d6f1643a96"),
            ([64, 48], [64, 31], "90613de9e54c09c9"),
            ([2, 3], [96, 64], "8b9cfc90e8c92507"),
            ([501, 7], [32, 32], "b559b1a1d4956d82"),
            ([33, 200], [40, 41], "abd1107ea394793c"),
        ] {
            let resizer = Resizer::torch_bicubic((from[0], from[1]), (to[0], to[1])).unwrap();
            let rgb = resizer.resize(noise(from[0], from[1]).rgb()).unwrap();
            let resized = Picture::new(to[0], to[1], rgb).unwrap();
            assert_eq!(digest(&resized), expected, "{from:?} to {to:?}");
        }
    }

    #[test]
    fn the_golden_pictures_come_out_exactly() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/text_frontend.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let picture = Picture::new(100, 70, file.tensor("image_u8").unwrap().data().to_vec()).unwrap();
        for (width, height) in [(160, 128), (96, 64)] {
            let name = format!("pil_lanczos_100x70_to_{width}x{height}_u8");
            let resized = resize(&picture, width, height, Filter::Lanczos).unwrap();
            assert_eq!(resized.rgb(), file.tensor(&name).unwrap().data(), "{name}");
        }
    }

    #[test]
    fn frames_of_another_size_are_refused() {
        let resizer = Resizer::new((4, 4), (8, 8), Filter::Lanczos).unwrap();
        assert!(matches!(resizer.resize(&[0; 3]), Err(MediaError::PictureBytes { expected: 48, actual: 3, .. })));
        assert!(Resizer::new((4, 4), (0, 8), Filter::Lanczos).is_err());
        assert!(!resizer.is_identity());
        assert!(Resizer::new((4, 4), (4, 4), Filter::Bicubic).unwrap().is_identity());
    }

    proptest! {
        #[test]
        fn a_picture_of_one_colour_keeps_it(
            colour: [u8; 3], from in (1u32..40, 1u32..40), to in (1u32..40, 1u32..40), lanczos: bool,
        ) {
            let filter = if lanczos { Filter::Lanczos } else { Filter::Bicubic };
            let picture = Picture::new(from.0, from.1, colour.repeat((from.0 * from.1) as usize)).unwrap();
            let resized = resize(&picture, to.0, to.1, filter).unwrap();
            prop_assert!(resized.rgb().chunks_exact(3).all(|pixel| pixel == colour));
        }
    }
}
