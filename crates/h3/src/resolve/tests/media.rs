use super::*;
use crate::input::{InputRole, InputShape};
use crate::prepare::ReferenceKind;

const PORTRAIT: MediumFacts = MediumFacts::Image { width: 600, height: 800 };
const LANDSCAPE: MediumFacts = MediumFacts::Image { width: 1920, height: 1080 };
const CLIP: MediumFacts =
    MediumFacts::Video { width: 1920, height: 1080, fps: 29.97, seconds: 4.0, sound_seconds: Some(3.0) };
const SOUND: MediumFacts = MediumFacts::Audio { seconds: 2.5 };

/// The profile of a server that runs everything.
fn both() -> ModelProfile {
    ModelProfile { partitions: Partition::ALL.to_vec(), ..profile() }
}

/// A request with these media and nothing said about the canvas; each medium's field ends in its index.
fn with(media: &[MediumFacts]) -> VideoRequest {
    let media = media.iter().enumerate().map(|(i, facts)| medium(&format!("input_references[{i}]"), *facts)).collect();
    VideoRequest { media, aspect_ratio: None, ..request() }
}

fn resolved(request: VideoRequest) -> GenerationSpec {
    let spec = request.resolve(&both(), RANDOM_SEED).unwrap();
    spec.check().unwrap();
    spec
}

#[track_caller]
fn refuses(request: VideoRequest, code: &str, field: &str, words: &[&str]) {
    let invalid = request.resolve(&both(), RANDOM_SEED).unwrap_err();
    assert_eq!((invalid.code.as_str(), invalid.field.as_str()), (code, field), "{invalid}");
    for word in words {
        assert!(invalid.message.contains(word), "{invalid} lacks {word:?}");
    }
}

/// The roles with the index of the medium that each was given.
fn roles(spec: &GenerationSpec) -> Vec<(InputRole, usize)> {
    let index = |object: &str| object.trim_end_matches(']').rsplit('[').next().unwrap().parse().unwrap();
    spec.inputs.iter().map(|input| (input.role, index(&input.object))).collect()
}

#[test]
fn the_task_follows_from_the_media_and_their_weights() {
    for (media, task, version) in [
        (&[][..], Task::T2va, 1),
        (&[PORTRAIT], Task::Fl2va, 2),
        (&[PORTRAIT, LANDSCAPE], Task::Fl2va, 2),
        (&[CLIP], Task::Ref2va, 2),
        (&[PORTRAIT, SOUND], Task::Ref2va, 2),
    ] {
        let spec = resolved(VideoRequest { aspect_ratio: Some("1:1".to_owned()), ..with(media) });
        assert_eq!((spec.task, spec.partition, spec.version), (task, task.partition(), version));
    }
    // One picture is a reference where it is asked for, or where there are weights for nothing else.
    let named = VideoRequest { task: Some("ref2va".to_owned()), ..with(&[PORTRAIT]) };
    assert_eq!(roles(&resolved(named)), [(InputRole::Image, 0)]);
    let references = ModelProfile::released("h3", vec![Partition::Ref2va]);
    let spec = with(&[PORTRAIT]).resolve(&references, 0).unwrap();
    assert_eq!((spec.task, spec.num_frames.get()), (Task::Ref2va, 124));
    let invalid = with(&[]).resolve(&references, 0).unwrap_err();
    assert_eq!((invalid.code, invalid.field.as_str()), (InvalidCode::ReferenceRequired, "input_references"));
    let rule = "ref2va requires at least one image or video reference";
    assert_eq!(invalid.to_string(), format!("{rule}, got none: this server runs ref2va alone"));
    let named = VideoRequest { task: Some("ref2va".to_owned()), ..with(&[]) };
    let invalid = named.resolve(&references, 0).unwrap_err();
    assert_eq!(invalid.to_string(), format!("{rule}, got none"));
    let named = VideoRequest { task: Some("fl2va".to_owned()), ..with(&[PORTRAIT]) };
    let invalid = named.resolve(&references, 0).unwrap_err();
    assert_eq!(invalid.message, "task fl2va is not run here: this server runs ref2va");
}

