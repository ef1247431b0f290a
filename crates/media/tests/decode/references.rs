//! From sent files by way of a resolved request to what the model takes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clapboard_h3::prepare::{Picture, PreparedReference, ReferenceLimits, fit_keyframe, fit_reference_picture};
use clapboard_h3::{
    Defaults, FrameCount, GenerationSpec, GeometryProfile, InputRole, Medium, MediumFacts, ModelProfile, Partition,
    Recipe, TaskFrames, VideoRequest,
};
use clapboard_media::MediaTools;
use clapboard_media::decode::image::HeifTool;
use clapboard_media::decode::{Claim, Error, Kind};
use clapboard_media::reference::{self, ReferenceError};

use crate::bench::{Bench, NEVER, NO_CLAIM, assert_near, pixel};
use crate::images::{heic, with_orientation};
use crate::videos::{HALVES, STAIRS, step, turned};

const TONE: &str = "-f lavfi -i aevalsrc=0.5*sin(2*PI*440*t)";
const RED: [u8; 3] = [200, 40, 60];
const BLUE: [u8; 3] = [20, 90, 180];

/// A checkpoint of 32 pixels and half a second, whose clips have `frames` frames.
fn profile(frames: u32) -> ModelProfile {
    let num_frames = TaskFrames::all(FrameCount::new(frames).unwrap());
    ModelProfile {
        geometry: GeometryProfile {
            canvas_short_edge: 32,
            canvas_max_pixels: 2048,
            reference_image_short_edge: 64,
            min_duration_seconds: 0.5,
            ..GeometryProfile::released()
        },
        defaults: Defaults { num_frames, num_inference_steps: 2 },
        ..ModelProfile::released("tiny", Partition::ALL.to_vec())
    }
}

fn tools(bench: &Bench) -> MediaTools {
    MediaTools { ffmpeg: bench.ffmpeg.clone(), heif: HeifTool::default() }
}

/// Inspects a file under the limits of the tiny checkpoint; nothing may be left in the scratch folder.
fn inspect_claimed(bench: &Bench, path: &Path, claim: &Claim<'_>, wanted: Kind) -> Result<MediumFacts, Error> {
    let (limits, scratch) = (ReferenceLimits::of(&profile(22).geometry), bench.path("scratch"));
    let facts = reference::inspect(&tools(bench), &scratch, path, claim, wanted, &limits, &NEVER);
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0);
    facts
}

fn inspect(bench: &Bench, path: &Path, wanted: Kind) -> Result<MediumFacts, Error> {
    inspect_claimed(bench, path, &NO_CLAIM, wanted)
}

/// The run of `frames` frames that files of their own kinds are accepted for; each input's object is its path.
fn accepted(bench: &Bench, files: &[&PathBuf], frames: u32, request: VideoRequest) -> GenerationSpec {
    let media = files.iter().map(|path| {
        let wanted = reference::kind(path, &NO_CLAIM).unwrap().unwrap();
        let facts = inspect(bench, path, wanted).unwrap();
        let size_bytes = std::fs::metadata(path).unwrap().len();
        Medium { field: "input_references".to_owned(), object: path.display().to_string(), size_bytes, facts }
    });
    let request = VideoRequest { prompt: Some("a fox".to_owned()), media: media.collect(), ..request };
    request.resolve(&profile(frames), 1).unwrap()
}

/// Prepares the `index`th input from the file at `path`; also says how often it moved.
fn prepare_from(
    bench: &Bench,
    spec: &GenerationSpec,
    index: usize,
    path: &Path,
    aborted: &AtomicBool,
) -> (Result<PreparedReference, ReferenceError>, usize) {
    let (scratch, mut moves) = (bench.path("scratch"), 0);
    let prepared =
        reference::prepare(&tools(bench), &scratch, path, &spec.inputs[index], spec, &mut || moves += 1, aborted);
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0);
    (prepared, moves)
}

/// Prepares every input of a run from its own file.
fn prepared(bench: &Bench, spec: &GenerationSpec) -> Vec<PreparedReference> {
    let prepare = |(index, input): (usize, &clapboard_h3::Input)| {
        let (prepared, moves) = prepare_from(bench, spec, index, Path::new(&input.object), &NEVER);
        assert!(moves > 0);
        let prepared = prepared.unwrap();
        assert!(input.shape.admits(&prepared.shape()) && prepared.kind() == input.role.kind());
        prepared
    };
    spec.inputs.iter().enumerate().map(prepare).collect()
}

