//! The repository's golden folder, stage by stage, in both layouts.

use clapboard_engine::ops::cuda::AttentionChoice;
use clapboard_engine::verify::{Line, Options, Outcome, run};
use clapboard_engine::{ComputeDtype, Device};

#[test]
fn every_stage_is_within_its_tolerance() {
    let scratch = tempfile::tempdir().expect("a temporary folder can be made");
    let options = Options {
        golden: concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden").into(),
        case: None,
        scratch: scratch.path().to_owned(),
        device: Device::Cpu,
        attention: AttentionChoice::Auto,
        dtype: ComputeDtype::F32,
    };
    let mut lines: Vec<Line> = Vec::new();
    let summary = run(&options, &mut |_| {}, &mut |line| lines.push(line)).expect("the golden folder runs");
    let failed: Vec<String> =
        lines.iter().filter(|line| line.outcome == Outcome::Failed).map(|line| format!("{line:?}")).collect();
    assert!(failed.is_empty(), "{} of {summary:?} failed:\n{}", failed.len(), failed.join("\n"));
    // Fewer comparisons than there are golden tensors would mean that a case was skipped.
    assert!(summary.passed > 2000 && summary.unknown == 0, "only {summary:?}");
}
