//! `clapboard verify`: the engine against the golden files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clapboard_engine::verify::{self, Line, Options, Outcome, Summary};

use crate::output;

/// Compare every stage of the engine with golden files of the reference implementation
///
/// The weights are made from the folder's recipe and loaded in both released layouts. Prints one line per stage; exits
/// with 1 when one is outside its tolerance.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of golden files, with its recipe.json, requests.json, tokenizer and configs
    #[arg(long, value_name = "DIR")]
    golden: PathBuf,
    /// Verify one case only
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Fail also when there are cases of tasks that are not built
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    ensure!(args.golden.is_dir(), "there is no folder {} of golden files", args.golden.display());
    let scratch = tempfile::tempdir().context("could not make a folder for the checkpoints")?;
    let options = Options { golden: args.golden, case: args.case, scratch: scratch.path().to_owned() };
    output::line(format_args!(
        "{:<28} {:<10} {:<44} {:>10}  {:<22} result",
        "case", "layout", "stage", "error", "tolerance"
    ));
    let summary = verify::run(&options, &mut |line| output::line(format_args!("{}", row(&line))))
        .context("could not verify the engine")?;
    output::line(format_args!("{} passed, {} failed, {} unbuilt", summary.passed, summary.failed, summary.unbuilt));
    Ok(if is_good(&summary, args.strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A run that compared nothing proves nothing.
fn is_good(summary: &Summary, strict: bool) -> bool {
    summary.failed == 0 && (!strict || summary.unbuilt == 0) && summary.passed + summary.unbuilt > 0
}

fn row(line: &Line) -> String {
    let layout = line.layout.unwrap_or("-");
    let error = line.error.map_or("-".to_owned(), |error| format!("{error:.2e}"));
    let tolerance = line.tolerance.map_or("-".to_owned(), |tolerance| tolerance.to_string());
    let result = match (line.outcome, line.error) {
        (Outcome::Passed, _) => "pass",
        (Outcome::Failed, Some(_)) => "FAIL",
        (Outcome::Failed, None) => "FAIL: never reached",
        (Outcome::Unbuilt, _) => "unbuilt",
    };
    format!("{:<28} {layout:<10} {:<44} {error:>10}  {tolerance:<22} {result}", line.case, line.stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbuilt_cases_fail_under_strict_alone() {
        let summary = |passed, failed, unbuilt| Summary { passed, failed, unbuilt };
        assert!(is_good(&summary(3, 0, 2), false));
        assert!(!is_good(&summary(3, 0, 2), true));
        assert!(!is_good(&summary(3, 1, 0), false));
        assert!(!is_good(&summary(0, 0, 0), false));
    }

    #[test]
    fn a_stage_that_nobody_reached_says_so() {
        let line = Line {
            case: "t2va".to_owned(),
            layout: Some("original"),
            stage: "noise".to_owned(),
            error: None,
            tolerance: None,
            outcome: Outcome::Failed,
        };
        assert!(row(&line).ends_with("FAIL: never reached"), "{}", row(&line));
    }
}