fn references() -> VideoRequest {
    VideoRequest { task: Some("ref2va".to_owned()), ..VideoRequest::default() }
}

/// A PNG of the two halves.
fn halves(bench: &Bench, size: &str, name: &str) -> PathBuf {
    bench.make(&format!("-f lavfi -i {HALVES},scale={size}:flags=neighbor -frames:v 1 -f image2pipe -c:v png"), name)
}

fn picture(bench: &Bench, path: &Path) -> Picture {
    let decoded = bench.image(path).unwrap();
    Picture::new(decoded.width, decoded.height, decoded.rgb).unwrap()
}

#[test]
fn kinds_are_told_by_content_and_mp4_sound_by_brand_or_claim() {
    let bench = Bench::new();
    let kind =
        |path: &Path, content_type, file_name| reference::kind(path, &Claim { content_type, file_name }).unwrap();
    let png = halves(&bench, "64:32", "a.mp4");
    assert_eq!(kind(&png, Some("video/mp4"), Some("a.mp4")), Some(Kind::Image));
    let wav = bench.make(&format!("{TONE}:d=0.3 -f wav"), "b");
    let mp3 = bench.make(&format!("{TONE}:d=0.3 -f mp3"), "c");
    assert_eq!([kind(&wav, None, None), kind(&mp3, None, None)], [Some(Kind::Audio); 2]);
    for container in ["mp4", "mov"] {
        let video = bench.make(&format!("-f lavfi -i {HALVES} -f {container}"), "d");
        assert_eq!(kind(&video, None, Some("d")), Some(Kind::Video));
    }
    let sound = bench.make(&format!("{TONE}:d=0.3 -c:a aac -f mp4"), "e");
    assert_eq!(kind(&sound, None, None), Some(Kind::Video));
    for (content_type, name) in [(Some("audio/mp4"), None), (Some("Audio/X-M4A; x"), None), (None, Some("e.M4A"))] {
        assert_eq!(kind(&sound, content_type, name), Some(Kind::Audio));
    }
    let branded = bench.make(&format!("{TONE}:d=0.3 -c:a aac -f ipod"), "f");
    assert_eq!(kind(&branded, None, None), Some(Kind::Audio));
    for other in ["dear diary", "GIF89a", "%PDF-1.4"] {
        assert_eq!(kind(&bench.write("g", other), Some("image/png"), None), None);
    }
    assert!(matches!(reference::kind(&bench.write("h", ""), &NO_CLAIM), Err(Error::Empty)));
    assert!(reference::kind(&bench.path("gone"), &NO_CLAIM).unwrap_err().is_of_machine());
    assert!(reference::kind(&bench.path("scratch"), &NO_CLAIM).unwrap_err().is_of_machine());
}

#[test]
fn reference_pictures_of_each_format_grow_to_their_size() {
    let bench = Bench::new();
    let jpeg = bench.make("-f lavfi -i testsrc=s=60x40:d=0.1:r=10 -frames:v 1 -f image2pipe -c:v mjpeg", "jpeg");
    let upright = bench.write("upright", with_orientation(&std::fs::read(&jpeg).unwrap(), 6, true));
    let webp = bench.make("-f lavfi -i testsrc=s=60x40:d=0.1:r=10 -frames:v 1 -c:v libwebp -f webp", "webp");
    let files = [&halves(&bench, "60:40", "png"), &jpeg, &upright, &webp, &heic(&bench, "heic.heic")];
    let spec = accepted(&bench, &files, 22, references());
    let sides: Vec<_> = spec.inputs.iter().map(|input| (input.shape.width, input.shape.height)).collect();
    assert_eq!(sides, [(96, 64), (96, 64), (64, 96), (96, 64), (128, 64)]);
    for (path, prepared) in files.iter().zip(prepared(&bench, &spec)) {
        let expected = fit_reference_picture(&picture(&bench, path), &spec.geometry).unwrap();
        assert!(prepared == PreparedReference::Image(expected), "{path:?}");
    }
}

