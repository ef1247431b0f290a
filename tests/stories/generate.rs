//! `clapboard generate`: one prompt to one file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{assert_video, clapboard, files_below, tiny_checkpoint, until};

/// A command that generates a short video from a checkpoint.
fn generate(checkpoint: &Path, output: &Path) -> Command {
    let mut command = clapboard();
    command.arg("generate").arg("--checkpoint").arg(checkpoint).arg("-o").arg(output);
    command.args(["--prompt", "A paper boat on a pond", "--size", "64x32", "--num-frames", "22"]);
    command
}

#[test]
fn one_seed_gives_one_file_and_another_seed_another() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("checkpoint");
    tiny_checkpoint(&checkpoint);
    let make = |name: &str, seed: &str| {
        let output = folder.path().join(name);
        let run = generate(&checkpoint, &output).args(["--steps", "3", "--seed", seed]).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        assert!(String::from_utf8_lossy(&run.stdout).contains(&format!("seed         {seed}")), "{run:?}");
        fs::read(output).unwrap()
    };
    let (first, second, other) = (make("a.mp4", "42"), make("b.mp4", "42"), make("c.mp4", "43"));
    assert!(first == second, "one seed, two files");
    assert!(first != other, "two seeds, one file");
    assert_video(&folder.path().join("a.mp4"), (64, 32), 22);
    let left = files_below(folder.path()).into_iter().filter(|file| !file.starts_with("checkpoint"));
    assert_eq!(left.map(|file| file.display().to_string()).collect::<Vec<_>>(), ["a.mp4", "b.mp4", "c.mp4"]);
}

#[test]
fn machines_get_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, output) = (folder.path().join("checkpoint"), folder.path().join("video.mp4"));
    tiny_checkpoint(&checkpoint);
    let run = generate(&checkpoint, &output).args(["--steps", "3", "--json", "--dtype", "bf16"]).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report["size_bytes"].as_u64(), Some(fs::metadata(&output).unwrap().len()));
    assert_eq!((report["size"].as_str(), report["forwards"].as_u64()), (Some("64x32"), Some(2)));
    assert_eq!((report["dtype"].as_str(), report["num_frames"].as_u64()), (Some("bf16"), Some(22)));
    assert!(report["seed"].as_u64().is_some_and(|seed| seed < 1 << 32), "{report}");
    assert!(report["peak_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{report}");
    let stages: Vec<&String> = report["stage_durations_s"].as_object().unwrap().keys().collect();
    assert_eq!(stages, ["decode_audio", "decode_video", "denoise", "text_encode"]);
    // Without a terminal the progress is told in lines.
    let progress = String::from_utf8_lossy(&run.stderr);
    assert!(progress.contains("decode_video") && !progress.contains('\r'), "{progress}");
}

#[test]
fn a_file_that_is_there_is_overwritten_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, output) = (folder.path().join("checkpoint"), folder.path().join("video.mp4"));
    tiny_checkpoint(&checkpoint);
    fs::write(&output, "mine").unwrap();
    let refused = generate(&checkpoint, &output).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("exists already; --force overwrites it"), "{refused:?}");
    assert_eq!(fs::read(&output).unwrap(), b"mine");
    let run = generate(&checkpoint, &output).args(["--force", "--steps", "2"]).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    assert_video(&output, (64, 32), 22);
}

#[test]
fn the_rules_are_those_of_the_api() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, output) = (folder.path().join("checkpoint"), folder.path().join("video.mp4"));
    tiny_checkpoint(&checkpoint);
    let cases: [(&[&str], &str); 4] = [
        (&["--steps", "1"], "--steps counts sigma points and must be between 2 and 200, got 1"),
        (&["--quality", "best"], "--quality must be one of lossless, high, got \"best\""),
        (&["--task", "fl2va"], "--task fl2va goes with --first-frame, --last-frame or both, and nothing else"),
        (&["--flow-shift", "inf"], "--flow-shift: shift must be finite and positive, got inf"),
    ];
    for (options, rule) in cases {
        let refused = generate(&checkpoint, &output).args(options).output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), told.as_ref()), (Some(1), format!("clapboard: {rule}\n").as_str()));
    }
    assert!(!output.exists());
}

#[test]
fn a_request_is_refused_before_any_weights_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, output) = (folder.path().join("checkpoint"), folder.path().join("video.mp4"));
    tiny_checkpoint(&checkpoint);
    for file in files_below(&checkpoint) {
        if file.extension().is_some_and(|extension| extension == "safetensors") {
            fs::remove_file(checkpoint.join(file)).unwrap();
        }
    }
    let refused = generate(&checkpoint, &output).args(["--steps", "1"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.starts_with("clapboard: --steps counts sigma points"), "{told}");
}

#[test]
fn only_an_mp4_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["video.avi", "video", ".mp4"] {
        let refused = generate(folder.path(), &folder.path().join(name)).output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && told.contains("does not end in .mp4"), "{name}: {told}");
    }
}

#[test]
fn an_interrupt_stops_at_the_next_block_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, out) = (folder.path().join("checkpoint"), folder.path().join("out"));
    tiny_checkpoint(&checkpoint);
    fs::create_dir(&out).unwrap();
    let stderr = folder.path().join("stderr");
    let mut command = generate(&checkpoint, &out.join("video.mp4"));
    command.args(["--steps", "200"]).stdout(Stdio::null()).stderr(fs::File::create(&stderr).unwrap());
    let mut child = command.spawn().unwrap();
    until("the denoising to begin", || fs::read_to_string(&stderr).unwrap().contains("denoise").then_some(()));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = until("the process to end", || child.try_wait().unwrap());
    let told = fs::read_to_string(&stderr).unwrap();
    assert_eq!(status.code(), Some(130), "as a shell reports SIGINT: {told}");
    assert!(told.contains("stopped by SIGINT, nothing was written"), "{told}");
    assert!(files_below(&out).is_empty());
}

#[test]
fn an_interrupt_while_the_file_is_finished_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, out) = (folder.path().join("checkpoint"), folder.path().join("out"));
    tiny_checkpoint(&checkpoint);
    fs::create_dir(&out).unwrap();
    // Takes all that it is given, and then does not end.
    let slow = folder.path().join("ffmpeg");
    let script = "#!/bin/sh\nfor it in \"$@\"; do case $it in -version|-encoders) exec ffmpeg \"$@\";; esac; done\ncat >/dev/null\nexec sleep 1000\n";
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let stderr = folder.path().join("stderr");
    for (signal, code) in [(Signal::INT, 130), (Signal::HUP, 129)] {
        let mut command = generate(&checkpoint, &out.join("video.mp4"));
        command.args(["--steps", "2", "--ffmpeg"]).arg(&slow);
        command.stdout(Stdio::null()).stderr(fs::File::create(&stderr).unwrap());
        let mut child = command.spawn().unwrap();
        until("the last phase", || fs::read_to_string(&stderr).unwrap().contains("decode_video").then_some(()));
        until("the soundtrack beside the file", || (files_below(&out).len() > 1).then_some(()));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = until("the process to end", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(code), "{}", fs::read_to_string(&stderr).unwrap());
        assert!(files_below(&out).is_empty(), "{:?}", files_below(&out));
    }
}
