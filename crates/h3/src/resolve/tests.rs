mod canvas;
mod media;

use proptest::prelude::*;

use super::*;
use crate::medium::Medium;
use crate::profile::{Defaults, Shifts, TaskFrames};
use crate::recipe::Recipe;
use crate::references::ReferenceCounts;
use crate::task::Partition;

const RANDOM_SEED: u64 = 4_000_000_007;

fn profile() -> ModelProfile {
    ModelProfile::released("MiniMax-H3", vec![Partition::Fl2va])
}

fn tiny() -> ModelProfile {
    ModelProfile {
        geometry: GeometryProfile {
            canvas_short_edge: 32,
            canvas_max_pixels: 2048,
            reference_image_short_edge: 64,
            min_duration_seconds: 0.5,
            ..GeometryProfile::released()
        },
        defaults: Defaults { num_frames: TaskFrames::all(FrameCount::MIN), num_inference_steps: 4 },
        ..profile()
    }
}

fn request() -> VideoRequest {
    VideoRequest {
        prompt: Some("a red fox trots through the snow".to_owned()),
        aspect_ratio: Some("16:9".to_owned()),
        ..VideoRequest::default()
    }
}

/// A small file in the field `field`.
fn medium(field: &str, facts: MediumFacts) -> Medium {
    Medium { field: field.to_owned(), object: format!("objects/{field}"), size_bytes: 1000, facts }
}

fn resolved(request: VideoRequest) -> GenerationSpec {
    request.resolve(&profile(), RANDOM_SEED).unwrap()
}

/// Returns code, field and message of a refusal.
fn refused(request: VideoRequest) -> (&'static str, String, String) {
    let invalid = request.resolve(&profile(), RANDOM_SEED).unwrap_err();
    (invalid.code.as_str(), invalid.field, invalid.message)
}

fn assert_refused(request: VideoRequest, code: &str, field: &str, words: &[&str]) {
    let (got_code, got_field, message) = refused(request);
    assert_eq!((got_code, got_field.as_str()), (code, field), "{message}");
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
}

#[test]
fn a_ratio_and_a_prompt_are_enough() {
    let spec = resolved(request());
    assert_eq!(
        spec,
        GenerationSpec {
            version: 1,
            task: Task::T2va,
            partition: Partition::Fl2va,
            recipe: Recipe::Release,
            prompt: "a red fox trots through the snow".to_owned(),
            canvas: Canvas::new(1344, 768).unwrap(),
            num_frames: FrameCount::new(209).unwrap(),
            video_sigmas: Sigmas::shifted(50, 12.0).unwrap(),
            audio_sigmas: Sigmas::shifted(50, 3.0).unwrap(),
            seed: RANDOM_SEED,
            quality: Quality::Default,
            geometry: GeometryProfile::released(),
            inputs: Vec::new(),
        }
    );
    assert_eq!(spec.forwards(), 49);
}

#[test]
fn a_profile_brings_its_own_geometry_shifts_and_defaults() {
    let mut profile = tiny();
    profile.shifts = Shifts { video: 7.0, audio: 2.0 };
    let spec = request().resolve(&profile, 1).unwrap();
    assert_eq!(spec.canvas.to_string(), "64x32");
    assert_eq!(spec.num_frames.get(), 22);
    assert_eq!(spec.video_sigmas, Sigmas::shifted(4, 7.0).unwrap());
    assert_eq!(spec.audio_sigmas, Sigmas::shifted(4, 2.0).unwrap());
    assert_eq!(spec.geometry, profile.geometry);
    let asked = VideoRequest { duration: Some(0.9), ..request() };
    assert_eq!(asked.resolve(&profile, 1).unwrap().num_frames.get(), 22);
}

#[test]
fn a_prompt_is_required() {
    for prompt in [None, Some(String::new())] {
        let asked = VideoRequest { prompt, ..request() };
        assert_refused(asked, "missing_required_parameter", "prompt", &["prompt"]);
    }
}

#[test]
fn a_prompt_is_counted_in_characters_not_bytes() {
    let of = |chars: usize| VideoRequest { prompt: Some("雪".repeat(chars)), ..request() };
    assert_eq!(resolved(of(7000)).prompt.chars().count(), 7000);
    assert_refused(of(7001), "string_above_max_length", "prompt", &["7000", "7001"]);
}

#[test]
fn special_token_strings_are_refused_and_lookalikes_are_not() {
    for (prompt, token) in [
        ("a fox <|image_pad|> runs", "<|image_pad|>"),
        ("<|vision_start|>", "<|vision_start|>"),
        ("<<|im_end|>", "<|im_end|>"),
        ("<|<|video_pad|>", "<|video_pad|>"),
        ("雪<|endoftext|>雪", "<|endoftext|>"),
    ] {
        let asked = VideoRequest { prompt: Some(prompt.to_owned()), ..request() };
        assert_refused(asked, "invalid_value", "prompt", &["special-token", token]);
    }
    for prompt in ["<|", "<||>", "f <| g |> h", "<Picture 1>", "<|雪|>", "a |> b <| c", "<|image_pad"] {
        let asked = VideoRequest { prompt: Some(prompt.to_owned()), ..request() };
        assert_eq!(resolved(asked).prompt, prompt);
    }
}