#[test]
fn keyframes_fill_the_canvas_as_their_recipe_has_it() {
    let bench = Bench::new();
    let (first, second) = (halves(&bench, "64:32", "first"), halves(&bench, "40:40", "second"));
    for recipe in Recipe::ALL {
        let request = VideoRequest { recipe: Some(recipe), ..VideoRequest::default() };
        let spec = accepted(&bench, &[&first, &second], 22, request.clone());
        assert_eq!(
            spec.inputs.iter().map(|input| input.role).collect::<Vec<_>>(),
            [InputRole::FirstFrame, InputRole::LastFrame]
        );
        let expected = [&first, &second].into_iter().enumerate().map(|(position, path)| {
            PreparedReference::Image(fit_keyframe(&picture(&bench, path), spec.canvas, position, recipe).unwrap())
        });
        assert!(prepared(&bench, &spec) == expected.collect::<Vec<_>>(), "{recipe}");

        // The last frame alone is the first of the request.
        let request = VideoRequest { frame_indices: Some(vec![-1]), size: Some("64x32".to_owned()), ..request };
        let spec = accepted(&bench, &[&second], 22, request);
        assert_eq!(spec.inputs[0].role, InputRole::LastFrame);
        let stretched = fit_keyframe(&picture(&bench, &second), spec.canvas, 0, recipe).unwrap();
        assert!(prepared(&bench, &spec) == [PreparedReference::Image(stretched)], "{recipe}");
    }
}

/// The grey levels of a clip's frames.
fn levels(prepared: &PreparedReference) -> Vec<[u8; 3]> {
    let PreparedReference::Video { clip, .. } = prepared else { panic!("{:?}", prepared.shape()) };
    (0..clip.frames()).map(|index| pixel(clip.frame(index).unwrap(), clip.width(), 16, 16)).collect()
}

#[test]
fn clips_of_every_rate_have_24_frames_a_second_and_their_sound() {
    let bench = Bench::new();
    for (rate, codec, container) in [
        ("24000/1001", "libx264", "mp4"),
        ("25/1", "libx265", "mov"),
        ("30000/1001", "libx264", "mov"),
        ("60/1", "libx265", "mp4"),
    ] {
        let fps =
            rate.split_once('/').map(|(over, under)| over.parse::<f64>().unwrap() / under.parse::<f64>().unwrap());
        let fps = fps.unwrap();
        let source = STAIRS.replace("RATE", rate);
        let tag = if codec == "libx265" { "-tag:v hvc1 -x265-params log-level=none" } else { "-preset fast" };
        let arguments =
            format!("-f lavfi -i {source} {TONE}:s=44100:d=1 -c:v {codec} -crf 8 {tag} -c:a aac -f {container}");
        let path = bench.make(&arguments, "clip");
        let MediumFacts::Video { width: 64, height: 48, fps: found, seconds, sound_seconds: Some(sounds) } =
            inspect(&bench, &path, Kind::Video).unwrap()
        else {
            panic!("{rate}");
        };
        assert!((found - fps).abs() < 1e-9 && (seconds - 1.0).abs() < 0.05 && (sounds - 1.0).abs() < 0.1);

        for (frames, kept) in [(22, 22), (39, (seconds * 24.0).round() as usize)] {
            let spec = accepted(&bench, &[&path], frames, references());
            let prepared = &prepared(&bench, &spec)[0];
            let levels = levels(prepared);
            assert_eq!(levels.len(), kept, "{rate}");
            for (slot, level) in levels.into_iter().enumerate() {
                // The last source frame that is due in this slot or before it.
                let due = |n: usize| (n as f64 * 24.0 / fps + 0.5).floor() as usize;
                let shown = (0..).take_while(|n| due(*n) <= slot).last().unwrap();
                assert_near(level, step(shown.min((seconds * fps).round() as usize - 1)), 3);
            }
            let PreparedReference::Video { soundtrack: Some(sound), .. } = prepared else { panic!("{rate}") };
            let longest = f64::from(frames) / 24.0 * 32_000.0;
            let expected = (sounds * 32_000.0).min(longest);
            assert!((sound.samples() as f64 - expected).abs() < 1100.0, "{rate}: {}", sound.samples());
            assert!(sound.samples() as f64 <= longest + 1.0);
            assert!(sound.left().iter().any(|sample| *sample > 0.4) && sound.left() == sound.right());
        }
    }
}

