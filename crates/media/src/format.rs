//! What a written file is: size, length, quality, and the arithmetic between frames, bytes and samples.

use crate::Error;

/// Frames per second of every video.
pub const FPS: u32 = 24;
/// Samples per second and channel of every sound track.
pub const AUDIO_SAMPLE_RATE: u32 = 32_000;
/// Channels of every sound track, interleaved left, right.
pub const AUDIO_CHANNELS: usize = 2;
/// The most samples per channel that may be missing at the end and are filled with silence: one audio latent.
///
/// MiniMax-H3 makes a whole number of audio latents, the nearest to the video's length, so that a third of the
/// frame counts (107, 158, …) end with up to half a latent more of picture than of sound.
pub(crate) const MAX_PADDED_SAMPLES: u64 = 800;

/// How much of the picture the encoder keeps.
///
/// Every quality is H.264 in yuv420p: chroma has half the resolution, whatever the quality. `Default` and `High` use
/// the High profile, which every player and phone decodes in hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VideoQuality {
    /// libx264 at CRF 18, preset `medium`: hard to tell from the source.
    #[default]
    Default,
    /// libx264 at CRF 12, preset `slow`: more bytes, for further editing.
    High,
    /// libx264 at QP 0, preset `medium`: the yuv420p picture is kept bit for bit.
    ///
    /// What is lossless is the coding; the conversion from RGB rounds to 8-bit limited range and halves chroma. QP 0
    /// exists only in the High 4:4:4 Predictive profile (the pixels stay 4:2:0), which ffmpeg, VLC, mpv and Chrome
    /// decode in software, and Safari and most hardware do not: `High` is the quality for wide playback.
    Lossless,
}

impl VideoQuality {
    /// The libx264 rate control, `-crf` or `-qp` with its value, and the preset.
    pub(crate) const fn codec_settings(self) -> [&'static str; 4] {
        match self {
            Self::Default => ["-crf", "18", "-preset", "medium"],
            Self::High => ["-crf", "12", "-preset", "slow"],
            Self::Lossless => ["-qp", "0", "-preset", "medium"],
        }
    }
}

/// The file that a [`crate::Muxer`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MuxFormat {
    /// Width in pixels: even, 16 to 8192.
    pub width: u32,
    /// Height in pixels: even, 16 to 8192.
    pub height: u32,
    /// Frames of the video, at [`FPS`].
    pub num_frames: u32,
    /// How much of the picture the encoder keeps.
    pub quality: VideoQuality,
}

impl MuxFormat {
    /// Bytes of one packed RGB24 frame.
    pub fn frame_bytes(&self) -> usize {
        3 * self.width as usize * self.height as usize
    }

    /// Samples per channel that the frames last, rounded to the nearest.
    pub fn audio_samples(&self) -> u64 {
        let twice = 2 * u64::from(self.num_frames) * u64::from(AUDIO_SAMPLE_RATE);
        (twice + u64::from(FPS)) / (2 * u64::from(FPS))
    }

    /// Refuses sizes that yuv420p or the codec cannot hold, and empty videos.
    ///
    /// Errors: [`Error::Format`] with the field and the rule.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (field, value) in [("width", self.width), ("height", self.height)] {
            if value % 2 != 0 || !(16..=8192).contains(&value) {
                return Err(Error::Format { field, rule: "an even number from 16 to 8192", value: value.into() });
            }
        }
        // The largest count keeps every duration and byte count far from overflow; it is ten hours of video.
        if !(1..=864_000).contains(&self.num_frames) {
            return Err(Error::Format { field: "num_frames", rule: "from 1 to 864000", value: self.num_frames.into() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn format(width: u32, height: u32, num_frames: u32) -> MuxFormat {
        MuxFormat { width, height, num_frames, quality: VideoQuality::Default }
    }

    #[test]
    fn odd_empty_and_huge_sizes_are_refused_by_name() {
        for (bad, field) in [
            (format(33, 32, 5), "width"),
            (format(32, 31, 5), "height"),
            (format(0, 32, 5), "width"),
            (format(32, 8194, 5), "height"),
            (format(32, 32, 0), "num_frames"),
            (format(32, 32, 864_001), "num_frames"),
        ] {
            let message = bad.check().unwrap_err().to_string();
            assert!(message.starts_with(&format!("{field} must be")), "{message}");
        }
        assert!(format(32, 32, 1).check().is_ok());
    }

    #[test]
    fn samples_of_known_lengths() {
        assert_eq!(format(32, 32, 124).audio_samples(), 165_333);
        assert_eq!(format(32, 32, 107).audio_samples(), 142_667);
        assert_eq!(format(32, 32, 24).audio_samples(), 32_000);
    }

    proptest! {
        #[test]
        fn samples_are_the_nearest_to_the_length_of_the_video(num_frames in 1u32..=864_000) {
            let exact = f64::from(num_frames) / 24.0 * 32_000.0;
            let samples = format(32, 32, num_frames).audio_samples() as f64;
            prop_assert!((samples - exact).abs() <= 0.5);
        }

        #[test]
        fn the_models_own_sound_is_never_missing_more_than_may_be_padded(num_frames in 1u32..=864_000) {
            let latents = (f64::from(num_frames) / 24.0 * 40.0).round_ties_even() as u64;
            let missing = format(32, 32, num_frames).audio_samples().saturating_sub(800 * latents);
            prop_assert!(missing <= MAX_PADDED_SAMPLES);
        }
    }
}