#[test]
fn a_duration_beats_seconds_and_seconds_beat_frames() {
    let mut asked = VideoRequest { duration: Some(6.0), seconds: Some(5.0), num_frames: Some(345), ..request() };
    assert_eq!(resolved(asked.clone()).num_frames.get(), 158);
    asked.duration = None;
    assert_eq!(resolved(asked.clone()).num_frames.get(), 124);
    asked.seconds = None;
    assert_eq!(resolved(asked).num_frames.get(), 345);
}

#[test]
fn a_refused_duration_names_the_field_it_came_from() {
    for seconds in [3.99, 15.01, 0.0, -4.0, f64::NAN, f64::INFINITY] {
        let asked = VideoRequest { seconds: Some(seconds), ..request() };
        assert_refused(asked, "invalid_duration", "seconds", &["seconds", "4 and 15", &seconds.to_string()]);
        let asked = VideoRequest { duration: Some(seconds), seconds: Some(5.0), ..request() };
        assert_refused(asked, "invalid_duration", "extra_params.duration", &["4 and 15"]);
    }
    for frames in [0, -1, 95, 361, i64::MAX] {
        let asked = VideoRequest { num_frames: Some(frames), ..request() };
        assert_refused(asked, "invalid_duration", "num_frames", &["4 and 15", &frames.to_string()]);
    }
}

#[test]
fn only_24_frames_a_second_are_taken() {
    let asked = |fps| VideoRequest { fps: Some(fps), ..request() };
    assert_eq!(resolved(asked(24.0)).forwards(), 49);
    for fps in [24.9, 23.976, 30.0, 0.0, f64::NAN] {
        assert_refused(asked(fps), "invalid_fps", "fps", &["24", &fps.to_string()]);
    }
}

#[test]
fn steps_count_sigma_points_from_2_to_200() {
    let asked = |points| VideoRequest { num_inference_steps: Some(points), ..request() };
    for points in [2, 200] {
        let spec = resolved(asked(points));
        assert_eq!(spec.forwards() as i64, points - 1);
        assert_eq!(spec.video_sigmas.points(), spec.audio_sigmas.points());
    }
    for points in [1, 0, -1, 201, i64::MAX, (1 << 32) + 50] {
        assert_refused(
            asked(points),
            "invalid_value",
            "num_inference_steps",
            &["between 2 and 200", &points.to_string()],
        );
    }
}

#[test]
fn a_distilled_checkpoint_pins_its_steps() {
    let mut profile = profile();
    profile.base_schedule = Some(vec![1.0, 0.75, 0.5, 0.25, 0.0]);
    let mut asked = request();
    assert_eq!(asked.resolve(&profile, 0).unwrap().forwards(), 4);
    asked.num_inference_steps = Some(5);
    assert_eq!(asked.resolve(&profile, 0).unwrap().forwards(), 4);
    asked.num_inference_steps = Some(50);
    let invalid = asked.resolve(&profile, 0).unwrap_err();
    assert_eq!(invalid.code, InvalidCode::InvalidValue);
    assert_eq!(invalid.field, "num_inference_steps");
    assert_eq!(invalid.to_string(), "num_inference_steps must be 5 for this checkpoint's schedule, got 50");
}

#[test]
fn shifts_must_be_finite_and_positive() {
    for shift in [0.0, -12.0, f64::NAN, f64::INFINITY, 1e-9] {
        let asked = VideoRequest { flow_shift: Some(shift), ..request() };
        assert_refused(asked, "invalid_value", "flow_shift", &["shift", &shift.to_string()]);
        let asked = VideoRequest { audio_flow_shift: Some(shift), ..request() };
        assert_refused(asked, "invalid_value", "extra_params.audio_flow_shift", &["shift"]);
    }
    let asked =
        VideoRequest { flow_shift: Some(5.0), audio_flow_shift: Some(4.0), num_inference_steps: Some(9), ..request() };
    let spec = resolved(asked);
    assert_eq!(spec.video_sigmas, Sigmas::shifted(9, 5.0).unwrap());
    assert_eq!(spec.audio_sigmas, Sigmas::shifted(9, 4.0).unwrap());
}

#[test]
fn a_shift_that_loses_points_on_one_side_is_refused() {
    let mut profile = profile();
    profile.base_schedule = Some(vec![1.0, 1.0f32.next_down(), 0.5, 0.0]);
    for (video, audio, field) in [(12.0, 1.0, "flow_shift"), (1.0, 12.0, "extra_params.audio_flow_shift")] {
        let asked = VideoRequest { flow_shift: Some(video), audio_flow_shift: Some(audio), ..request() };
        let invalid = asked.resolve(&profile, 0).unwrap_err();
        assert_eq!((invalid.code, invalid.field.as_str()), (InvalidCode::InvalidValue, field));
        assert!(invalid.message.contains("equally many"), "{invalid}");
    }
}