#[test]
fn a_video_is_read_no_further_than_the_run_lasts() {
    let bench = Bench::new();
    let path = bench.make("-f lavfi -i testsrc=s=64x48:r=30:d=14 -pix_fmt yuv420p -preset ultrafast -f mp4", "long");
    let spec = accepted(&bench, &[&path], 22, references());
    assert_eq!(spec.inputs[0].shape.frames, 22);
    let (prepared, moves) = prepare_from(&bench, &spec, 0, &path, &NEVER);
    assert_eq!(prepared.unwrap().shape().frames, 22);
    // Each frame that is shown is a move: no more of them than it takes.
    assert!(moves <= 22, "{moves}");
}

#[test]
fn a_portrait_stays_upright() {
    let bench = Bench::new();
    let source = HALVES.replace(":r=10:d=0.5", ":r=24:d=1");
    let lying = bench.make(&format!("-f lavfi -i {source} -pix_fmt yuv420p -crf 8 -f mov"), "lying");
    let path = turned(&lying, 90);
    assert!(matches!(inspect(&bench, &path, Kind::Video), Ok(MediumFacts::Video { width: 32, height: 64, .. })));
    let spec = accepted(&bench, &[&path], 22, references());
    let PreparedReference::Video { clip, soundtrack: None } = &prepared(&bench, &spec)[0] else { panic!("{spec:?}") };
    assert_eq!((clip.width(), clip.height()), (32, 64));
    assert_near(pixel(clip.frame(9).unwrap(), 32, 16, 8), RED, 8);
    assert_near(pixel(clip.frame(9).unwrap(), 32, 16, 56), BLUE, 8);
}

#[test]
fn a_variable_rate_is_followed_by_its_times() {
    let bench = Bench::new();
    // Twenty frames at 60 a second, then ten at 20 a second: 30 in 5/6 of a second.
    let source = "nullsrc=s=64x48:r=30:d=1,trim=end_frame=30,geq=lum=16+3*N:cb=128:cr=128,format=yuv420p,settb=1/600,\
                  setpts=if(lt(N\\,20)\\,10*N\\,200+30*(N-20))";
    let path = bench
        .make(&format!("-f lavfi -i {source} -fps_mode vfr -enc_time_base 1/600 -c:v libx264 -crf 8 -f mp4"), "vfr");
    let facts = inspect(&bench, &path, Kind::Video).unwrap();
    assert!(matches!(facts, MediumFacts::Video { fps, .. } if (30.0..45.0).contains(&fps)), "{facts:?}");
    let spec = accepted(&bench, &[&path], 22, references());
    let levels = levels(&prepared(&bench, &spec)[0]);
    // 4/24 s is frame 10 of the first part; 12/24 s is a sixth of a second into the second, three frames.
    for (slot, frame) in [(0, 0), (4, 10), (12, 23)] {
        assert_near(levels[slot], step(frame), 3);
    }
    assert!((19..=21).contains(&levels.len()), "{}", levels.len());
}

#[test]
fn fragments_count_as_a_video_too() {
    let bench = Bench::new();
    let arguments = "-f lavfi -i testsrc=s=64x48:r=25:d=1 -pix_fmt yuv420p -movflags frag_keyframe+empty_moov -f mp4";
    let path = bench.make(arguments, "fragments");
    let spec = accepted(&bench, &[&path], 22, references());
    assert_eq!(prepared(&bench, &spec)[0].shape().frames, 22);
}

