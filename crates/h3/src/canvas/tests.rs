use proptest::prelude::*;

use super::*;

fn tiny() -> GeometryProfile {
    GeometryProfile { canvas_short_edge: 32, canvas_max_pixels: 2048, ..GeometryProfile::released() }
}

#[test]
fn named_ratios_give_the_released_canvases() {
    let geometry = GeometryProfile::released();
    let canvases = AspectRatio::ALL.map(|ratio| geometry.canvas(ratio.value()).unwrap().to_string());
    assert_eq!(canvases, ["1536x672", "1344x768", "1024x768", "768x768", "768x1024", "768x1344"]);
    assert_eq!(geometry.canvas(4.0).unwrap().to_string(), "2016x512");
    assert_eq!(geometry.canvas(0.25).unwrap().to_string(), "512x2016");
}

#[test]
fn the_tiny_geometry_gives_tiny_canvases() {
    assert_eq!(tiny().canvas(9.0 / 16.0).unwrap().to_string(), "32x64");
    assert_eq!(tiny().canvas(1.0).unwrap().to_string(), "32x32");
    assert_eq!(tiny().canvas(4.0).unwrap().to_string(), "96x32");
}

#[test]
fn a_ratio_beyond_four_to_one_is_refused() {
    for ratio in [0.24999, 4.00001, 0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(GeometryProfile::released().canvas(ratio), Err(CanvasError::AspectRatio(_))), "{ratio}");
    }
}

#[test]
fn explicit_sides_are_floored() {
    let canvas = GeometryProfile::released().explicit_canvas(1375, 799).unwrap();
    assert_eq!((canvas.width(), canvas.height()), (1344, 768));
    assert_eq!((canvas.latent_width(), canvas.latent_height()), (84, 48));
    assert_eq!(canvas.pixels(), 1_032_192);
}

#[test]
fn explicit_sides_may_not_vanish_or_be_too_narrow_or_too_large() {
    let explicit = |width, height| GeometryProfile::released().explicit_canvas(width, height).unwrap_err();
    assert!(matches!(explicit(31, 768), CanvasError::TooSmall { .. }));
    assert!(matches!(explicit(768, 0), CanvasError::TooSmall { .. }));
    assert!(matches!(explicit(160, 32), CanvasError::Ratio { .. }));
    assert!(matches!(explicit(32, 160), CanvasError::Ratio { .. }));
    for (width, height) in [(1920, 1080), (1024, 1024), (u64::MAX, u64::MAX)] {
        assert!(matches!(explicit(width, height), CanvasError::TooLarge { .. }), "{width}x{height}");
    }
    assert_eq!(
        explicit(1920, 1080).to_string(),
        "canvas may cover at most 1032192 pixels, or be what an aspect ratio gives, got 1920x1056 = 2027520 pixels"
    );
}

#[test]
fn a_canvas_over_the_area_is_accepted_when_a_ratio_gives_it() {
    let geometry = GeometryProfile::released();
    for (width, height) in [(1408, 736), (736, 1408), (1376, 768)] {
        let canvas = geometry.explicit_canvas(width, height).unwrap();
        assert!(canvas.pixels() > geometry.canvas_max_pixels);
    }
}

#[test]
fn ratios_are_read_by_name_and_by_equal_decimal() {
    for ratio in AspectRatio::ALL {
        assert_eq!(ratio.to_string().parse(), Ok(ratio));
        assert_eq!(format!(" {} ", ratio.value()).parse(), Ok(ratio));
        assert_eq!(format!("{:.7}", ratio.value()).parse(), Ok(ratio));
    }
    for text in ["16/9", "2:1", "1.78", "nan", "inf", "", "auto", "16:9:1", "1.3334"] {
        let error = text.parse::<AspectRatio>().unwrap_err().to_string();
        assert!(error.contains("16:9") && error.contains(text), "{error}");
    }
}

#[test]
fn a_stored_canvas_is_checked_again() {
    let canvas = Canvas::new(1344, 768).unwrap();
    let json = serde_json::to_string(&canvas).unwrap();
    assert_eq!(json, r#"{"width":1344,"height":768}"#);
    assert_eq!(serde_json::from_str::<Canvas>(&json).unwrap(), canvas);
    for json in [r#"{"width":1344,"height":760}"#, r#"{"width":0,"height":768}"#, r#"{"width":1344}"#] {
        assert!(serde_json::from_str::<Canvas>(json).is_err(), "{json}");
    }
}

proptest! {
    #[test]
    fn every_ratio_gives_a_bounded_canvas_that_is_accepted_by_name(ratio in 0.25f64..=4.0) {
        for geometry in [GeometryProfile::released(), tiny()] {
            let canvas = geometry.canvas(ratio).unwrap();
            prop_assert_eq!(canvas.width() % 32, 0);
            prop_assert_eq!(canvas.height() % 32, 0);
            let half = 16.0;
            let before_rounding =
                (f64::from(canvas.width()) - half) * (f64::from(canvas.height()) - half);
            prop_assert!(before_rounding <= geometry.canvas_max_pixels as f64);
            // A ratio at the very edge may round just beyond 4:1, which no explicit canvas may be.
            if canvas.width() <= 4 * canvas.height() && canvas.height() <= 4 * canvas.width() {
                let sides = (u64::from(canvas.width()), u64::from(canvas.height()));
                prop_assert_eq!(geometry.explicit_canvas(sides.0, sides.1), Ok(canvas));
            }
        }
    }

    #[test]
    fn an_accepted_canvas_is_at_most_a_unit_below_what_was_asked(
        width in 0u64..4000,
        height in 0u64..4000,
    ) {
        if let Ok(canvas) = GeometryProfile::released().explicit_canvas(width, height) {
            for (side, asked) in [(canvas.width(), width), (canvas.height(), height)] {
                prop_assert_eq!(side % 32, 0);
                prop_assert!(u64::from(side) <= asked && asked < u64::from(side) + 32);
            }
            // The rule's own excess over the area stays under four per cent.
            prop_assert!(canvas.pixels() * 100 <= 768 * 1344 * 104);
        }
    }

    #[test]
    fn turning_a_canvas_turns_the_answer(width in 0u64..4000, height in 0u64..4000) {
        let geometry = GeometryProfile::released();
        let (upright, turned) =
            (geometry.explicit_canvas(width, height), geometry.explicit_canvas(height, width));
        prop_assert_eq!(upright.is_ok(), turned.is_ok());
    }
}