#[test]
fn a_negative_seed_is_stored_by_its_twos_complement() {
    for (seed, stored) in [(0, 0), (42, 42), (i64::MAX, i64::MAX as u64), (-1, u64::MAX)] {
        let asked = VideoRequest { seed: Some(seed), ..request() };
        assert_eq!(resolved(asked).seed, stored);
    }
}

#[test]
fn quality_is_high_or_lossless_or_absent() {
    let asked = |name: &str| VideoRequest { quality: Some(name.to_owned()), ..request() };
    assert_eq!(resolved(asked("high")).quality, Quality::High);
    assert_eq!(resolved(asked("lossless")).quality, Quality::Lossless);
    assert_refused(asked("best"), "invalid_value", "quality", &["lossless, high", "best"]);
}

#[test]
fn the_recipe_is_kept() {
    let asked = VideoRequest { recipe: Some(Recipe::Diffusers), ..request() };
    assert_eq!(resolved(asked).recipe, Recipe::Diffusers);
}

#[test]
fn tasks_that_are_unknown_or_not_run_say_what_is() {
    for task in ["ref2va", "i2v", "T2VA", ""] {
        let asked = VideoRequest { task: Some(task.to_owned()), ..request() };
        assert_refused(asked, "unsupported_task", "extra_params.task", &[task, "this server runs t2va, fl2va"]);
    }
    let asked = VideoRequest { task: Some("t2va".to_owned()), ..request() };
    assert_eq!(resolved(asked).task, Task::T2va);
    let profile = ModelProfile::released("h3", Vec::new());
    let invalid = request().resolve(&profile, 0).unwrap_err();
    assert_eq!(invalid.message, "task t2va is not run here: this server runs no task");
}

/// Any medium, most of them within the limits or just outside.
fn any_medium() -> impl Strategy<Value = Medium> {
    let sides = (250u32..700, 250u32..700);
    let facts = prop_oneof![
        sides.clone().prop_map(|(width, height)| MediumFacts::Image { width, height }),
        (sides, 23.0f64..61.0, 1.9f64..8.0, prop::option::of(0.0f64..8.0)).prop_map(
            |((width, height), fps, seconds, sound_seconds)| MediumFacts::Video {
                width,
                height,
                fps,
                seconds,
                sound_seconds
            }
        ),
        (1.9f64..8.0).prop_map(|seconds| MediumFacts::Audio { seconds }),
    ];
    (facts, ".{1,20}").prop_map(|(facts, object)| Medium { object, ..medium("input_references[0]", facts) })
}

proptest! {
    #[test]
    fn every_spec_that_resolves_is_sound_and_survives_json(
        prompt in ".{1,200}",
        (width, height) in (0i64..2100, 0i64..2100),
        ratio in prop::option::of(0usize..6),
        with_sides: bool,
        seconds in prop::option::of(3.0f64..16.0),
        points in prop::option::of(0i64..210),
        flow_shift in prop::option::of(0.01f64..1e7),
        seed: Option<i64>,
        frame_indices in prop::option::weighted(0.2, prop::collection::vec(-1i64..1, 0..3)),
        media in prop::collection::vec(any_medium(), 0..4),
        recipe in prop::sample::select(&Recipe::ALL),
    ) {
        let asked = VideoRequest {
            prompt: Some(prompt),
            width: with_sides.then_some(width),
            height: with_sides.then_some(height),
            aspect_ratio: ratio.map(|index| AspectRatio::ALL[index].to_string()),
            seconds,
            num_inference_steps: points,
            flow_shift,
            seed,
            frame_indices,
            media,
            recipe: Some(recipe),
            ..VideoRequest::default()
        };
        let profile = ModelProfile { partitions: Partition::ALL.to_vec(), ..profile() };
        let counts = ReferenceCounts::of(asked.media.iter().map(|medium| medium.facts.kind()));
        match asked.resolve(&profile, RANDOM_SEED) {
            Ok(spec) => {
                prop_assert!(spec.check().is_ok());
                prop_assert_eq!(&GenerationSpec::decode(&spec.encode()).unwrap(), &spec);
                prop_assert!(spec.cost().get() > 0.0);
                prop_assert_eq!(spec.seed, seed.map_or(RANDOM_SEED, |seed| seed as u64));
                prop_assert_eq!(spec.task, counts.implied_task());
                prop_assert_eq!(asked.precheck(counts, &profile), Ok(spec.task));
                prop_assert_eq!(spec.inputs.len(), asked.media.len());
                prop_assert!(asked.media.iter().all(|medium| spec.inputs.iter().any(|i| i.object == medium.object)));
                prop_assert!(spec.rows_bound() > spec.target().rows());
            }
            Err(invalid) => {
                prop_assert!(!invalid.field.is_empty());
                prop_assert!(!invalid.message.ends_with('.'));
            }
        }
    }
}
