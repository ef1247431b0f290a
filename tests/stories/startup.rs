//! What keeps a service from starting says so in a sentence.

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use crate::support::{Service, clapboard, files_below, tiny_checkpoint, until};

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "it listens all the same: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_second_service_on_the_same_data_is_refused_and_the_first_goes_on() {
    let service = Service::start();
    let mut second = clapboard();
    second.arg("serve").arg("--checkpoint").arg(service.checkpoint()).arg("--data").arg(service.data());
    let refusal = refused(&second.args(["--listen", "127.0.0.1:0"]).output().unwrap());
    let expected = format!("the data directory {} is in use by another clapboard", service.data().display());
    assert!(refusal.contains(&expected), "{refusal}");
    assert_eq!(service.get("/ready").status, 200);
}

#[test]
fn a_process_ends_though_nobody_reads_why() {
    // As much as a pipe holds: whoever writes more waits for a reader.
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'x'; 64 * 1024]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut serve = clapboard();
    serve.args(["serve", "--checkpoint", "/nowhere", "--data"]).arg(folder.path().join("data"));
    serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    let mut child = serve.spawn().unwrap();
    let status = until("its end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    drop(reader);
}

#[test]
fn a_missing_ffmpeg_is_told_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("checkpoint");
    tiny_checkpoint(&checkpoint);
    let (data, video) = (folder.path().join("data"), folder.path().join("video.mp4"));
    let mut serve = clapboard();
    serve.arg("serve").arg("--checkpoint").arg(&checkpoint).arg("--data").arg(&data);
    let mut generate = clapboard();
    generate.arg("generate").arg("--checkpoint").arg(&checkpoint).args(["--prompt", "x", "--size", "32x32", "-o"]);
    generate.arg(&video);
    for command in [&mut serve, &mut generate] {
        let refusal = refused(&command.env("PATH", folder.path()).output().unwrap());
        assert!(refusal.contains("could not find ffmpeg at ffmpeg: install ffmpeg"), "{refusal}");
    }
    assert!(!data.exists() && !video.exists());
}

#[test]
fn the_open_network_is_served_only_when_it_is_said_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = clapboard();
    serve.arg("serve").arg("--checkpoint").arg(folder.path()).arg("--data").arg(folder.path().join("data"));
    let refusal = refused(&serve.args(["--listen", "0.0.0.0:0", "--no-auth"]).output().unwrap());
    assert!(refusal.contains("--no-auth was said once; say it twice"), "{refusal}");
}

#[test]
fn a_checkpoint_that_is_not_there_is_told_once_and_leaves_no_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, data) = (folder.path().join("nosuch"), folder.path().join("data"));
    let mut serve = clapboard();
    serve.arg("serve").arg("--checkpoint").arg(&checkpoint).arg("--data").arg(&data);
    let refusal = refused(&serve.output().unwrap());
    let expected = format!("clapboard: could not open {}: No such file or directory", checkpoint.display());
    assert!(refusal.starts_with(&expected), "{refusal}");
    assert!(!data.exists());
}

#[test]
fn a_broken_log_filter_is_told_once() {
    let refusal = refused(&clapboard().args(["--log", "bogus=x", "checkpoint", "inspect", "."]).output().unwrap());
    assert_eq!(refusal.matches("error parsing level filter").count(), 1, "{refusal}");
    assert!(refusal.starts_with("clapboard: log filter directive \"bogus=x\" is not valid: "), "{refusal}");
}

#[test]
fn settings_may_come_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = clapboard();
    serve.arg("serve").env("CLAPBOARD_CHECKPOINT", folder.path()).env("CLAPBOARD_DATA", folder.path().join("data"));
    let refusal = refused(&serve.env("CLAPBOARD_LEASE", "1s").output().unwrap());
    assert!(refusal.contains("too slow for a lease of 1s"), "{refusal}");
}

#[test]
fn a_checkpoint_with_a_missing_weight_file_is_refused_by_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("checkpoint");
    tiny_checkpoint(&checkpoint);
    let is_weights = |path: &&std::path::PathBuf| {
        path.starts_with("FL2VA/transformer") && path.extension().is_some_and(|end| end == "safetensors")
    };
    let files = files_below(&checkpoint);
    let weights = files.iter().find(is_weights).expect("a transformer has weights");
    fs::remove_file(checkpoint.join(weights)).unwrap();
    let mut serve = clapboard();
    serve.arg("serve").arg("--checkpoint").arg(&checkpoint).arg("--data").arg(folder.path().join("data"));
    let output = serve.args(["--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("weights of dit/fl2va do not match its config: missing "), "{told}");
}
