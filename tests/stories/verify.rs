//! `clapboard verify`: the engine against the golden files.

use std::path::Path;

use crate::support::clapboard;

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn the_repositorys_goldens_are_met() {
    let run = clapboard().args(["verify", "--golden"]).arg(golden()).output().unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{told}\n{}", String::from_utf8_lossy(&run.stderr));
    let cases = ["t2va", "t2va_124", "t2va_bf16", "t2va_release", "scheduler", "rng", "tables", "layout_real", "vae"];
    for case in cases.into_iter().chain(["vae_f16", "audio_vae"]) {
        let passed = |line: &str| line.split(' ').next() == Some(case) && line.ends_with(" pass");
        assert!(told.lines().any(passed), "no stage of {case} passed:\n{told}");
    }
    let end = &told[told.find("\nunbuilt:\n").expect("what is not built is told again at the end")..];
    assert!(end.contains("\n  ref2va_image: all stages\n") && end.contains(" 0 failed, "), "{end}");
}

#[test]
fn stages_that_are_not_built_fail_when_strictness_is_asked_for() {
    let verify = |more: &[&str]| {
        let mut command = clapboard();
        command.args(["verify", "--case", "audio_vae", "--golden"]).arg(golden()).args(more).output().unwrap()
    };
    let lenient = verify(&[]);
    assert!(lenient.status.success(), "{lenient:?}");
    assert!(!String::from_utf8_lossy(&lenient.stdout).contains(" 0 unbuilt"), "{lenient:?}");
    assert_eq!(verify(&["--strict"]).status.code(), Some(1));
}

#[test]
fn a_run_that_compared_nothing_fails() {
    let mut verify = clapboard();
    let run = verify.args(["verify", "--case", "ref2va_image", "--golden"]).arg(golden()).output().unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stdout).ends_with("0 passed, 0 failed, 1 unbuilt\n"), "{run:?}");
    assert_eq!(String::from_utf8_lossy(&run.stderr), "clapboard: nothing was compared\n");
}

#[test]
fn a_case_that_does_not_exist_is_named() {
    let run = clapboard().args(["verify", "--case", "t3va", "--golden"]).arg(golden()).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("t3va"), "{run:?}");
    assert!(run.stdout.is_empty(), "a table without a line: {run:?}");
}