#[test]
fn sounds_of_any_number_of_channels_become_stereo() {
    let bench = Bench::new();
    let picture = halves(&bench, "64:32", "picture");
    let mono = bench.make("-f lavfi -i aevalsrc=0.5:s=22050:d=0.5 -c:a pcm_s16le -f wav", "mono");
    let stereo = bench.make("-f lavfi -i aevalsrc=0.5|-0.25:s=48000:d=2 -c:a pcm_s24le -f wav", "stereo");
    let surround =
        bench.make("-f lavfi -i aevalsrc=0.5|0|0.25|0.9|0|0.5:c=5.1:s=44100:d=0.5 -c:a pcm_s16le -f wav", "surround");
    let spec = accepted(&bench, &[&picture, &mono, &stereo, &surround], 22, references());
    let prepared = prepared(&bench, &spec);
    let sound = |index: usize| match &prepared[index] {
        PreparedReference::Audio(sound) => sound,
        other => panic!("{:?}", other.shape()),
    };
    assert_eq!([1, 2, 3].map(|index| sound(index).samples()), [16_000, 29_334, 16_000]);
    assert!(sound(1).left() == sound(1).right());
    let near = |found: f32, expected: f32| assert!((found - expected).abs() < 0.01, "{found} is not {expected}");
    near(sound(2).left()[9000], 0.5);
    near(sound(2).right()[9000], -0.25);
    // L = (FL + 0.707 FC + 0.707 BL) / 2.414, and so on the right.
    near(sound(3).left()[9000], (0.5 + 0.707 * 0.25) / 2.414);
    near(sound(3).right()[9000], (0.707 * 0.25 + 0.707 * 0.5) / 2.414);

    let source = STAIRS.replace("RATE", "24");
    for (layout, channels) in [("mono", "-ac 1"), ("5.1", "-b:a 384k -ac 6")] {
        let path = bench.make(&format!("-f lavfi -i {source} {TONE}:d=1 {channels} -c:a aac -f mp4"), "clip");
        let spec = accepted(&bench, &[&path], 22, references());
        let shape = self::prepared(&bench, &spec)[0].shape();
        assert_eq!((shape.frames, shape.audio_latents), (22, 37), "{layout}");
    }
}

#[test]
fn mp3_and_aac_have_exact_durations() {
    let bench = Bench::new();
    for (arguments, name) in [("-c:a libmp3lame -b:a 64k -f mp3", "a.mp3"), ("-c:a aac -f ipod", "a.m4a")] {
        let path = bench.make(&format!("{TONE}:s=44100:d=1 {arguments}"), name);
        let facts = inspect(&bench, &path, Kind::Audio).unwrap();
        assert!(matches!(facts, MediumFacts::Audio { seconds } if (0.999..1.06).contains(&seconds)), "{facts:?}");
        let spec = accepted(&bench, &[&halves(&bench, "64:32", "picture"), &path], 39, references());
        let shape = prepared(&bench, &spec)[1].shape();
        assert!((40..=43).contains(&shape.audio_latents), "{shape}");
    }
}

#[test]
fn a_late_soundtrack_is_within_what_was_announced() {
    let bench = Bench::new();
    let source = STAIRS.replace("RATE", "24");
    let arguments = format!("-f lavfi -i {source} -itsoffset 0.4 {TONE}:d=0.3 -c:v libx264 -bf 0 -c:a aac -f mp4");
    let path = bench.make(&arguments, "late");
    let facts = inspect(&bench, &path, Kind::Video).unwrap();
    assert!(
        matches!(facts, MediumFacts::Video { sound_seconds: Some(end), .. } if (0.65..0.8).contains(&end)),
        "{facts:?}"
    );
    let spec = accepted(&bench, &[&path], 39, references());
    let PreparedReference::Video { soundtrack: Some(sound), .. } = &prepared(&bench, &spec)[0] else { panic!() };
    assert!(sound.left()[..12_000].iter().all(|sample| sample.abs() < 0.01));
}

/// Whatever is wrong with a file, its sender is told without a path, and the machine is not to blame.
#[track_caller]
fn of_the_file(error: &Error, path: &Path) {
    assert!(!error.is_of_machine() && !error.to_string().contains(path.to_str().unwrap()), "{error:?}");
}

