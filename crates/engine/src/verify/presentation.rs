//! What the text encoder and the vision tower are given, value by value.

use super::compare::{Tolerance, equal};
use super::golden::{Error, GoldenFile};
use super::report::{Place, Report};
use super::text_frontend::check_patches;
use crate::text::{Presentation, Presented};

/// Compares the rows of the language model and the patches of pictures and videos.
pub(super) fn verify(
    presented: &Presented,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    check_rows(&presented.presentation, golden, place, report)?;
    for (scope, media, values) in [
        ("te.image_", &presented.vision.images, "te.pixel_values"),
        ("te.video_", &presented.vision.videos, "te.pixel_values_videos"),
    ] {
        if !media.is_empty() {
            check_patches(scope, media, golden, values, place, report)?;
        }
    }
    Ok(())
}

/// Rows of the language model, value by value.
fn check_rows(
    presentation: &Presentation,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let ids: Vec<i64> = presentation.ids().iter().map(|id| i64::from(*id)).collect();
    let kinds: Vec<i64> = presentation.kinds().iter().map(|kind| *kind as i64).collect();
    let tags: Vec<i64> = presentation.tags().iter().map(|tag| i64::from(tag.index())).collect();
    let positions: Vec<i64> =
        presentation.positions().axes().into_iter().flatten().map(|position| i64::from(*position)).collect();
    for (name, ours) in [("te.input_ids", ids), ("te.mm_token_type_ids", kinds), ("text_token_tags", tags)] {
        report.compared(place, name, Tolerance::Exact, equal(&ours, golden.integers(name)?));
    }
    let name = "te.position_ids_thw";
    if golden.names().any(|held| held == name) {
        report.compared(place, name, Tolerance::Exact, equal(&positions, golden.integers(name)?));
    }
    Ok(())
}