#[test]
fn a_task_that_follows_from_references_and_is_not_run_is_refused_by_their_kind() {
    let keyframes = ModelProfile::released("h3", vec![Partition::Fl2va]);
    for (media, kind, field) in
        [(&[PORTRAIT, CLIP, SOUND][..], "video", "video_reference"), (&[PORTRAIT, SOUND], "sound", "audio_reference")]
    {
        let invalid = with(media).resolve(&keyframes, 0).unwrap_err();
        assert_eq!((invalid.code, invalid.field.as_str()), (InvalidCode::UnsupportedTask, field));
        let message =
            format!("{kind} references make the task ref2va, which is not run here: this server runs t2va, fl2va");
        assert_eq!(invalid.message, message);
        let named = VideoRequest { task: Some("ref2va".to_owned()), ..with(media) };
        assert_eq!(named.resolve(&keyframes, 0).unwrap_err().field, "extra_params.task");
    }
}

#[test]
fn media_must_go_with_the_task() {
    let asked = |task: &str, media: &[MediumFacts]| VideoRequest { task: Some(task.to_owned()), ..with(media) };
    let combination = "invalid_reference_combination";
    refuses(asked("t2va", &[SOUND]), combination, "audio_reference", &["t2va"]);
    refuses(asked("fl2va", &[]), combination, "image_reference", &["1 to 2"]);
    refuses(asked("fl2va", &[PORTRAIT, CLIP]), combination, "video_reference", &["images only"]);
    refuses(with(&[PORTRAIT; 3]), combination, "image_reference", &["1 to 2", "3", "with the task ref2va they are"]);
    refuses(with(&[SOUND]), "reference_required", "audio_reference", &["got a sound alone"]);
    refuses(with(&[SOUND; 2]), "reference_required", "audio_reference", &["got 2 sounds alone"]);
    refuses(asked("ref2va", &[PORTRAIT; 10]), "too_many_references", "image_reference", &["9", "10"]);
    assert_eq!(resolved(asked("ref2va", &[PORTRAIT; 9])).inputs.len(), 9);
}

#[test]
fn keyframes_stand_first_and_last_unless_told() {
    use InputRole::{FirstFrame, LastFrame};
    let keyframes = |images: usize, frame_indices: Option<&[i64]>| VideoRequest {
        frame_indices: frame_indices.map(<[i64]>::to_vec),
        ..with(&[LANDSCAPE, PORTRAIT][..images])
    };
    for (images, given, expected) in [
        (1, None, &[(FirstFrame, 0)][..]),
        (1, Some(&[0][..]), &[(FirstFrame, 0)]),
        (1, Some(&[-1]), &[(LastFrame, 0)]),
        (2, None, &[(FirstFrame, 0), (LastFrame, 1)]),
        (2, Some(&[0, -1]), &[(FirstFrame, 0), (LastFrame, 1)]),
    ] {
        for recipe in Recipe::ALL {
            let asked = VideoRequest { recipe: Some(recipe), ..keyframes(images, given) };
            assert_eq!(roles(&resolved(asked)), expected);
        }
    }
    for (images, given) in
        [(1, &[][..]), (1, &[1]), (1, &[0, -1]), (2, &[0]), (2, &[-1, 0]), (2, &[0, 0]), (2, &[0, -1, 0])]
    {
        let rule = "[0] or [-1] for one image and [0, -1] for two";
        refuses(keyframes(images, Some(given)), "invalid_value", "frame_indices", &[rule, &format!("{given:?}")]);
    }
    for task in ["t2va", "ref2va"] {
        let media = if task == "t2va" { &[][..] } else { &[PORTRAIT] };
        let asked = VideoRequest { task: Some(task.to_owned()), frame_indices: Some(vec![0]), ..with(media) };
        refuses(asked.clone(), "invalid_value", "frame_indices", &["fl2va only", "[0]", task]);
        let counts = ReferenceCounts { images: media.len() as u32, ..Default::default() };
        assert_eq!(asked.precheck(counts, &both()).unwrap_err().field, "frame_indices");
    }
}

