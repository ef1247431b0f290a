//! Videos from keyframes and references: every task, real media, and what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use crate::support::{Body, Media, Service, assert_video, clapboard, files_below, tiny_checkpoint, until};

/// Serves every task, one partition's weights at a time.
const ALL_TASKS: &[&str] = &["--partition", "fl2va,ref2va"];

/// What every form of these stories says besides.
const SHORT: [(&str, &str); 4] =
    [("prompt", "A paper boat on a pond"), ("num_frames", "22"), ("num_inference_steps", "3"), ("seed", "7")];

/// Posts a form, waits for its video and returns its id.
fn completed(service: &Service, parts: &[(&str, &str)]) -> String {
    let parts: Vec<(&str, &str)> = SHORT.iter().chain(parts).copied().collect();
    let reply = service.post(Body::Form(&parts));
    assert_eq!(reply.status, 200, "{parts:?}: {}", reply.json());
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    service.completed(&id);
    id
}

/// Posts a form that is refused, and returns code, param and message.
fn refused(service: &Service, parts: &[(&str, &str)]) -> (String, String, String) {
    let parts: Vec<(&str, &str)> = SHORT.iter().chain(parts).copied().collect();
    let reply = service.post(Body::Form(&parts));
    let (status, code, param) = reply.error();
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(status, 400, "{parts:?}: {message}");
    (code, param.unwrap_or_default(), message)
}

/// Runs `clapboard generate` on the service's checkpoint with the short form's options, and returns the file.
fn generated(service: &Service, options: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("video.mp4");
    let mut command = clapboard();
    command.arg("generate").arg("--checkpoint").arg(service.checkpoint()).arg("-o").arg(&output);
    command.args(["--prompt", "A paper boat on a pond", "--num-frames", "22", "--steps", "3", "--seed", "7"]);
    let run = command.args(options).output().unwrap();
    assert!(run.status.success(), "{options:?}: {}", String::from_utf8_lossy(&run.stderr));
    fs::read(&output).unwrap()
}

/// A task, the form that asks for it, and the options of `generate` that ask for the same.
type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, Vec<&'a str>);

