//! `clapboard verify`: the engine against the golden files, or a device's operations against the processor's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clapboard_engine::ComputeDtype;
use clapboard_engine::verify::{self, LevelDifferences, Line, OperationOptions, Options, Outcome, Summary};

use crate::output;
use crate::settings::device::DeviceArgs;
use crate::settings::engine::dtype;

/// Compare every stage of the engine with golden files of the reference implementation
///
/// The weights are made from the folder's recipe and loaded in both released layouts. Prints one line per stage; exits
/// with 1 when one is outside its tolerance, or when nothing was compared. With --operations, compares every operation
/// of the device with its twin on the processor instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of golden files, with its recipe.json, requests.json, tokenizer and configs
    #[arg(long, value_name = "DIR", required_unless_present = "operations")]
    golden: Option<PathBuf>,
    /// Verify one case only
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Fail also when the folder holds tensor files that no case names
    #[arg(long)]
    strict: bool,
    /// What the requests of F32 compute in; BF16 is compared with their F32 under wider tolerances
    #[arg(long, value_name = "DTYPE", default_value = "f32", value_parser = dtype())]
    dtype: ComputeDtype,
    /// Compare every operation of a GPU with its twin on the processor, over random inputs; without a GPU it fails
    #[arg(long, conflicts_with_all = ["golden", "case", "strict", "dtype"])]
    operations: bool,
    /// What the inputs of --operations are drawn from; drawn anew and printed when none is given
    #[arg(long, value_name = "N", requires = "operations")]
    seed: Option<u64>,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut table = Table::default();
    let (device, attention) = args.device.prepared();
    let opened = &mut |what: &str| output::line(format_args!("computing on {what}"));
    let summary = if args.operations {
        let seed = args.seed.unwrap_or_else(fresh_seed);
        output::line(format_args!("seed {seed}"));
        verify::run_operations(&OperationOptions { device, attention, seed }, opened, &mut |line| table.add(&line))?
    } else {
        let golden = args.golden.context("the folder of golden files is missing: --golden DIR")?;
        ensure!(golden.is_dir(), "there is no folder {} of golden files", golden.display());
        let folder = tempfile::tempdir().context("could not make a folder for the checkpoints")?;
        let (case, scratch) = (args.case, folder.path().to_owned());
        let options = Options { golden, case, scratch, device, attention, dtype: args.dtype };
        verify::run(&options, opened, &mut |line| table.add(&line))?
    };
    table.end();
    output::line(format_args!("{} passed, {} failed, {} unknown", summary.passed, summary.failed, summary.unknown));
    ensure!(summary.passed + summary.failed > 0, "nothing was compared");
    Ok(if is_good(&summary, args.strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Seeds differ from run to run, so that inputs do.
fn fresh_seed() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs())
}

/// A run that compared nothing proves nothing.
fn is_good(summary: &Summary, strict: bool) -> bool {
    summary.passed > 0 && summary.failed == 0 && (!strict || summary.unknown == 0)
}

/// The stages as they are told, and what has to be told again at the end.
#[derive(Debug, Default)]
struct Table {
    has_head: bool,
    failed: Vec<String>,
    /// What no case names.
    unknown: BTreeMap<String, BTreeSet<String>>,
}

impl Table {
    /// Prints a stage, the first one below the head.
    fn add(&mut self, line: &Line) {
        if !self.has_head {
            self.has_head = true;
            output::line(format_args!(
                "{:<28} {:<10} {:<44} {:>10}  {:<24} result",
                "case", "layout", "stage", "error", "tolerance"
            ));
        }
        let row = row(line);
        output::line(format_args!("{row}"));
        match line.outcome {
            Outcome::Passed => {}
            Outcome::Failed => self.failed.push(row),
            Outcome::Unknown => {
                self.unknown.entry(line.case.clone()).or_default().insert(line.stage.clone());
            }
        }
    }

    /// Prints again what did not pass, so that nobody has to look for it.
    fn end(&self) {
        for text in self.again() {
            output::line(format_args!("{text}"));
        }
    }

    /// The lines of the end, each list below an empty line and its name.
    fn again(&self) -> Vec<String> {
        let unknown = |(case, stages): (&String, &BTreeSet<String>)| {
            let stages: Vec<&str> = stages.iter().map(String::as_str).collect();
            format!("{case}: {}", stages.join(", "))
        };
        let lists = [("failed", self.failed.clone()), ("unknown", self.unknown.iter().map(unknown).collect())];
        let mut lines = Vec::new();
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            lines.extend([String::new(), format!("{name}:")]);
            lines.extend(list.into_iter().map(|line| format!("  {line}")));
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines
    }
}

fn row(line: &Line) -> String {
    let layout = line.layout.unwrap_or("-");
    let error = line.error.map_or("-".to_owned(), |error| format!("{error:.2e}"));
    let tolerance = line.tolerance.map_or("-".to_owned(), |tolerance| tolerance.to_string());
    let result = match (line.outcome, line.error) {
        (Outcome::Passed, _) => "pass",
        (Outcome::Failed, Some(_)) => "FAIL",
        (Outcome::Failed, None) => "FAIL: never reached",
        (Outcome::Unknown, _) => "unknown",
    };
    let levels = line.levels.map_or(String::new(), |LevelDifferences { worst, far }| {
        format!(": {worst} levels at the most, {far:.1e} beyond {}", LevelDifferences::FAR)
    });
    format!("{:<28} {layout:<10} {:<44} {error:>10}  {tolerance:<24} {result}{levels}", line.case, line.stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_files_fail_under_strict_alone() {
        let summary = |passed, failed, unknown| Summary { passed, failed, unknown };
        assert!(is_good(&summary(3, 0, 2), false));
        assert!(!is_good(&summary(3, 0, 2), true));
        assert!(!is_good(&summary(3, 1, 0), false));
        assert!(!is_good(&summary(0, 0, 0), false));
        assert!(!is_good(&summary(0, 0, 2), false), "nothing was compared");
    }

    fn line(case: &str, layout: &'static str, stage: &str, outcome: Outcome) -> Line {
        let (case, stage) = (case.to_owned(), stage.to_owned());
        Line { case, layout: Some(layout), stage, error: None, tolerance: None, levels: None, outcome }
    }

    #[test]
    fn what_did_not_pass_is_told_again_at_the_end() {
        let mut table = Table::default();
        assert!(table.again().is_empty());
        let failed = line("t2va", "original", "noise", Outcome::Failed);
        table.add(&failed);
        table.add(&line("t2va", "original", "sigmas", Outcome::Passed));
        for layout in ["original", "diffusers"] {
            table.add(&line("vae", layout, "encode.moments", Outcome::Unknown));
            table.add(&line("vae", layout, "encode.latents", Outcome::Unknown));
        }
        let expected = ["", "failed:", &format!("  {}", row(&failed))];
        assert_eq!(table.again()[..3], expected);
        assert_eq!(table.again()[3..], ["", "unknown:", "  vae: encode.latents, encode.moments", ""]);
    }

    #[test]
    fn frames_tell_how_far_their_levels_are() {
        let levels = Some(LevelDifferences { worst: 5, far: 7.4e-6 });
        let line = Line { error: Some(7.4e-6), levels, ..line("t2va", "original", "frames_u8", Outcome::Passed) };
        assert!(row(&line).ends_with("pass: 5 levels at the most, 7.4e-6 beyond 4"), "{}", row(&line));
    }

    #[test]
    fn a_stage_that_nobody_reached_says_so() {
        let line = line("t2va", "original", "noise", Outcome::Failed);
        assert!(row(&line).ends_with("FAIL: never reached"), "{}", row(&line));
    }
}