#[test]
fn keyframes_bring_the_ratio_of_the_first_picture_and_fill_the_canvas() {
    for (media, canvas) in [
        (&[LANDSCAPE][..], "1344x768"),
        (&[PORTRAIT], "768x1024"),
        (&[PORTRAIT, LANDSCAPE], "768x1024"),
        (&[LANDSCAPE, PORTRAIT], "1344x768"),
    ] {
        // A ratio that is named gives way to the picture's.
        for ratio in [None, Some("adaptive"), Some("auto"), Some("1:1")] {
            let spec = resolved(VideoRequest { aspect_ratio: ratio.map(str::to_owned), ..with(media) });
            assert_eq!(spec.canvas.to_string(), canvas);
            let (width, height) = (spec.canvas.width(), spec.canvas.height());
            let filled = InputShape { width, height, frames: 1, audio_latents: 0 };
            assert!(spec.inputs.iter().all(|input| input.shape == filled), "{:?}", spec.inputs);
        }
    }
    let last = VideoRequest { frame_indices: Some(vec![-1]), ..with(&[PORTRAIT]) };
    assert_eq!(resolved(last).canvas.to_string(), "768x1024");
    let odd = VideoRequest { aspect_ratio: Some("wide".to_owned()), ..with(&[PORTRAIT]) };
    refuses(odd, "invalid_aspect_ratio", "aspect_ratio", &["wide"]);
}

#[test]
fn what_needs_no_look_into_the_media_is_checked_before() {
    let counts = ReferenceCounts { images: 1, ..Default::default() };
    let precheck = |asked: VideoRequest| asked.precheck(counts, &both()).map_err(|invalid| invalid.field);
    let asked = with(&[]);
    assert_eq!(precheck(asked.clone()), Ok(Task::Fl2va));
    let refused = |field: &str| Err(field.to_owned());
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(precheck(VideoRequest { aspect_ratio: text("wide"), ..asked.clone() }), refused("aspect_ratio"));
    assert_eq!(precheck(VideoRequest { size: text("9x9"), ..asked.clone() }), refused("size"));
    assert_eq!(precheck(VideoRequest { width: Some(640), ..asked.clone() }), refused("height"));
    assert_eq!(precheck(VideoRequest { quality: text("best"), ..asked.clone() }), refused("quality"));
    assert_eq!(precheck(VideoRequest { task: text("t2va"), ..asked.clone() }), refused("image_reference"));
    assert_eq!(precheck(VideoRequest { seconds: Some(3.0), ..asked }), refused("seconds"));
}

#[test]
fn with_media_sides_need_no_ratio_and_win() {
    for media in [&[PORTRAIT][..], &[CLIP]] {
        let sides = VideoRequest { width: Some(1000), height: Some(600), ..with(media) };
        assert_eq!(resolved(sides).canvas.to_string(), "992x576");
        let size = VideoRequest { size: Some("1280x720".to_owned()), ..with(media) };
        assert_eq!(resolved(size).canvas.to_string(), "1280x704");
        let narrow = VideoRequest { size: Some("1344x320".to_owned()), ..with(media) };
        refuses(narrow, "invalid_size", "size", &["4:1"]);
    }
}

#[test]
fn references_leave_the_canvas_wide_unless_a_ratio_is_named() {
    for (ratio, canvas) in
        [(None, "1344x768"), (Some("adaptive"), "1344x768"), (Some("auto"), "1344x768"), (Some("3:4"), "768x1024")]
    {
        let asked = VideoRequest { aspect_ratio: ratio.map(str::to_owned), ..with(&[PORTRAIT, CLIP]) };
        assert_eq!(resolved(asked).canvas.to_string(), canvas);
    }
}

