//! From pixels of any size to patches.

use clapboard_h3::prepare::{Clip, Picture, Resizer};

use super::error::VisionError;
use super::patches::Patches;
use super::sampling::{block_timestamps, frames_for, sampled_frames};
use super::smart_resize::{image_size, video_size};
use crate::checkpoint::{PixelConfig, ProcessorConfig};

/// The processor in front of the vision tower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelFront {
    config: ProcessorConfig,
}

/// A video as the language model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledVideo {
    /// The sampled frames in patches.
    pub patches: Patches,
    /// The time of each frame of patches, in seconds.
    pub timestamps: Vec<f64>,
}

impl PixelFront {
    /// Works as a checkpoint's processor says.
    pub fn new(config: ProcessorConfig) -> Self {
        Self { config }
    }

    /// Returns how many patches per side become one token.
    pub fn merge_size(&self) -> usize {
        self.config.image.merge_size
    }

    /// Prepares a picture.
    ///
    /// Errors: [`VisionError::Elongated`], [`VisionError::Media`].
    pub fn image(&self, picture: &Picture) -> Result<Patches, VisionError> {
        let (height, width) = (picture.height() as usize, picture.width() as usize);
        let config = self.config.image;
        let to = image_size(height, width, &config)?;
        patches(config, [picture.rgb()].into_iter(), (picture.width(), picture.height()), to)
    }

    /// Samples a video at two frames a second and prepares them.
    ///
    /// Errors: [`VisionError::TooFewFrames`] for a video of which less than one full patch is sampled,
    /// [`VisionError::Elongated`].
    pub fn video(&self, clip: &Clip) -> Result<SampledVideo, VisionError> {
        let picks = sampled_frames(clip.frames());
        let depth = self.config.video.temporal_patch_size;
        if picks.len() < depth {
            return Err(VisionError::TooFewFrames { frames: clip.frames(), needed: frames_for(depth) });
        }
        let timestamps = block_timestamps(picks.len(), depth);
        Ok(SampledVideo { patches: self.frames(clip, &picks)?, timestamps })
    }

    /// Prepares some frames of a clip; those that it does not have are passed over.
    ///
    /// Errors: [`VisionError::Elongated`].
    pub fn frames(&self, clip: &Clip, picks: &[usize]) -> Result<Patches, VisionError> {
        let (height, width) = (clip.height() as usize, clip.width() as usize);
        let config = self.config.video;
        let to = video_size(picks.len(), height, width, &config)?;
        let frames = picks.iter().filter_map(|pick| clip.frame(*pick));
        patches(config, frames, (clip.width(), clip.height()), to)
    }
}

/// Resizes each frame from a width and height to a height and width, and cuts all into patches.
fn patches<'a>(
    config: PixelConfig,
    frames: impl Iterator<Item = &'a [u8]>,
    from: (u32, u32),
    (height, width): (usize, usize),
) -> Result<Patches, VisionError> {
    let narrow = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
    let resizer = Resizer::torch_bicubic(from, (narrow(width), narrow(height)))?;
    let (mut rgb, mut pictures) = (Vec::new(), 0);
    for frame in frames {
        rgb.extend(resizer.resize(frame)?);
        pictures += 1;
    }
    Ok(Patches::new(config, rgb, pictures, height, width))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The processor that Qwen3-VL was released with.
    pub(in crate::vision) fn released() -> ProcessorConfig {
        let image = PixelConfig {
            min_pixels: 65_536,
            max_pixels: 16_777_216,
            patch_size: 16,
            temporal_patch_size: 2,
            merge_size: 2,
            rescale_factor: 1.0 / 255.0,
            mean: [0.5; 3],
            std: [0.5; 3],
        };
        ProcessorConfig { image, video: PixelConfig { min_pixels: 4096, max_pixels: 25_165_824, ..image } }
    }

    #[test]
    fn a_clip_is_sampled_and_timed_by_pairs() {
        let clip = Clip::new(64, 32, (0..36).flat_map(|frame| vec![frame; 64 * 32 * 3]).collect()).unwrap();
        let SampledVideo { patches, timestamps } = PixelFront::new(released()).video(&clip).unwrap();
        assert_eq!(timestamps, [0.25, 1.0]);
        let grid = patches.grid();
        assert_eq!([grid.frames, grid.height, grid.width], [2, 2, 4]);
        let level = |byte: f32| (byte - 127.5) / 127.5;
        let second = patches.rows(8..9);
        assert_eq!((second[0], second[256]), (level(24.0), level(24.0)));
        assert_eq!((patches.rows(0..1)[0], patches.rows(0..1)[256]), (level(0.0), level(12.0)));
    }

    #[test]
    fn a_clip_of_half_a_second_is_too_short() {
        let clip = Clip::new(32, 32, vec![0; 12 * 32 * 32 * 3]).unwrap();
        let refused = PixelFront::new(released()).video(&clip).unwrap_err();
        let message = "video reference must have at least 13 frames at 24 frames per second, got 12";
        assert_eq!(refused.to_string(), message);
    }

    #[test]
    fn a_small_picture_is_enlarged() {
        let picture = Picture::new(64, 32, vec![7; 64 * 32 * 3]).unwrap();
        let patches = PixelFront::new(released()).image(&picture).unwrap();
        let grid = patches.grid();
        assert_eq!([grid.frames, grid.height, grid.width], [1, 12, 24]);
        assert_eq!(patches.width(), 1536);
    }
}
