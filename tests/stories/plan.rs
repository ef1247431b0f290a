//! `clapboard plan`: no GPU, no weights.

use std::process::Output;

use serde_json::Value;

use crate::support::clapboard;

fn plan(arguments: &[&str]) -> Output {
    clapboard().arg("plan").args(arguments).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_release_is_planned_without_a_checkpoint_and_says_who_follows_the_plan() {
    let output = plan(&["--released", "--size", "1344x768", "--frames", "124", "--hbm", "12GiB", "--host", "64GiB"]);
    assert!(output.status.success(), "{output:?}");
    let told = told(&output);
    assert!(
        told.starts_with("An engine with --offload layer follows this plan; without it every weight stays on the GPU"),
        "{told}"
    );
    for part in ["37810 rows", "resident", "streamed blocks", "language layers", "qkv", "AdaLN table"] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

#[test]
fn an_object_adds_up() {
    let output = plan(&["--released", "--profile", "rtx5090", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["fits"], true);
    assert_eq!(plan["followed_by_the_engine"], false);
    assert_eq!(plan["step"]["resident_layers"], 12);
    assert_eq!(plan["step"]["block_bytes_per_step"], 38u64 * 770_725_376);
    let peaks = plan["phases"].as_array().unwrap().iter().map(|phase| {
        let holdings = phase["holdings"].as_array().unwrap().iter();
        let sum: u64 = holdings.map(|holding| holding["bytes"].as_u64().unwrap()).sum();
        assert_eq!(phase["peak_bytes"].as_u64().unwrap(), sum);
        sum
    });
    assert_eq!(plan["peak_hbm_bytes"].as_u64().unwrap(), peaks.max().unwrap());
}

#[test]
fn what_does_not_fit_exits_with_1_and_says_what_would() {
    let arguments = ["--released", "--size", "1344x768", "--frames", "345", "--hbm", "7GiB"];
    let output = plan(&arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = told(&output);
    for part in ["does not fit", "the budget is 7.00 GiB", "it would fit in", "frames of this size", "attended"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let output = plan(&[&arguments[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let refused: Value = serde_json::from_slice(&output.stdout).unwrap();
    let least = refused["would_fit"]["hbm_bytes"].as_u64().unwrap();
    let enough = format!("{least}B");
    let output = plan(&["--released", "--size", "1344x768", "--frames", "345", "--hbm", &enough]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_checkpoint_is_planned_for_by_its_own_headers() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("tiny");
    let mut tiny = clapboard();
    assert!(tiny.args(["checkpoint", "tiny", "--out"]).arg(&checkpoint).output().unwrap().status.success());
    let path = checkpoint.to_str().unwrap();
    let output = plan(&["--checkpoint", path, "--size", "64x32", "--hbm", "2GiB", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let planned: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(planned["step"]["streamed_layers"], 0, "a tiny transformer stays on the GPU");
    let references = ["--task", "ref2va", "--images", "2", "--videos", "1", "--frames", "22"];
    let output = plan(&[&["--checkpoint", path, "--size", "64x32", "--hbm", "2GiB"], &references[..]].concat());
    assert!(output.status.success() && told(&output).contains("encode video"), "{output:?}");
}

#[test]
fn what_cannot_be_planned_names_the_setting() {
    for (arguments, part) in [
        (&["--released"][..], "name --hbm-budget or --profile"),
        (&["--hbm", "8GiB"], "--checkpoint"),
        (&["--released", "--hbm", "8"], "amount of memory"),
        (&["--released", "--profile", "rtx4090x2"], "needs 2 GPUs"),
        (&["--released", "--profile", "rtx3090"], "rtx5090, rtx4090"),
        (&["--released", "--hbm", "24GiB", "--resident-layers", "49"], "none or at least two"),
        (&["--released", "--hbm", "24GiB", "--resident-layers", "most"], "a whole number or auto"),
        (&["--released", "--hbm", "24GiB", "--size", "12"], "WIDTHxHEIGHT"),
        (&["--released", "--hbm", "24GiB", "--frames", "9"], "--frames"),
        (&["--released", "--hbm", "24GiB", "--task", "ref2va"], "ref2va takes"),
        (&["--released", "--hbm", "24GiB", "--task", "t2va", "--partition", "ref2va"], "partition fl2va"),
    ] {
        let output = plan(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{arguments:?}: {said}");
    }
}