#[test]
fn references_stand_in_the_order_of_the_recipe() {
    use InputRole::{Audio, Image, Video};
    let media = [SOUND, CLIP, PORTRAIT, SOUND, LANDSCAPE];
    let asked = |recipe| VideoRequest { recipe: Some(recipe), ..with(&media) };
    let release = [(Image, 2), (Image, 4), (Video, 1), (Audio, 0), (Audio, 3)];
    assert_eq!(roles(&resolved(asked(Recipe::Release))), release);
    let diffusers = [(Audio, 0), (Video, 1), (Image, 2), (Audio, 3), (Image, 4)];
    assert_eq!(roles(&resolved(asked(Recipe::Diffusers))), diffusers);
}

#[test]
fn shapes_are_exact_in_sides_and_bounds_in_length() {
    let spec = resolved(with(&[PORTRAIT, CLIP, SOUND]));
    let [image, video, audio] = spec.inputs.as_slice() else { panic!("{:?}", spec.inputs) };
    assert_eq!(image.shape, InputShape { width: 2048, height: 2720, frames: 1, audio_latents: 0 });
    assert_eq!((video.shape.width, video.shape.height), (1344, 768));
    // Four seconds and a second of slack; three, and two and a half, which are exact, and one latent each.
    assert_eq!((video.shape.frames, video.shape.audio_latents), (120, 121));
    assert_eq!(audio.shape, InputShape { width: 0, height: 0, frames: 0, audio_latents: 101 });
    // Nothing is longer than the target: 107 frames last 178.3 latents.
    let long = VideoRequest {
        seconds: Some(4.0),
        ..with(&[MediumFacts::Video { width: 720, height: 720, fps: 24.0, seconds: 15.0, sound_seconds: Some(15.0) }])
    };
    let spec = resolved(long);
    assert_eq!((spec.inputs[0].shape.frames, spec.inputs[0].shape.audio_latents), (107, 180));
    let silent = MediumFacts::Video { width: 720, height: 720, fps: 24.0, seconds: 15.0, sound_seconds: None };
    assert_eq!(resolved(with(&[silent])).inputs[0].shape.audio_latents, 0);
    assert!(resolved(with(&[CLIP])).cost() > resolved(with(&[silent_part()])).cost());
}

/// A small silent video.
fn silent_part() -> MediumFacts {
    MediumFacts::Video { width: 300, height: 300, fps: 24.0, seconds: 2.0, sound_seconds: None }
}

#[test]
fn a_medium_outside_the_limits_is_named_with_its_rule() {
    let clip = |fps, seconds| MediumFacts::Video { width: 640, height: 480, fps, seconds, sound_seconds: None };
    for (facts, words) in [
        (MediumFacts::Image { width: 255, height: 300 }, ["256 and 5760", "255x300"]),
        (MediumFacts::Image { width: 641, height: 256 }, ["0.4 and 2.5", "641x256"]),
        (MediumFacts::Image { width: 0, height: 0 }, ["256 and 5760", "0x0"]),
        (
            MediumFacts::Video { width: 5761, height: 3000, fps: 24.0, seconds: 3.0, sound_seconds: None },
            ["5760", "5761x3000"],
        ),
        (clip(23.9, 3.0), ["23.976 and 60", "23.900"]),
        (clip(f64::NAN, 3.0), ["23.976 and 60", "NaN"]),
        (clip(24.0, 1.9), ["2 and 15 seconds", "1.900"]),
        (clip(24.0, f64::NAN), ["2 and 15 seconds", "NaN"]),
        (MediumFacts::Audio { seconds: 15.2 }, ["2 and 15 seconds", "15.200"]),
    ] {
        let media = [LANDSCAPE, facts];
        let asked = VideoRequest { task: Some("ref2va".to_owned()), ..with(&media) };
        refuses(
            asked,
            "invalid_reference_media",
            "input_references[1]",
            &["input_references[1] must", words[0], words[1]],
        );
    }
    let square = MediumFacts::Image { width: 255, height: 255 };
    refuses(with(&[LANDSCAPE, square]), "invalid_reference_media", "input_references[1]", &["255x255"]);
    for (facts, most) in [(LANDSCAPE, 30u64 << 20), (CLIP, 50 << 20), (SOUND, 15 << 20)] {
        let sized = |size_bytes| {
            let mut asked = VideoRequest { task: Some("ref2va".to_owned()), ..with(&[LANDSCAPE, facts]) };
            asked.media[1].size_bytes = size_bytes;
            asked
        };
        assert_eq!(resolved(sized(most)).inputs.len(), 2);
        refuses(sized(most + 1), "invalid_reference_media", "input_references[1]", &[&most.to_string()]);
        refuses(sized(0), "invalid_reference_media", "input_references[1]", &["empty"]);
    }
}

