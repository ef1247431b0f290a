//! Frames on their way into the encoder.

use std::ops::Range;

use super::decode::{PIXEL_MEAN, PIXEL_STD};

/// Colours of a pixel.
const COLOURS: usize = PIXEL_MEAN.len();

/// The values of frames on the host.
#[derive(Debug, Clone, Copy)]
pub enum FrameValues<'a> {
    /// Red, green and blue as bytes, `[frames, height, width, 3]`.
    Rgb8(&'a [u8]),
    /// What the network takes, `[3, frames, height, width]`: colours in `[0, 1]` less [`PIXEL_MEAN`], over [`PIXEL_STD`].
    Normalised(&'a [f32]),
}

/// A picture or a clip on the host, already on its canvas.
#[derive(Debug, Clone, Copy)]
pub struct VideoFrames<'a> {
    /// The values.
    pub values: FrameValues<'a>,
    /// Frames; a picture has one.
    pub frames: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl VideoFrames<'_> {
    /// How many values there are, and how many the sizes need; more than memory could hold saturate.
    pub(super) fn lengths(&self) -> (usize, usize) {
        let actual = match self.values {
            FrameValues::Rgb8(bytes) => bytes.len(),
            FrameValues::Normalised(values) => values.len(),
        };
        let needed = [self.frames, self.height, self.width].into_iter().fold(COLOURS, usize::saturating_mul);
        (actual, needed)
    }

    /// Writes one tile of some frames as the network takes it, `[3, frames, rows, columns]`.
    pub(super) fn pack(
        &self,
        frames: impl Iterator<Item = usize> + Clone,
        rows: Range<usize>,
        columns: Range<usize>,
        pixels: &mut Vec<f32>,
    ) {
        pixels.clear();
        for colour in 0..COLOURS {
            let levels = pixel_levels(colour);
            for frame in frames.clone() {
                for row in rows.clone() {
                    match self.values {
                        FrameValues::Rgb8(bytes) => {
                            let start = (frame * self.height + row) * self.width;
                            let row = &bytes[COLOURS * (start + columns.start)..COLOURS * (start + columns.end)];
                            pixels.extend(row.chunks_exact(COLOURS).map(|pixel| levels[usize::from(pixel[colour])]));
                        }
                        FrameValues::Normalised(values) => {
                            let start = ((colour * self.frames + frame) * self.height + row) * self.width;
                            pixels.extend_from_slice(&values[start + columns.start..start + columns.end]);
                        }
                    }
                }
            }
        }
    }
}

/// What each byte of a colour is for the network.
pub(crate) fn pixel_levels(colour: usize) -> [f32; 256] {
    std::array::from_fn(|byte| (byte as f32 / 255.0 - PIXEL_MEAN[colour]) / PIXEL_STD[colour])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_tile_become_planes_of_normalised_colours() {
        // 2 frames of 1 x 3: byte = 100 · frame + 10 · column + colour.
        let bytes: Vec<u8> = (0..18).map(|i| 100 * (i / 9) + 10 * (i % 9 / 3) + i % 3).collect();
        let frames = VideoFrames { values: FrameValues::Rgb8(&bytes), frames: 2, height: 1, width: 3 };
        let mut pixels = Vec::new();
        frames.pack([1, 1].into_iter(), 0..1, 1..3, &mut pixels);
        let value = |byte: u8, colour: usize| (f32::from(byte) / 255.0 - PIXEL_MEAN[colour]) / PIXEL_STD[colour];
        let expected: Vec<f32> =
            (0..3).flat_map(|c| [110, 120, 110, 120].map(|byte| value(byte + c as u8, c))).collect();
        assert_eq!(pixels, expected);

        // The same frames, normalised before, give the same tile.
        let whole: Vec<f32> = (0..3).flat_map(|c| bytes.iter().skip(c).step_by(3).map(move |b| value(*b, c))).collect();
        let frames = VideoFrames { values: FrameValues::Normalised(&whole), ..frames };
        frames.pack([1, 1].into_iter(), 0..1, 1..3, &mut pixels);
        assert_eq!(pixels, expected);
    }
}
