//! `clapboard verify`: the engine against the golden files.

use std::path::Path;

use crate::support::clapboard;

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn the_repositorys_goldens_are_met() {
    let run = clapboard().args(["verify", "--strict", "--golden"]).arg(golden()).output().unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{told}\n{}", String::from_utf8_lossy(&run.stderr));
    let parts =
        ["scheduler", "rng", "tables", "layout_real", "vae", "vae_f16", "audio_vae", "text_frontend", "resample"];
    let text = ["t2va", "t2va_124", "t2va_bf16", "t2va_release"];
    let keyframes = ["fl2va_first", "fl2va_last", "fl2va_first_last", "fl2va_first_last_release"];
    let references = ["ref2va_image", "ref2va_image_audio", "ref2va_video_sound", "ref2va_mixed_release"];
    for case in parts.into_iter().chain(text).chain(keyframes).chain(references) {
        let passed = |line: &str| line.split(' ').next() == Some(case) && line.ends_with(" pass");
        assert!(told.lines().any(passed), "no stage of {case} passed:\n{told}");
    }
    assert!(told.ends_with(" passed, 0 failed, 0 unknown\n"), "{told}");
}

#[test]
fn a_file_that_no_case_names_fails_when_strictness_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    // The smallest part of the folder that runs: its requests are read, one of its files is compared.
    for entry in std::fs::read_dir(golden()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".json") || name.ends_with(".txt") || name == "scheduler.safetensors" {
            std::fs::copy(entry.path(), folder.path().join(&name)).unwrap();
        }
    }
    std::os::unix::fs::symlink(golden().join("configs"), folder.path().join("configs")).unwrap();
    std::fs::write(folder.path().join("requests.json"), r#"{"cases":[]}"#).unwrap();
    std::fs::write(folder.path().join("news.safetensors"), "unread").unwrap();
    let verify =
        |more: &[&str]| clapboard().args(["verify", "--golden"]).arg(folder.path()).args(more).output().unwrap();
    let lenient = verify(&[]);
    assert!(lenient.status.success(), "{lenient:?}");
    assert!(String::from_utf8_lossy(&lenient.stdout).ends_with(" 0 failed, 1 unknown\n"), "{lenient:?}");
    assert_eq!(verify(&["--strict"]).status.code(), Some(1));
}

#[test]
fn a_run_that_compared_nothing_fails() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["recipe.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"] {
        std::fs::copy(golden().join(name), folder.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink(golden().join("configs"), folder.path().join("configs")).unwrap();
    std::fs::write(folder.path().join("requests.json"), r#"{"cases":[]}"#).unwrap();
    let run = clapboard().args(["verify", "--golden"]).arg(folder.path()).output().unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stdout).ends_with("0 passed, 0 failed, 0 unknown\n"), "{run:?}");
    assert_eq!(String::from_utf8_lossy(&run.stderr), "clapboard: nothing was compared\n");
}

#[test]
fn a_case_that_does_not_exist_is_named() {
    let run = clapboard().args(["verify", "--case", "t3va", "--golden"]).arg(golden()).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("t3va"), "{run:?}");
    assert!(run.stdout.is_empty(), "a table without a line: {run:?}");
}
