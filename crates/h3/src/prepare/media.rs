//! Decoded reference media in the forms that the networks take.

use super::order::ReferenceKind;
use crate::input::InputShape;

/// The sampling rate of the audio VAE, in samples per second.
pub const SOUND_RATE: u32 = 32_000;

/// Samples of a sound that one latent of the audio VAE covers.
const SAMPLES_PER_LATENT: u32 = 800;

/// Why bytes or samples are not what their sizes say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// A side is zero, or the sides need more memory than there are addresses.
    #[error("picture sides must be positive and fit memory, got {width}x{height}")]
    Sides {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// A picture has more or fewer bytes than its pixels.
    #[error("picture of {width}x{height} must have {expected} bytes, got {actual}")]
    PictureBytes {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
        /// Three bytes a pixel.
        expected: usize,
        /// The bytes given.
        actual: usize,
    },
    /// A clip's bytes are not one or more whole frames.
    #[error("clip of {width}x{height} must have one or more frames of {frame_bytes} bytes, got {actual} bytes")]
    ClipBytes {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
        /// The bytes of one frame.
        frame_bytes: usize,
        /// The bytes given.
        actual: usize,
    },
    /// The channels of a sound differ in length, or there is nothing in them.
    #[error("sound must have one or more samples, as many on the left as on the right, got {left} and {right}")]
    Samples {
        /// The samples of the left channel.
        left: usize,
        /// The samples of the right channel.
        right: usize,
    },
    /// A sample is infinite or no number.
    #[error("sound must have finite samples only")]
    NotFinite,
    /// A recording has no or too many channels, or a rate outside [`Recording::RATES`].
    #[error(
        "recording must have one or two channels at {low} to {high} Hz, got {channels} channels at {rate} Hz",
        low = Recording::RATES.start(), high = Recording::RATES.end()
    )]
    Recording {
        /// The channels given.
        channels: usize,
        /// The rate given, in samples per second.
        rate: u32,
    },
}

/// Returns the bytes of one RGB frame.
pub(super) fn frame_bytes(width: u32, height: u32) -> Result<usize, MediaError> {
    let bytes = (width as usize).checked_mul(height as usize).and_then(|pixels| pixels.checked_mul(3));
    bytes.filter(|bytes| *bytes > 0).ok_or(MediaError::Sides { width, height })
}

fn check_finite<'a>(mut samples: impl Iterator<Item = &'a f32>) -> Result<(), MediaError> {
    if samples.all(|sample| sample.is_finite()) { Ok(()) } else { Err(MediaError::NotFinite) }
}

/// An 8-bit RGB picture, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Picture {
    /// Takes the bytes `[height, width, 3]` of a picture.
    ///
    /// Errors: [`MediaError::Sides`] for an empty picture, [`MediaError::PictureBytes`] for a wrong number of bytes.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self, MediaError> {
        let expected = frame_bytes(width, height)?;
        if rgb.len() == expected {
            Ok(Self { width, height, rgb })
        } else {
            Err(MediaError::PictureBytes { width, height, expected, actual: rgb.len() })
        }
    }

    /// Returns the width in pixels.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the height in pixels.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns the bytes, `[height, width, 3]`.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Gives the bytes away, `[height, width, 3]`.
    pub fn into_rgb(self) -> Vec<u8> {
        self.rgb
    }
}

/// 8-bit RGB frames at 24 frames a second, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clip {
    width: u32,
    height: u32,
    frames: usize,
    rgb: Vec<u8>,
}

impl Clip {
    /// Takes the bytes `[frames, height, width, 3]` of one or more frames.
    ///
    /// Errors: [`MediaError::Sides`] for empty frames, [`MediaError::ClipBytes`] unless the bytes are whole frames.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self, MediaError> {
        let frame_bytes = frame_bytes(width, height)?;
        if rgb.is_empty() || !rgb.len().is_multiple_of(frame_bytes) {
            return Err(MediaError::ClipBytes { width, height, frame_bytes, actual: rgb.len() });
        }
        Ok(Self { width, height, frames: rgb.len() / frame_bytes, rgb })
    }

    /// Returns the width in pixels.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the height in pixels.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns the number of frames, at least one.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the bytes, `[frames, height, width, 3]`.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Returns the bytes of one frame, `[height, width, 3]`; none beyond the last.
    pub fn frame(&self, index: usize) -> Option<&[u8]> {
        self.rgb.chunks_exact(self.rgb.len() / self.frames).nth(index)
    }

    /// Returns the bytes of the leading frames, `[frames, height, width, 3]`; of all where there are fewer.
    pub fn leading(&self, frames: usize) -> &[u8] {
        &self.rgb[..self.rgb.len() / self.frames * frames.min(self.frames)]
    }
}

/// Stereo sound at [`SOUND_RATE`]: what the audio VAE takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    left: Vec<f32>,
    right: Vec<f32>,
}

impl Sound {
    /// Takes the samples of both channels, at 32 kHz.
    ///
    /// Errors: [`MediaError::Samples`] for channels of unequal length or without samples, [`MediaError::NotFinite`].
    pub fn new(left: Vec<f32>, right: Vec<f32>) -> Result<Self, MediaError> {
        if left.is_empty() || left.len() != right.len() {
            return Err(MediaError::Samples { left: left.len(), right: right.len() });
        }
        check_finite(left.iter().chain(&right))?;
        Ok(Self { left, right })
    }

    /// Returns the samples of the left channel.
    pub fn left(&self) -> &[f32] {
        &self.left
    }

    /// Returns the samples of the right channel.
    pub fn right(&self) -> &[f32] {
        &self.right
    }