#[test]
fn broken_files_are_refused_when_they_are_inspected() {
    let bench = Bench::new();
    let png = std::fs::read(halves(&bench, "640:320", "png")).unwrap();
    let jpeg = bench.make("-f lavfi -i testsrc=s=640x480:d=0.1:r=10 -frames:v 1 -f image2pipe -c:v mjpeg", "jpeg");
    let wav = bench.make(&format!("{TONE}:d=1 -f wav"), "wav");
    let video = bench.make(&format!("-f lavfi -i {} -f mp4", STAIRS.replace("RATE", "24")), "mp4");
    let heic = heic(&bench, "a.heic");
    let read = |path: &Path| std::fs::read(path).unwrap();
    let whole = [
        (png, Kind::Image),
        (read(&jpeg), Kind::Image),
        (read(&heic), Kind::Image),
        (read(&wav), Kind::Audio),
        (read(&video), Kind::Video),
    ];
    for (bytes, kind) in whole {
        let path = bench.write("whole", &bytes);
        inspect(&bench, &path, kind).unwrap();
        for length in [bytes.len() - 20, bytes.len() / 2, 20] {
            let path = bench.write("cut", &bytes[..length]);
            of_the_file(&inspect(&bench, &path, kind).unwrap_err(), &path);
        }
    }
    for kind in [Kind::Image, Kind::Video, Kind::Audio] {
        let path = bench.write("empty", "");
        assert!(matches!(inspect(&bench, &path, kind), Err(Error::Empty)));
        let path = bench.write("text", "dear diary");
        assert!(matches!(inspect(&bench, &path, kind), Err(Error::Unrecognised { .. })));
    }
    // A stream whose frames are nothing: the headers are those of a video.
    let mut hollow = read(&video);
    let data = hollow.windows(4).position(|word| word == b"mdat").unwrap() + 4;
    let end = data + u32::from_be_bytes(hollow[data - 8..data - 4].try_into().unwrap()) as usize - 8;
    hollow[data..end].fill(0);
    let path = bench.write("hollow", hollow);
    of_the_file(&inspect(&bench, &path, Kind::Video).unwrap_err(), &path);
    // Sound that is none behind pictures that are sound: samples of a codec that holds them as they are.
    let source = STAIRS.replace("RATE", "24");
    let path = bench.make(&format!("-f lavfi -i {source} {TONE}:d=1 -c:a pcm_s16be -f mov"), "pcm");
    let error = inspect(&bench, &path, Kind::Video).unwrap_err();
    assert!(matches!(error, Error::Codec { what: Kind::Audio, .. }), "{error}");
}

#[test]
fn a_soundtrack_is_heard_before_it_is_accepted() {
    let bench = Bench::new();
    let source = STAIRS.replace("RATE", "24");
    // One that ends before the first picture is none.
    let path = bench.make(
        &format!("-itsoffset 1 -f lavfi -i {source} {TONE}:d=0.5 -fps_mode passthrough -bf 0 -c:a aac -f mp4"),
        "early",
    );
    assert!(matches!(inspect(&bench, &path, Kind::Video), Ok(MediumFacts::Video { sound_seconds: None, .. })));
    let spec = accepted(&bench, &[&path], 22, references());
    assert_eq!(prepared(&bench, &spec)[0].shape().audio_latents, 0);
    // Far longer than the pictures.
    let path = bench.make(&format!("-f lavfi -i {source} {TONE}:s=8000:d=16 -c:a aac -f mp4"), "long");
    let error = inspect(&bench, &path, Kind::Video).unwrap_err();
    assert!(matches!(error, Error::LongerThan { what: Kind::Audio, .. }), "{error}");
    // Its packets are noise.
    let mut noisy =
        std::fs::read(bench.make(&format!("-f lavfi -i {source} {TONE}:d=1 -c:a aac -f mp4"), "whole")).unwrap();
    for byte in aac_packets(&noisy) {
        noisy[byte] = 0xFF;
    }
    let path = bench.write("noisy", noisy);
    of_the_file(&inspect(&bench, &path, Kind::Video).unwrap_err(), &path);
}

/// Where the bytes of the sound are in an MP4 of two tracks: in the chunks that the second `stco` lists, up to where
/// those of the first go on.
fn aac_packets(mp4: &[u8]) -> Vec<usize> {
    let word = |at: usize| u32::from_be_bytes(mp4[at..at + 4].try_into().unwrap()) as usize;
    let boxes = mp4.windows(4).enumerate().filter(|(_, kind)| kind == b"stco").map(|(at, _)| at);
    let chunks: Vec<Vec<usize>> =
        boxes.map(|at| (0..word(at + 8)).map(|index| word(at + 12 + 4 * index)).collect()).collect();
    let [pictures, sounds] = chunks.as_slice() else { panic!("{} tracks", chunks.len()) };
    let end = mp4.windows(4).position(|kind| kind == b"moov").unwrap() - 4;
    let next = |from: usize| pictures.iter().copied().filter(|at| *at > from).min().unwrap_or(end);
    sounds.iter().flat_map(|from| *from..next(*from)).collect()
}

