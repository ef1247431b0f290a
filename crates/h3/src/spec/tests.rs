use std::error::Error;

use super::*;

fn spec() -> GenerationSpec {
    GenerationSpec {
        version: GenerationSpec::VERSION,
        task: Task::T2va,
        partition: Partition::Fl2va,
        recipe: Recipe::Release,
        prompt: "a fox, 雪".to_owned(),
        canvas: Canvas::new(1344, 768).unwrap(),
        num_frames: FrameCount::new(124).unwrap(),
        video_sigmas: Sigmas::shifted(3, 12.0).unwrap(),
        audio_sigmas: Sigmas::shifted(3, 3.0).unwrap(),
        seed: u64::MAX,
        quality: Quality::Default,
        geometry: GeometryProfile::released(),
    }
}

#[test]
fn the_stored_form_is_stable() {
    assert_eq!(
        spec().encode(),
        concat!(
            r#"{"version":1,"task":"t2va","partition":"fl2va","recipe":"release","prompt":"a fox, 雪","#,
            r#""canvas":{"width":1344,"height":768},"num_frames":124,"#,
            r#""video_sigmas":[1.0,0.9230769,0.0],"audio_sigmas":[1.0,0.75,0.0],"#,
            r#""seed":18446744073709551615,"quality":"default","#,
            r#""geometry":{"canvas_short_edge":768,"canvas_max_pixels":1032192,"canvas_multiple":32,"#,
            r#""reference_image_short_edge":2048,"min_duration_seconds":4.0,"max_duration_seconds":15.0}}"#
        )
    );
    assert_eq!(GenerationSpec::decode(&spec().encode()).unwrap(), spec());
}

#[test]
fn an_unknown_version_is_told_apart_from_a_broken_spec() {
    let newer = spec().encode().replace(r#""version":1"#, r#""version":2,"news":[]"#);
    let error = GenerationSpec::decode(&newer).unwrap_err();
    assert!(matches!(error, SpecError::UnknownVersion { found: 2 }));
    assert_eq!(error.to_string(), "generation spec has version 2, this build knows version 1");
    // Even where it is read as a part of something else.
    let newer = spec().encode().replace(r#""version":1"#, r#""version":2"#);
    assert!(serde_json::from_str::<GenerationSpec>(&newer).is_err());
}

#[test]
fn a_broken_spec_is_malformed_and_keeps_its_cause() {
    let good = spec().encode();
    for bad in [
        "{}".to_owned(),
        "not json".to_owned(),
        good.replace("1344", "1345"),
        good.replace(r#""num_frames":124"#, r#""num_frames":123"#),
        good.replace("0.9230769", "1.5"),
        good.replace(r#""seed":"#, r#""sed":"#),
        good.replace(r#""task":"t2va""#, r#""task":"t2v""#),
    ] {
        let error = GenerationSpec::decode(&bad).unwrap_err();
        assert!(matches!(error, SpecError::Malformed(_)), "{bad}: {error}");
        assert!(error.source().is_some());
    }
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    let decode = |spec: GenerationSpec| GenerationSpec::decode(&spec.encode()).unwrap_err();
    let mut bad = spec();
    bad.partition = Partition::Ref2va;
    assert_eq!(decode(bad).to_string(), "generation spec names partition ref2va for task t2va");
    let mut bad = spec();
    bad.audio_sigmas = Sigmas::shifted(4, 3.0).unwrap();
    assert_eq!(decode(bad).to_string(), "generation spec has 3 video sigmas and 4 audio sigmas");
    let mut bad = spec();
    bad.prompt.clear();
    assert!(matches!(decode(bad), SpecError::Prompt));
    let mut bad = spec();
    bad.geometry.canvas_multiple = 24;
    assert!(matches!(decode(bad), SpecError::Geometry(_)));
}

#[test]
fn the_cost_grows_with_frames_and_steps() {
    let small = spec();
    let mut longer = spec();
    longer.num_frames = FrameCount::new(345).unwrap();
    let mut finer = spec();
    finer.video_sigmas = Sigmas::shifted(50, 12.0).unwrap();
    assert!(longer.cost() > small.cost());
    assert!(finer.cost() > small.cost());
    // Two forwards of 3507 TFLOP and 1893 for the decoder.
    assert!((small.cost().get() - 8900.0).abs() < 50.0, "{}", small.cost());
}