#[test]
fn durations_are_limited_together_by_kind() {
    let video =
        |seconds, sound_seconds| MediumFacts::Video { width: 640, height: 480, fps: 24.0, seconds, sound_seconds };
    let sound = |seconds| MediumFacts::Audio { seconds };
    let full = [video(7.5, Some(7.5)), video(7.5, Some(7.5)), sound(7.5), sound(7.5)];
    assert_eq!(resolved(with(&full)).inputs.len(), 4);
    let invalid = "invalid_reference_media";
    refuses(with(&[video(8.0, None), video(8.0, None)]), invalid, "video_reference", &["videos may last 15", "16.000"]);
    let sounds = [LANDSCAPE, sound(8.0), sound(8.0)];
    refuses(with(&sounds), invalid, "audio_reference", &["sounds may last 15", "16.000"]);
    for (asked, kind) in
        [(with(&[video(8.0, None), video(8.0, None)]), ReferenceKind::Video), (with(&sounds), ReferenceKind::Audio)]
    {
        assert_eq!(asked.resolve(&both(), RANDOM_SEED).unwrap_err().kind, Some(kind));
    }
    let one = MediumFacts::Audio { seconds: 15.2 };
    assert_eq!(with(&[LANDSCAPE, one]).resolve(&both(), RANDOM_SEED).unwrap_err().kind, None);
    // Encoders pad each soundtrack and each clip; a soundtrack counts no longer than its frames.
    assert_eq!(resolved(with(&[video(5.0, Some(5.04)); 3])).inputs.len(), 3);
    assert_eq!(resolved(with(&[video(5.04, Some(5.04)); 3])).inputs.len(), 3);
    assert_eq!(resolved(with(&[video(3.0, Some(9.0)); 2])).inputs.len(), 2);
    assert_eq!(resolved(with(&[LANDSCAPE, sound(5.04), sound(5.04), sound(5.04)])).inputs.len(), 4);
}

#[test]
fn a_tiny_geometry_takes_tiny_media() {
    let profile = ModelProfile { partitions: Partition::ALL.to_vec(), ..tiny() };
    let keyframe = with(&[MediumFacts::Image { width: 48, height: 40 }]).resolve(&profile, 0).unwrap();
    assert_eq!(keyframe.canvas.to_string(), "32x32");
    let media = [
        MediumFacts::Image { width: 30, height: 20 },
        MediumFacts::Video { width: 30, height: 20, fps: 24.0, seconds: 1.0, sound_seconds: None },
        MediumFacts::Audio { seconds: 0.3 },
    ];
    let spec = with(&media).resolve(&profile, 0).unwrap();
    spec.check().unwrap();
    assert_eq!((spec.inputs[0].shape.width, spec.inputs[0].shape.height), (96, 64));
    assert_eq!(spec.inputs[1].shape.frames, 22);
}
