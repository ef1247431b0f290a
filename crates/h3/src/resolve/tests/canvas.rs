use super::*;

fn sized(size: &str) -> VideoRequest {
    VideoRequest { size: Some(size.to_owned()), aspect_ratio: None, ..request() }
}

#[test]
fn a_size_alone_carries_the_ratio_and_is_floored() {
    assert_eq!(resolved(sized("1280x720")).canvas.to_string(), "1280x704");
    assert_eq!(resolved(sized("720x1280")).canvas.to_string(), "704x1280");
    assert_eq!(resolved(sized("1408x736")).canvas.to_string(), "1408x736");
    assert_eq!(resolved(sized("2016x512")).canvas.to_string(), "2016x512");
}

#[test]
fn a_size_overrides_width_and_height_and_the_ratio() {
    let asked =
        VideoRequest { width: Some(640), height: Some(640), aspect_ratio: Some("1:1".to_owned()), ..sized("1024x576") };
    assert_eq!(resolved(asked).canvas.to_string(), "1024x576");
    let asked = VideoRequest { width: Some(640), ..sized("1024x576") };
    assert_eq!(resolved(asked).canvas.to_string(), "1024x576");
}

#[test]
fn a_size_that_is_no_size_is_refused() {
    for size in
        ["", "1344", "1344X768", "1344x", "x768", "-1x768", "1344x768x3", "1 x 1", "+9x9", "99999999999999999999x32"]
    {
        assert_refused(sized(size), "invalid_value", "size", &["WIDTHxHEIGHT", size]);
    }
}

#[test]
fn a_size_out_of_bounds_is_refused() {
    for (size, words) in [
        ("1920x1080", ["1032192", "1920x1080"]),
        ("16x768", ["32", "16x768"]),
        ("1344x320", ["4:1", "1344x320"]),
        ("320x1344", ["4:1", "320x1344"]),
        ("18446744073709551615x18446744073709551615", ["1032192", "18446744073709551615"]),
    ] {
        assert_refused(sized(size), "invalid_size", "size", &words);
    }
}

#[test]
fn width_and_height_go_with_a_ratio_and_are_floored() {
    let asked = VideoRequest { width: Some(1000), height: Some(600), ..request() };
    assert_eq!(resolved(asked.clone()).canvas.to_string(), "992x576");
    let asked = VideoRequest { width: Some(4000), ..asked };
    assert_refused(asked, "invalid_size", "width", &["width and height 4000x600", "4:1"]);
}

#[test]
fn without_a_size_t2va_requires_a_ratio() {
    for (width, height) in [(None, None), (Some(1344), Some(768))] {
        let asked = VideoRequest { width, height, aspect_ratio: None, ..request() };
        assert_eq!(
            refused(asked),
            (
                "missing_required_parameter",
                "aspect_ratio".to_owned(),
                "t2va requires an explicit aspect_ratio".to_owned()
            )
        );
    }
}

#[test]
fn one_side_alone_is_refused_and_names_the_other() {
    for aspect_ratio in [None, Some("16:9".to_owned())] {
        let asked = VideoRequest { aspect_ratio, ..request() };
        let wide = VideoRequest { width: Some(640), ..asked.clone() };
        assert_refused(wide, "invalid_value", "height", &["together with width", "640"]);
        let high = VideoRequest { height: Some(640), ..asked };
        assert_refused(high, "invalid_value", "width", &["together with height", "640"]);
    }
}

#[test]
fn sides_below_one_are_refused() {
    for (width, height, field) in [(0, 768, "width"), (1344, -5, "height"), (i64::MIN, 1, "width")] {
        let asked = VideoRequest { width: Some(width), height: Some(height), ..request() };
        assert_refused(asked, "invalid_value", field, &["at least 1"]);
    }
}

#[test]
fn a_ratio_must_be_named_and_not_adaptive() {
    for ratio in ["adaptive", "auto", " AUTO "] {
        for size in [None, Some("1344x768".to_owned())] {
            let asked = VideoRequest { aspect_ratio: Some(ratio.to_owned()), size, ..request() };
            assert_refused(asked, "invalid_aspect_ratio", "aspect_ratio", &["t2va", ratio]);
        }
    }
    for ratio in ["2:1", "1.5", "wide", "nan"] {
        let asked = VideoRequest { aspect_ratio: Some(ratio.to_owned()), ..request() };
        assert_refused(asked, "invalid_aspect_ratio", "aspect_ratio", &["21:9", ratio]);
    }
    let asked = VideoRequest { aspect_ratio: Some("1.7777778".to_owned()), ..request() };
    assert_eq!(resolved(asked).canvas.to_string(), "1344x768");
}

#[test]
fn only_the_checkpoints_short_edge_is_taken() {
    let asked = |short_edge| VideoRequest { short_edge: Some(short_edge), ..request() };
    assert_eq!(resolved(asked(768)).canvas.to_string(), "1344x768");
    assert_refused(asked(1080), "invalid_value", "short_edge", &["768", "1080"]);
}