#[test]
fn claims_are_held_against_the_content() {
    let bench = Bench::new();
    let png = halves(&bench, "64:32", "picture");
    let claim = |content_type, file_name| {
        inspect_claimed(&bench, &png, &Claim { content_type, file_name }, Kind::Image)
            .map_err(|error| error.to_string())
    };
    assert!(claim(Some("image/png"), Some("a.png")).is_ok());
    assert_eq!(claim(None, Some("a.jpg")).unwrap_err(), "the file name says \".jpg\", and the content is PNG");
    assert!(claim(Some("video/mp4"), None).unwrap_err().starts_with("the content type says \"video/mp4\""));
    let error = inspect(&bench, &png, Kind::Video).unwrap_err();
    assert_eq!(error.to_string(), "the file is PNG, and the video must be one of MP4 and MOV");
}

#[test]
fn what_is_too_long_is_not_decoded() {
    let bench = Bench::new();
    let wav = bench.make(&format!("{TONE}:s=8000:d=15.2 -f wav"), "wav");
    assert!(matches!(inspect(&bench, &wav, Kind::Audio), Err(Error::LongerThan { .. })));
    let video = bench.make("-f lavfi -i color=s=32x32:r=24:d=15.2 -preset ultrafast -f mp4", "mp4");
    assert!(matches!(inspect(&bench, &video, Kind::Video), Err(Error::LongerThan { .. })));
    let just = bench.make(&format!("{TONE}:s=8000:d=15.05 -f wav"), "just");
    assert!(matches!(inspect(&bench, &just, Kind::Audio), Ok(MediumFacts::Audio { seconds }) if seconds == 15.05));
}

#[test]
fn another_file_than_was_accepted_is_told_apart() {
    let bench = Bench::new();
    let (wide, square) = (halves(&bench, "64:32", "wide"), halves(&bench, "40:40", "square"));
    let spec = accepted(&bench, &[&wide], 22, references());
    let error = prepare_from(&bench, &spec, 0, &square, &NEVER).0.unwrap_err();
    assert!(matches!(error, ReferenceError::Shape { .. }) && !error.is_of_machine(), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("64x64 pixels") && message.contains("128x64 pixels"), "{message}");
    let error = prepare_from(&bench, &spec, 0, &bench.write("text", "dear diary"), &NEVER).0.unwrap_err();
    assert!(matches!(error, ReferenceError::Decode(Error::Unrecognised { .. })) && !error.is_of_machine(), "{error:?}");
    let error = prepare_from(&bench, &spec, 0, &bench.path("gone"), &NEVER).0.unwrap_err();
    assert!(error.is_of_machine() && !error.is_aborted() && !error.to_string().contains("gone"), "{error}");
}

#[test]
fn nobody_waits_for_what_is_given_up() {
    let bench = Bench::new();
    let arguments = format!("-f lavfi -i {} {TONE}:d=1 -c:a aac -f mp4", STAIRS.replace("RATE", "24"));
    let files = [&halves(&bench, "64:32", "picture"), &heic(&bench, "a.heic"), &bench.make(&arguments, "clip")];
    let wav = bench.make(&format!("{TONE}:d=1 -f wav"), "wav");
    let spec = accepted(&bench, &[files[0], files[1], files[2], &wav], 22, references());
    let limits = ReferenceLimits::of(&spec.geometry);
    for (index, input) in spec.inputs.iter().enumerate() {
        let path = Path::new(&input.object);
        let aborted = AtomicBool::new(true);
        let error = prepare_from(&bench, &spec, index, path, &aborted).0.unwrap_err();
        assert!(error.is_aborted() && !error.is_of_machine(), "{error:?}");
        let wanted = reference::kind(path, &NO_CLAIM).unwrap().unwrap();
        let inspected =
            reference::inspect(&tools(&bench), &bench.path("scratch"), path, &NO_CLAIM, wanted, &limits, &aborted);
        assert!(matches!(inspected, Err(Error::Aborted)), "{inspected:?}");
    }
    // Given up in the middle of a video.
    let (aborted, scratch) = (AtomicBool::new(false), bench.path("scratch"));
    let mut moves = 0;
    let mut moved = || {
        moves += 1;
        aborted.store(moves == 5, Ordering::Relaxed);
    };
    let input = &spec.inputs[2];
    let path = Path::new(OsStr::new(&input.object));
    let error = reference::prepare(&tools(&bench), &scratch, path, input, &spec, &mut moved, &aborted).unwrap_err();
    assert!(error.is_aborted(), "{error:?}");
    assert_eq!(moves, 5);
}
