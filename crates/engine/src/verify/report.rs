//! What verification found.

use std::fmt;

use super::compare::{Comparison, LevelDifferences, Tolerance};

/// How a stage came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Within its tolerance.
    Passed,
    /// Outside its tolerance, or never reached.
    Failed,
    /// Nothing is known to compare it with.
    Unknown,
}

/// One stage of one case in one layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The case.
    pub case: String,
    /// The checkpoint layout that it ran with; none for what needs no checkpoint.
    pub layout: Option<&'static str>,
    /// The stage: the golden tensor's name.
    pub stage: String,
    /// The worst error in the tolerance's own measure; none when nothing was compared.
    pub error: Option<f64>,
    /// The tolerance; none when nothing was compared.
    pub tolerance: Option<Tolerance>,
    /// How 8-bit values differ; none for others.
    pub levels: Option<LevelDifferences>,
    /// How it came out.
    pub outcome: Outcome,
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tolerance::Exact => f.write_str("exact"),
            Tolerance::RelativeRms(limit) => write!(f, "rms {limit:.0e}"),
            Tolerance::Absolute(limit) => write!(f, "abs {limit:.0e}"),
            Tolerance::LastPlaces(limit) => write!(f, "{limit} ulp"),
            Tolerance::LevelsBeyond { most, share, worst } => {
                write!(f, "{most} of 255 but {}%, {worst}", share * 100.0)
            }
            Tolerance::Levels { most, share } => write!(f, "{most} of 255 in {}%", share * 100.0),
        }
    }
}

/// How many stages came out how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Within tolerance.
    pub passed: usize,
    /// Outside tolerance or never reached.
    pub failed: usize,
    /// Not known.
    pub unknown: usize,
}

/// Collects the lines of a run and hands each on.
pub(super) struct Report<'a> {
    pub(super) summary: Summary,
    listener: &'a mut dyn FnMut(Line),
}

impl<'a> Report<'a> {
    pub(super) fn new(listener: &'a mut dyn FnMut(Line)) -> Self {
        Self { summary: Summary::default(), listener }
    }

    pub(super) fn compared(&mut self, place: &Place, stage: &str, tolerance: Tolerance, comparison: Comparison) {
        let outcome = if comparison.passed { Outcome::Passed } else { Outcome::Failed };
        self.line(place, stage, Some((tolerance, comparison)), outcome);
    }

    pub(super) fn never_reached(&mut self, place: &Place, stage: &str) {
        self.line(place, stage, None, Outcome::Failed);
    }

    pub(super) fn unknown(&mut self, place: &Place, stage: &str) {
        self.line(place, stage, None, Outcome::Unknown);
    }

    fn line(&mut self, place: &Place, stage: &str, measured: Option<(Tolerance, Comparison)>, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.summary.passed += 1,
            Outcome::Failed => self.summary.failed += 1,
            Outcome::Unknown => self.summary.unknown += 1,
        }
        (self.listener)(Line {
            case: place.case.clone(),
            layout: place.layout,
            stage: stage.to_owned(),
            error: measured.map(|(_, comparison)| comparison.error),
            tolerance: measured.map(|(tolerance, _)| tolerance),
            levels: measured.and_then(|(_, comparison)| comparison.levels),
            outcome,
        });
    }
}

/// Which case runs in which layout.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) case: String,
    pub(super) layout: Option<&'static str>,
}

impl Place {
    pub(super) fn new(case: &str, layout: Option<&'static str>) -> Self {
        Self { case: case.to_owned(), layout }
    }
}
