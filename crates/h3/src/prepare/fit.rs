//! Fitting pictures and videos to the sizes at which the networks take them.

use super::media::{MediaError, Picture};
use super::resize::{Filter, resize};
use crate::canvas::{Canvas, CanvasError};
use crate::geometry::GeometryProfile;
use crate::recipe::Recipe;

impl GeometryProfile {
    /// Derives the canvas of a picture or video from its own sides, in pixels.
    ///
    /// That is the target's canvas for the first keyframe, and a reference video's own.
    ///
    /// Errors: [`CanvasError::AspectRatio`] outside 1:4 to 4:1.
    pub fn canvas_of(&self, width: u32, height: u32) -> Result<Canvas, CanvasError> {
        self.canvas(f64::from(width) / f64::from(height))
    }

    /// Derives the width and height that a reference picture of the given sides is resized to, in pixels.
    ///
    /// The short edge becomes `reference_image_short_edge`, small pictures growing; then each side is rounded to the
    /// nearest `canvas_multiple`, halves to even, and at least one. The area has no limit.
    ///
    /// Errors: [`CanvasError::Ratio`] outside 1:4 to 4:1.  Source: diffusers 0.42.1, which vllm-omni 0.30.0 equals.
    pub fn reference_picture_size(&self, width: u32, height: u32) -> Result<(u32, u32), CanvasError> {
        let (wide, tall) = (u64::from(width), u64::from(height));
        if width == 0 || height == 0 || wide > 4 * tall || tall > 4 * wide {
            return Err(CanvasError::Ratio { width: wide, height: tall });
        }
        let scale = f64::from(self.reference_image_short_edge) / f64::from(width.min(height));
        let multiple = f64::from(self.canvas_multiple);
        let side = |side: u32| ((f64::from(side) * scale / multiple).round_ties_even().max(1.0) * multiple) as u32;
        Ok((side(width), side(height)))
    }
}

/// Why a picture was not fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// The picture's sides lead to no size.
    #[error(transparent)]
    Size(#[from] CanvasError),
    /// The picture could not be resized.
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// Fits a keyframe to the canvas; `position` counts the request's keyframes from zero.
///
/// Both recipes stretch the first one, whichever end of the video it stands for. The second one is stretched by
/// [`Recipe::Release`]; [`Recipe::Diffusers`] lets it cover the canvas and cuts what overhangs.
///
/// Errors: [`MediaError`] when the picture cannot be resized.
pub fn fit_keyframe(picture: &Picture, canvas: Canvas, position: usize, recipe: Recipe) -> Result<Picture, MediaError> {
    match (position, recipe) {
        (0, _) | (_, Recipe::Release) => resize(picture, canvas.width(), canvas.height(), Filter::Lanczos),
        (_, Recipe::Diffusers) => cover(picture, canvas),
    }
}

/// Resizes a picture until it covers the canvas and cuts equal margins.
fn cover(picture: &Picture, canvas: Canvas) -> Result<Picture, MediaError> {
    let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
    let scale = (f64::from(canvas.width()) / width).max(f64::from(canvas.height()) / height);
    let side = |side: f64, least: u32| ((side * scale).round_ties_even() as u32).max(least);
    let (wide, tall) = (side(width, canvas.width()), side(height, canvas.height()));
    let resized = resize(picture, wide, tall, Filter::Lanczos)?;
    let (left, top) = ((wide - canvas.width()) / 2, (tall - canvas.height()) / 2);
    let kept = left as usize * 3..(left + canvas.width()) as usize * 3;
    let rows = resized.rgb().chunks_exact(wide as usize * 3).skip(top as usize).take(canvas.height() as usize);
    Picture::new(canvas.width(), canvas.height(), rows.flat_map(|row| &row[kept.clone()]).copied().collect())
}

/// Resizes a reference picture to the size that [`GeometryProfile::reference_picture_size`] gives it.
///
/// Errors: [`FitError::Size`] outside 1:4 to 4:1, [`FitError::Media`] when the picture cannot be resized.
pub fn fit_reference_picture(picture: &Picture, geometry: &GeometryProfile) -> Result<Picture, FitError> {
    let (width, height) = geometry.reference_picture_size(picture.width(), picture.height())?;
    Ok(resize(picture, width, height, Filter::Lanczos)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn striped(width: u32, height: u32) -> Picture {
        let bytes = (0..width * height).flat_map(|i| [(i % width) as u8, (i / width) as u8, 7]).collect();
        Picture::new(width, height, bytes).unwrap()
    }

    #[test]
    fn reference_pictures_get_a_short_edge_of_2048_and_no_cap() {
        let geometry = GeometryProfile::released();
        for (from, to) in [
            ((256, 256), (2048, 2048)),
            ((1920, 1080), (3648, 2048)),
            ((1080, 1920), (2048, 3648)),
            ((4000, 1000), (8192, 2048)),
            ((5760, 2304), (5120, 2048)),
            // 1000 pixels become 65.5 multiples: the half goes to the even 66; 62.5 would go to 62.
            ((1048, 1024), (2112, 2048)),
        ] {
            assert_eq!(geometry.reference_picture_size(from.0, from.1), Ok(to), "{from:?}");
        }
        assert!(matches!(geometry.reference_picture_size(401, 100), Err(CanvasError::Ratio { .. })));
        assert!(matches!(geometry.reference_picture_size(0, 0), Err(CanvasError::Ratio { .. })));
    }

    #[test]
    fn a_canvas_follows_the_sides_of_the_first_picture() {
        let geometry = GeometryProfile::released();
        let canvas = geometry.canvas_of(1920, 1080).unwrap();
        assert_eq!((canvas.width(), canvas.height()), (1344, 768));
        assert!(geometry.canvas_of(500, 100).is_err());
        assert!(geometry.canvas_of(0, 0).is_err());
    }

    #[test]
    fn only_diffusers_crops_and_only_the_second_keyframe() {
        let (picture, canvas) = (striped(96, 32), Canvas::new(32, 32).unwrap());
        let stretched = resize(&picture, 32, 32, Filter::Lanczos).unwrap();
        for (position, recipe) in [(0, Recipe::Release), (1, Recipe::Release), (0, Recipe::Diffusers)] {
            assert_eq!(fit_keyframe(&picture, canvas, position, recipe).unwrap(), stretched);
        }
        // Already as tall as the canvas: the middle third is cut out untouched.
        let cropped = fit_keyframe(&picture, canvas, 1, Recipe::Diffusers).unwrap();
        assert_eq!(cropped.rgb()[..3], [32, 0, 7]);
        assert_eq!(cropped.rgb()[cropped.rgb().len() - 3..], [63, 31, 7]);
    }

    #[test]
    fn an_odd_overhang_leaves_the_smaller_margin_first() {
        let picture = striped(35, 32);
        let cropped = fit_keyframe(&picture, Canvas::new(32, 32).unwrap(), 1, Recipe::Diffusers).unwrap();
        assert_eq!(cropped.rgb()[0], 1);
    }
}