#[test]
fn every_task_in_every_form_becomes_the_video_that_generate_makes() {
    let service = Service::start_with(ALL_TASKS);
    let media = Media::new();
    for number in 1..=9 {
        media.picture(&format!("{number}.jpg"), &format!("{}x96", 80 + 16 * number));
    }
    media.silent_video("silent.mp4", "96x128", "25");
    media.video_with_sound("sound.mp4", "128x96");
    media.sound("tone.wav", "");
    let part = |name: &str| media.part(name);
    let path = |name: &str| media.path(name).display().to_string();

    let (one, two) = (part("1.jpg"), part("2.jpg"));
    let (one_path, two_path) = (path("1.jpg"), path("2.jpg"));
    let nine: Vec<String> = (1..=9).map(|number| part(&format!("{number}.jpg"))).collect();
    let nine_parts: Vec<(&str, &str)> = nine.iter().map(|file| ("input_references", file.as_str())).collect();
    let nine_paths: Vec<String> = (1..=9).map(|number| path(&format!("{number}.jpg"))).collect();
    let nine_options: Vec<&str> = nine_paths.iter().flat_map(|file| ["--image", file.as_str()]).collect();
    let (sound, silent, tone) = (part("sound.mp4"), part("silent.mp4"), part("tone.wav"));
    let (sound_path, silent_path, tone_path) = (path("sound.mp4"), path("silent.mp4"), path("tone.wav"));
    let ref2va = ("extra_params", r#"{"task":"ref2va"}"#);

    // Alternating, so that the weights change between jobs.
    let cases: Vec<Case<'_>> = vec![
        ("t2va", vec![("size", "64x32")], vec!["--size", "64x32"]),
        (
            "ref2va",
            vec![("size", "64x32"), ("input_references", &one), ref2va],
            vec!["--size", "64x32", "--image", &one_path],
        ),
        ("fl2va", vec![("input_reference", &one)], vec!["--first-frame", &one_path]),
        (
            "ref2va",
            vec![("size", "64x32"), ("input_references", &one), ("input_references", &tone)],
            vec!["--size", "64x32", "--image", &one_path, "--audio", &tone_path],
        ),
        (
            "fl2va",
            vec![("size", "64x32"), ("input_reference", &two), ("extra_params", r#"{"frame_indices":[-1]}"#)],
            vec!["--size", "64x32", "--last-frame", &two_path],
        ),
        (
            "ref2va",
            vec![("size", "32x64"), ("input_references", &silent), ("input_references", &sound)],
            vec!["--size", "32x64", "--video", &silent_path, "--video", &sound_path],
        ),
        (
            "fl2va",
            vec![("input_references", &one), ("input_references", &two)],
            vec!["--first-frame", &one_path, "--last-frame", &two_path],
        ),
        (
            "ref2va",
            vec![("size", "64x32"), ("input_reference", &sound)],
            vec!["--size", "64x32", "--video", &sound_path],
        ),
        (
            "ref2va",
            [vec![("size", "64x32"), ref2va], nine_parts].concat(),
            [vec!["--size", "64x32"], nine_options].concat(),
        ),
    ];
    let mut files = Vec::new();
    for (task, parts, options) in &cases {
        let id = completed(&service, parts);
        assert_eq!(service.video(&id)["task"], *task);
        let file = service.download(&id);
        assert!(file == generated(&service, options), "{parts:?} and {options:?} made different videos");
        assert!(!files.contains(&file), "{parts:?} changed nothing");
        files.push(file);
    }
    let saved = media.path("video.mp4");
    fs::write(&saved, &files[5]).unwrap();
    assert_video(&saved, (32, 64), 22);

    // An ended job needs its inputs no more.
    until("the inputs to be deleted", || {
        let inputs = files_below(&service.data()).into_iter();
        let left: Vec<_> = inputs.filter(|file| file.display().to_string().contains("input-")).collect();
        left.is_empty().then_some(())
    });
}

#[test]
fn the_recipes_line_for_references_works_through_the_synchronous_route() {
    let service = Service::start_with(ALL_TASKS);
    let media = Media::new();
    media.picture("reference.jpg", "160x96");
    media.sound("tone.wav", "");
    let url = media.data_url("tone.wav", "audio/wav");
    let audio = media.path("audio_reference.json");
    fs::write(&audio, json!({ "audio_url": url }).to_string()).unwrap();
    let form = [
        ("prompt", "傍晚的小厨房，夕阳余晖从窗边洒进来"),
        ("input_reference", &*format!("{};type=image/jpeg", media.part("reference.jpg"))),
        ("audio_reference", &*format!("<{}", audio.display())),
        ("width", "96"),
        ("height", "64"),
        ("fps", "24"),
        ("num_inference_steps", "3"),
        ("flow_shift", "12"),
        ("seed", "1101"),
        ("extra_params", r#"{"task":"ref2va","duration":0.9,"audio_flow_shift":3.0}"#),
    ];
    let reply = service.request("POST", "/v1/videos/sync", &[], Body::Form(&form));
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    assert_eq!(reply.header("content-type"), Some("video/mp4"));
    for header in ["x-inference-time-s", "x-peak-memory-mb"] {
        assert!(reply.header(header).is_some_and(|value| value.parse::<f64>().is_ok()), "{header}");
    }
    let file = media.path("out.mp4");
    fs::write(&file, &reply.body).unwrap();
    assert_video(&file, (96, 64), 22);

    fs::write(&audio, r#"{"audio_url": "/a/bare/path.wav"}"#).unwrap();
    let refused = service.request("POST", "/v1/videos/sync", &[], Body::Form(&form));
    let (status, code, param) = refused.error();
    assert_eq!(
        (status, code.as_str(), param.as_deref()),
        (400, "invalid_reference_url", Some("audio_reference.audio_url"))
    );
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("Invalid audio_reference.audio_url"), "{message}");
}

#[test]
fn media_of_every_accepted_kind_go_through_the_whole_service() {
    let service = Service::start_with(&["--partition", "ref2va"]);
    let media = Media::new();
    // Pictures.
    media.picture("plain.jpg", "97x61");
    media.make("alpha.png", "-f lavfi -i testsrc2=size=64x96:rate=1,format=rgba -frames:v 1");
    media.make("deep.png", "-f lavfi -i testsrc2=size=64x64:rate=1 -frames:v 1 -pix_fmt rgb48be");
    media.make("palette.png", "-f lavfi -i testsrc2=size=64x64:rate=1 -frames:v 1 -pix_fmt pal8");
    media.make("lossy.webp", "-f lavfi -i testsrc2=size=80x64:rate=1 -frames:v 1");
    media.tool("heif-enc", &[&media.path("plain.jpg"), "-o".as_ref(), &media.path("photo.heic")]);
    let pictures =
        ["plain.jpg", "alpha.png", "deep.png", "palette.png", "lossy.webp", "photo.heic"].map(|it| media.part(it));
    let parts: Vec<(&str, &str)> = pictures.iter().map(|file| ("input_references", file.as_str())).collect();
    completed(&service, &parts);

    // Videos: codecs, containers, rates, odd sides, a rate that varies, a turned picture; sounds: one and six channels.
    media.silent_video("cinema.mov", "96x64", "24000/1001");
    media.make("hevc.mp4", "-f lavfi -i testsrc2=size=64x96:rate=60:duration=1 -pix_fmt yuv420p -c:v libx265 -x265-params log-level=none -tag:v hvc1");
    media.make("odd.mp4", "-f lavfi -i testsrc2=size=75x51:rate=25:duration=1 -c:v libx264 -pix_fmt yuv444p");
    media.make("varying.mp4", "-f lavfi -i testsrc2=size=64x64:rate=50:duration=1 -vf select=not(mod(n\\,3))+lt(n\\,20) -fps_mode vfr -pix_fmt yuv420p -c:v libx264");
    media.make("broadcast.mov", "-f lavfi -i testsrc2=size=96x64:rate=30000/1001:duration=1 -f lavfi -i sine=duration=1 -ac 1 -pix_fmt yuv420p -c:v libx264 -c:a aac");
    media.make("around.mp4", "-f lavfi -i testsrc2=size=96x64:rate=24:duration=1 -f lavfi -i sine=duration=1 -af pan=5.1|c0=c0|c1=c0|c2=c0|c3=c0|c4=c0|c5=c0 -pix_fmt yuv420p -c:v libx264 -c:a aac");
    media.turned("turned.mp4", "around.mp4");
    for videos in [["cinema.mov", "hevc.mp4", "odd.mp4"], ["varying.mp4", "broadcast.mov", "turned.mp4"]] {
        let videos = videos.map(|name| media.part(name));
        let parts: Vec<(&str, &str)> = videos.iter().map(|file| ("input_references", file.as_str())).collect();
        completed(&service, &parts);
    }

    // Sounds.
    for (name, more) in [
        ("8.wav", "-c:a pcm_u8"),
        ("16.wav", "-c:a pcm_s16le -ac 2"),
        ("24.wav", "-c:a pcm_s24le"),
        ("32.wav", "-c:a pcm_s32le"),
        ("tagged.mp3", "-c:a libmp3lame -id3v2_version 3 -metadata title=tone"),
    ] {
        media.sound(name, more);
    }
    let picture = media.part("plain.jpg");
    for sounds in [["8.wav", "16.wav", "24.wav"].as_slice(), &["32.wav", "tagged.mp3"]] {
        let sounds: Vec<String> = sounds.iter().map(|name| media.part(name)).collect();
        let mut parts = vec![("input_references", picture.as_str())];
        parts.extend(sounds.iter().map(|file| ("input_references", file.as_str())));
        completed(&service, &parts);
    }
}

#[test]
fn media_that_cannot_be_used_are_refused_by_their_field_and_leave_nothing() {
    let service = Service::start_with(ALL_TASKS);
    let media = Media::new();
    media.picture("good.jpg", "96x96");
    media.picture("wide.png", "300x96");
    media.video_with_sound("good.mp4", "96x96");
    media.sound("good.wav", "");
    media.cut("cut.jpg", "good.jpg", 900);
    media.cut("cut.mp4", "good.mp4", 3000);
    media.cut("cut.wav", "good.wav", 3000);
    fs::write(media.path("empty.png"), "").unwrap();
    fs::write(media.path("text.png"), "not a picture").unwrap();
    fs::copy(media.path("good.jpg"), media.path("lies.png")).unwrap();
    media.make("old.avi", "-f lavfi -i testsrc2=size=96x96:rate=25:duration=1 -c:v mpeg4");
    media.silent_video("slow.mp4", "96x96", "10");
    media.make("long.wav", "-f lavfi -i sine=duration=16");
    // A header that promises more pixels than a machine has memory for.
    let mut bomb = fs::read(media.path("wide.png")).unwrap();
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    fs::write(media.path("bomb.png"), bomb).unwrap();

    let good = media.part("good.jpg");
    for name in
        ["cut.jpg", "empty.png", "text.png", "lies.png", "bomb.png", "wide.png", "cut.mp4", "old.avi", "slow.mp4"]
    {
        let file = media.part(name);
        let (code, param, message) = refused(&service, &[("size", "64x32"), ("input_reference", &file)]);
        assert_eq!(
            (code.as_str(), param.as_str()),
            ("invalid_reference_media", "input_reference"),
            "{name}: {message}"
        );
        assert!(message.starts_with("input_reference"), "{name}: {message}");
        assert!(!message.contains(service.data().to_str().unwrap()), "{name}: {message}");
    }
    for name in ["cut.wav", "long.wav"] {
        let file = media.part(name);
        let form = [("size", "64x32"), ("input_references", good.as_str()), ("input_references", &file)];
        let (code, param, message) = refused(&service, &form);
        assert_eq!(
            (code.as_str(), param.as_str()),
            ("invalid_reference_media", "input_references[1]"),
            "{name}: {message}"
        );
    }
    let tone = media.part("good.wav");
    let (code, _, _) = refused(&service, &[("size", "64x32"), ("input_references", &tone)]);
    assert_eq!(code, "reference_required");
    let ten: Vec<(&str, &str)> = std::iter::repeat_n(("input_references", good.as_str()), 10).collect();
    let (code, _, _) = refused(&service, &[vec![("extra_params", r#"{"task":"ref2va"}"#)], ten].concat());
    assert_eq!(code, "too_many_references");

    let spooled = |file: &std::path::PathBuf| {
        let file = file.display().to_string();
        (file.starts_with("spool") && !file.ends_with("lock")) || file.contains("input-")
    };
    let left: Vec<_> = files_below(&service.data()).into_iter().filter(spooled).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn generate_names_the_flag_of_a_file_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("checkpoint");
    tiny_checkpoint(&checkpoint);
    let media = Media::new();
    let picture = media.picture("good.jpg", "96x96").display().to_string();
    let text = media.path("notes.txt");
    fs::write(&text, "no picture").unwrap();
    let text = text.display().to_string();
    let refused = |options: &[&str]| {
        let mut command = clapboard();
        command.arg("generate").arg("--checkpoint").arg(&checkpoint).arg("-o").arg(folder.path().join("x.mp4"));
        let run = command.args(["--prompt", "x"]).args(options).output().unwrap();
        assert!(!run.status.success(), "{options:?}");
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    let told = refused(&["--first-frame", &text]);
    assert!(told.starts_with(&format!("clapboard: --first-frame {text}: the file is no image")), "{told}");
    let told = refused(&["--image", "/nowhere/a.png"]);
    assert!(told.starts_with("clapboard: --image /nowhere/a.png: "), "{told}");
    let told = refused(&["--first-frame", &picture, "--image", &picture]);
    assert!(told.contains("cannot be used with"), "{told}");
    let told = refused(&["--first-frame", &picture, "--task", "t2va", "--size", "64x32"]);
    assert_eq!(told, "clapboard: --task t2va goes with no inputs\n");
    assert!(!folder.path().join("x.mp4").exists());
}

#[test]
fn an_interrupt_while_files_are_looked_at_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [checkpoint, out, temporary] = ["checkpoint", "out", "temporary"].map(|name| folder.path().join(name));
    tiny_checkpoint(&checkpoint);
    fs::create_dir(&out).unwrap();
    fs::create_dir(&temporary).unwrap();
    let media = Media::new();
    let video = media.silent_video("video.mp4", "96x96", "25");
    // Tells its version, and of a file nothing, ever.
    let (probe, asked) = (folder.path().join("ffprobe"), folder.path().join("asked"));
    let script = format!(
        "#!/bin/sh\n[ \"$2\" != -version ] || exec ffprobe -version\necho $$ >{}\nexec sleep 1000\n",
        asked.display()
    );
    fs::write(&probe, script).unwrap();
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = clapboard();
    command.arg("generate").arg("--checkpoint").arg(&checkpoint).arg("-o").arg(out.join("x.mp4"));
    command.args(["--prompt", "x", "--video"]).arg(&video).arg("--ffprobe").arg(&probe);
    let mut child = command.env("TMPDIR", &temporary).stderr(Stdio::null()).spawn().unwrap();
    let process = until("the probe", || fs::read_to_string(&asked).ok()?.trim().parse::<i32>().ok());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = until("the process to end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    assert!(files_below(&out).is_empty() && fs::read_dir(&temporary).unwrap().next().is_none());
    let probe = Pid::from_raw(process).unwrap();
    until("the probe to end", || test_kill_process(probe).is_err().then_some(()));
}
