//! `clapboard checkpoint`: writing tiny checkpoints and explaining any.

use std::fs;

use serde_json::Value;

use crate::support::{clapboard, files_below};

#[test]
fn a_tiny_checkpoint_of_either_layout_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    for layout in ["original", "diffusers"] {
        let checkpoint = folder.path().join(layout);
        let mut tiny = clapboard();
        tiny.args(["checkpoint", "tiny", "--seed", "11", "--layout", layout, "--out"]).arg(&checkpoint);
        let written = tiny.output().unwrap();
        assert!(written.status.success(), "{written:?}");
        let inspected = clapboard().args(["checkpoint", "inspect", "--json"]).arg(&checkpoint).output().unwrap();
        assert!(inspected.status.success(), "{inspected:?}");
        let inspection: Value = serde_json::from_slice(&inspected.stdout).unwrap();
        assert_eq!(inspection["layout"], layout);
        assert_eq!(inspection["partitions"], serde_json::json!(["fl2va", "ref2va"]));
        let told = clapboard().args(["checkpoint", "inspect"]).arg(&checkpoint).output().unwrap();
        assert!(told.stdout.ends_with(b"\ncheckpoint is complete\n"), "{told:?}");
        let again = tiny.output().unwrap();
        assert_eq!(again.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"), "{again:?}");
    }
}

#[test]
fn a_truncated_weight_file_is_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("checkpoint");
    let mut tiny = clapboard();
    assert!(tiny.args(["checkpoint", "tiny", "--out"]).arg(&checkpoint).output().unwrap().status.success());
    let files = files_below(&checkpoint);
    let weights = files.iter().find(|file| {
        file.starts_with("FL2VA/audio_vae") && file.extension().is_some_and(|extension| extension == "safetensors")
    });
    let weights = checkpoint.join(weights.expect("the audio decoder has weights"));
    let half = fs::metadata(&weights).unwrap().len() / 2;
    fs::File::options().write(true).open(&weights).unwrap().set_len(half).unwrap();
    let inspected = clapboard().args(["checkpoint", "inspect"]).arg(&checkpoint).output().unwrap();
    let told = String::from_utf8_lossy(&inspected.stdout);
    assert_eq!(inspected.status.code(), Some(1), "{told}");
    assert!(told.contains(&*weights.file_name().unwrap().to_string_lossy()), "{told}");
    assert!(told.ends_with("\ncheckpoint cannot be served\n"), "{told}");
}
