//! Which size pixels are resized to: sides of whole merged patches, within bounds on their number.
//!
//! Source: transformers 5.24.0 `smart_resize` of the Qwen2-VL image processor and of the Qwen3-VL video processor.

use super::error::VisionError;
use crate::checkpoint::PixelConfig;

/// The largest ratio of two sides.
const MAX_RATIO: usize = 200;

/// Returns the `(height, width)` that a picture is resized to.
///
/// Errors: [`VisionError::Elongated`].
pub fn image_size(height: usize, width: usize, config: &PixelConfig) -> Result<(usize, usize), VisionError> {
    check_ratio(height, width)?;
    let factor = config.factor();
    let (rounded_height, rounded_width) = (round_to(height as f64, factor), round_to(width as f64, factor));
    let pixels = (rounded_height * rounded_width) as u64;
    Ok(bounded([rounded_height, rounded_width], [height as f64, width as f64], 1, pixels, config))
}

/// Returns the `(height, width)` that each of `frames` frames is resized to: the bounds are those of all together.
///
/// Errors: [`VisionError::Elongated`].
pub fn video_size(
    frames: usize,
    height: usize,
    width: usize,
    config: &PixelConfig,
) -> Result<(usize, usize), VisionError> {
    let factor = config.factor();
    let (mut height, mut width) = (height, width);
    if height < factor || width < factor {
        let scale = (factor as f64 / height as f64).max(factor as f64 / width as f64);
        height = (height as f64 * scale) as usize;
        width = (width as f64 * scale) as usize;
    }
    check_ratio(height, width)?;
    let (rounded_height, rounded_width) = (round_to(height as f64, factor), round_to(width as f64, factor));
    let rounded_frames = round_to(frames as f64, config.temporal_patch_size);
    let pixels = (rounded_frames * rounded_height * rounded_width) as u64;
    // The scale is taken from the frames that there are, only the comparison from their rounded number.
    Ok(bounded([rounded_height, rounded_width], [height as f64, width as f64], frames, pixels, config))
}

fn check_ratio(height: usize, width: usize) -> Result<(), VisionError> {
    let (short, long) = (height.min(width), height.max(width));
    if long as f64 / short as f64 > MAX_RATIO as f64 {
        return Err(VisionError::Elongated { width, height, most: MAX_RATIO });
    }
    Ok(())
}

/// Rounds to a multiple of `step`, halves to the even multiple.
fn round_to(length: f64, step: usize) -> usize {
    (length / step as f64).round_ties_even() as usize * step
}

/// Scales the sides until they hold `pixels` within the bounds.
fn bounded(
    rounded: [usize; 2],
    [height, width]: [f64; 2],
    frames: usize,
    pixels: u64,
    config: &PixelConfig,
) -> (usize, usize) {
    let factor = config.factor() as f64;
    // Products first, then one division each, as the source has it: another order may cross a whole number.
    let volume = frames as f64 * height * width;
    let [height, width] = if pixels > config.max_pixels {
        let beta = (volume / config.max_pixels as f64).sqrt();
        [height, width].map(|side| ((side / beta / factor).floor() * factor).max(factor))
    } else if pixels < config.min_pixels {
        let beta = (config.min_pixels as f64 / volume).sqrt();
        [height, width].map(|side| (side * beta / factor).ceil() * factor)
    } else {
        rounded.map(|side| side as f64)
    };
    (height as usize, width as usize)
}

#[cfg(test)]
mod tests {
    use clapboard_h3::InputShape;
    use proptest::prelude::*;

    use super::*;
    use crate::vision::front::tests::released;

    fn image(height: usize, width: usize) -> (usize, usize) {
        image_size(height, width, &released().image).unwrap()
    }

    #[test]
    fn sides_round_half_to_even_multiples() {
        assert_eq!(image(768, 1344), (768, 1344));
        assert_eq!(image(2048, 8192), (2048, 8192));
        // 16.5 and 17.5 times 32.
        assert_eq!(image(528, 560), (512, 576));
    }

    #[test]
    fn few_pixels_grow_and_many_shrink() {
        assert_eq!(image(64, 64), (256, 256));
        assert_eq!(image(100, 70), (320, 224));
        assert_eq!(image(8192, 8192), (4096, 4096));
    }

    #[test]
    fn a_video_is_measured_with_all_its_frames() {
        let video = |frames| video_size(frames, 768, 1344, &released().video).unwrap();
        // 24 · 768 · 1344 fits 25165824 pixels, and so does 25 as its rounded number is 24.
        assert_eq!([video(2), video(24), video(25)], [(768, 1344); 3]);
        assert_eq!(video(26), (736, 1280));
        assert_eq!(video(30), (672, 1184));
    }

    #[test]
    fn a_sliver_is_refused() {
        let refused = image_size(1, 201, &released().image).unwrap_err();
        assert_eq!(refused.to_string(), "sides of 201x1 pixels differ by more than a factor of 200");
        assert!(video_size(2, 1, 6433, &released().video).is_err());
    }

    /// Tokens of one frame of `(height, width)` pixels.
    fn tokens((height, width): (usize, usize)) -> usize {
        height / 32 * (width / 32)
    }

    proptest! {
        #[test]
        fn what_is_seen_is_within_the_bound_on_rows(height in 1u32..70, width in 1u32..70, frames in 13u32..360) {
            let [height, width] = [height, width].map(|side| 32 * side);
            let (high, wide) = (height as usize, width as usize);
            let latents = tokens((high, wide));
            let picture = InputShape { width, height, frames: 1, audio_latents: 0 };
            let seen = tokens(image_size(high, wide, &released().image).unwrap());
            prop_assert!(picture.rows_bound() >= latents + seen);
            let clip = InputShape { frames, ..picture };
            let samples = frames.div_ceil(12) as usize;
            let seen = samples.div_ceil(2) * tokens(video_size(samples, high, wide, &released().video).unwrap());
            prop_assert!(clip.rows_bound() >= frames as usize / 17 * 5 * latents + seen);
        }

        #[test]
        fn sizes_are_multiples_within_the_bounds(height in 32usize..6000, width in 32usize..6000, frames in 2usize..60) {
            prop_assume!(height.max(width) / height.min(width) < 100);
            let config = released();
            let (h, w) = image_size(height, width, &config.image).unwrap();
            prop_assert!(h > 0 && w > 0 && h % 32 == 0 && w % 32 == 0);
            prop_assert!((config.image.min_pixels..=config.image.max_pixels).contains(&((h * w) as u64)));
            let (h, w) = video_size(frames, height, width, &config.video).unwrap();
            prop_assert!(h > 0 && w > 0 && h % 32 == 0 && w % 32 == 0);
            prop_assert!((frames * h * w) as u64 <= config.video.max_pixels + (h * w) as u64);
        }
    }
}