    /// Returns the samples of one channel, at least one.
    pub fn samples(&self) -> usize {
        self.left.len()
    }
}

/// Sound as it was decoded: one or two channels at the rate of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    rate: u32,
    channels: Vec<Vec<f32>>,
}

impl Recording {
    /// The rates that are taken, in samples per second: those of telephones to those of studios.
    pub const RATES: std::ops::RangeInclusive<u32> = 8_000..=192_000;

    /// Takes the samples of one or two channels, left first, and their rate in samples per second.
    ///
    /// Errors: [`MediaError::Recording`] for another number of channels or a rate outside [`Recording::RATES`],
    /// [`MediaError::Samples`] for channels of unequal length or without samples, [`MediaError::NotFinite`].
    pub fn new(rate: u32, channels: Vec<Vec<f32>>) -> Result<Self, MediaError> {
        let (left, right) = match channels.as_slice() {
            [mono] if Self::RATES.contains(&rate) => (mono.len(), mono.len()),
            [left, right] if Self::RATES.contains(&rate) => (left.len(), right.len()),
            _ => return Err(MediaError::Recording { channels: channels.len(), rate }),
        };
        if left == 0 || left != right {
            return Err(MediaError::Samples { left, right });
        }
        check_finite(channels.iter().flatten())?;
        Ok(Self { rate, channels })
    }

    /// Returns the samples per second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Returns the channels: one, or left and right.
    pub fn channels(&self) -> &[Vec<f32>] {
        &self.channels
    }

    /// Returns the samples of one channel, at least one.
    pub fn samples(&self) -> usize {
        self.channels[0].len()
    }

    /// Returns the duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples() as f64 / f64::from(self.rate)
    }

    /// Drops what lies beyond the leading samples; at least one stays.
    pub fn truncate(&mut self, samples: usize) {
        self.channels.iter_mut().for_each(|channel| channel.truncate(samples.max(1)));
    }
}

/// One reference as the networks take it; a request's references stand in packed order.
#[derive(Debug, Clone, PartialEq)]
pub enum PreparedReference {
    /// A picture at its final size: a keyframe fitted to the canvas, or a reference picture.
    Image(Picture),
    /// A video on its own canvas, at 24 frames a second and no longer than the target.
    Video {
        /// Every frame that the text encoder may sample; the video VAE takes [`vae_frames`](super::vae_frames) of them.
        clip: Clip,
        /// The sound that goes with it.
        soundtrack: Option<Sound>,
    },
    /// A standalone sound.
    Audio(Sound),
}

impl PreparedReference {
    /// Returns how large it is.
    pub fn shape(&self) -> InputShape {
        let latents = |sound: &Sound| (sound.samples() as u32).div_ceil(SAMPLES_PER_LATENT);
        let (width, height, frames, audio_latents) = match self {
            Self::Image(picture) => (picture.width(), picture.height(), 1, 0),
            Self::Video { clip, soundtrack } => {
                (clip.width(), clip.height(), clip.frames() as u32, soundtrack.as_ref().map_or(0, latents))
            }
            Self::Audio(sound) => (0, 0, 0, latents(sound)),
        };
        InputShape { width, height, frames, audio_latents }
    }

    /// Returns what kind of reference it is.
    pub fn kind(&self) -> ReferenceKind {
        match self {
            Self::Image(_) => ReferenceKind::Image,
            Self::Video { .. } => ReferenceKind::Video,
            Self::Audio(_) => ReferenceKind::Audio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_to_fill_the_pixels() {
        let picture = Picture::new(2, 1, vec![1; 6]).unwrap();
        assert_eq!((picture.width(), picture.height(), picture.rgb().len()), (2, 1, 6));
        assert_eq!(Picture::new(2, 1, vec![1; 5]).unwrap_err().to_string(), "picture of 2x1 must have 6 bytes, got 5");
        assert_eq!(Picture::new(0, 1, vec![]).unwrap_err(), MediaError::Sides { width: 0, height: 1 });
    }

    #[test]
    fn a_clip_is_one_or_more_whole_frames() {
        let clip = Clip::new(1, 1, vec![1, 1, 1, 2, 2, 2]).unwrap();
        assert_eq!((clip.frames(), clip.frame(1), clip.frame(2)), (2, Some([2; 3].as_slice()), None));
        assert_eq!((clip.leading(1), clip.leading(9).len()), ([1; 3].as_slice(), 6));
        assert!(Clip::new(1, 1, vec![]).is_err());
        assert!(Clip::new(1, 1, vec![1; 4]).is_err());
    }

    #[test]
    fn channels_have_one_length() {
        assert_eq!(Sound::new(vec![0.0], vec![0.5]).unwrap().samples(), 1);
        assert!(Sound::new(vec![], vec![]).is_err());
        assert!(Sound::new(vec![0.0], vec![]).is_err());
        assert_eq!(Sound::new(vec![f32::NAN], vec![0.0]), Err(MediaError::NotFinite));
        assert_eq!(Recording::new(8000, vec![vec![f32::INFINITY]]), Err(MediaError::NotFinite));
        assert_eq!(Recording::new(8000, vec![vec![0.0; 4000]]).unwrap().seconds(), 0.5);
        for rate in [0, 7_999, 192_001] {
            let error = Recording::new(rate, vec![vec![0.0]]).unwrap_err();
            let expected =
                format!("recording must have one or two channels at 8000 to 192000 Hz, got 1 channels at {rate} Hz");
            assert_eq!(error.to_string(), expected);
        }
        assert!(Recording::new(8000, vec![vec![0.0]; 3]).is_err());
        assert!(Recording::new(8000, vec![vec![0.0], vec![]]).is_err());
    }
}
