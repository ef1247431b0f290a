use std::error::Error;

use super::*;
use crate::{InputRole, InputShape};

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
        inputs: Vec::new(),
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
    let newer = spec().encode().replace(r#""version":1"#, r#""version":3,"news":[]"#);
    let error = GenerationSpec::decode(&newer).unwrap_err();
    assert!(matches!(error, SpecError::UnknownVersion { found: 3 }));
    assert_eq!(error.to_string(), "generation spec has version 3, this build knows versions [1, 2]");
    // Even where it is read as a part of something else.
    let newer = spec().encode().replace(r#""version":1"#, r#""version":3"#);
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

#[test]
fn inputs_raise_the_version_and_are_stored_by_name() {
    let shape = InputShape { width: 1344, height: 768, frames: 1, audio_latents: 0 };
    let inputs = vec![Input { role: InputRole::LastFrame, object: "v1/t/in".to_owned(), shape }];
    let version = GenerationSpec::version_with(&inputs);
    let spec = GenerationSpec { task: Task::Fl2va, version, inputs, ..spec() };
    let stored = spec.encode();
    assert!(stored.starts_with(r#"{"version":2,"#), "{stored}");
    let last = concat!(
        r#""inputs":[{"role":"last_frame","object":"v1/t/in","#,
        r#""shape":{"width":1344,"height":768,"frames":1,"audio_latents":0}}]}"#
    );
    assert!(stored.ends_with(last), "{stored}");
    assert_eq!(GenerationSpec::decode(&stored).unwrap(), spec);
    let error = GenerationSpec::decode(&stored.replace(r#""version":2"#, r#""version":1"#)).unwrap_err();
    assert_eq!(error.to_string(), "generation spec of version 1 has 1 inputs");
    let error = GenerationSpec::decode(&stored.replace("fl2va\",\"part", "t2va\",\"part")).unwrap_err();
    assert!(matches!(error, SpecError::Inputs(_)), "{error}");
    let alone = GenerationSpec { version: 1, task: Task::T2va, inputs: Vec::new(), ..spec.clone() };
    assert!(spec.rows_bound() > alone.rows_bound() + 1008 && spec.cost() > alone.cost());
}

#[test]
fn rows_beyond_counting_saturate() {
    let shape = InputShape { width: u32::MAX, height: u32::MAX, frames: u32::MAX, audio_latents: u32::MAX };
    let inputs = vec![Input { role: InputRole::Video, object: "v1/t/in".to_owned(), shape }; 2];
    let absurd = GenerationSpec { task: Task::Ref2va, partition: Partition::Ref2va, inputs, ..spec() };
    assert_eq!(absurd.rows_bound(), usize::MAX);
    assert!(absurd.cost() > spec().cost());
}
