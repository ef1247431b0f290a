//! What runs, shown to the person who waits: a bar on a terminal, lines elsewhere.

use std::io::{IsTerminal, stderr};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clapboard_engine::{Command, Control, Progress, ProgressEvent};
use clapboard_jobs::{Phase, Progress as RunProgress};
use clapboard_worker::Meter;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::generate::estimate::Estimate;
use crate::output;

/// The least time between two lines about one phase.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Stops the engine once it is set.
#[derive(Debug, Default)]
pub(crate) struct StopSwitch(AtomicBool);

impl StopSwitch {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Control for StopSwitch {
    fn command(&self) -> Command {
        if self.is_set() { Command::Cancel } else { Command::Run }
    }
}

/// Hears the engine's progress; drawing happens elsewhere, so that a slow terminal never slows the engine.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Heard>);

/// What was heard since the last look.
#[derive(Debug, Default)]
struct Heard {
    meter: Meter,
    /// The beginnings of phases, some of which are shorter than the time between two looks.
    begun: Vec<RunProgress>,
}

impl Watch {
    /// Tells each phase that began since the last call, and how far the run has come now.
    pub(crate) fn take(&self) -> Vec<RunProgress> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = mem::take(&mut heard.begun);
        news.push(heard.meter.progress());
        news
    }
}

impl Progress for Watch {
    fn report(&self, event: ProgressEvent) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.meter.note(event);
        if let ProgressEvent::Phase(_) = event {
            let begun = heard.meter.progress();
            heard.begun.push(begun);
        }
    }
}

/// Standard error as a place for progress.
pub(crate) struct Screen {
    started: Instant,
    estimate: Estimate,
    /// On a terminal.
    bar: Option<ProgressBar>,
    /// Elsewhere: what was said last, and when.
    last_line: Option<(Phase, u32, Instant)>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("[{bar:32}] {percent:>3} %  {msg}");
            bar.set_style(style.expect("the template is a constant that a test parses").progress_chars("=> "));
            bar
        });
        Self { started: Instant::now(), estimate: Estimate::default(), bar, last_line: None }
    }

    /// Shows how far the run has come.
    pub(crate) fn draw(&mut self, watch: &Watch) {
        for progress in watch.take() {
            self.show(&progress);
        }
    }

    fn show(&mut self, progress: &RunProgress) {
        let elapsed = self.started.elapsed();
        let left = self.estimate.left(progress, elapsed);
        if let Some(bar) = &self.bar {
            bar.set_position(progress.percent.into());
            bar.set_message(describe(progress, elapsed, left));
        } else if self.is_due(progress) {
            self.last_line = Some((progress.phase, progress.step, Instant::now()));
            output::error_line(format_args!("{:>3} %  {}", progress.percent, describe(progress, elapsed, left)));
        }
    }

    /// Writes a line without breaking the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::error_line(format_args!("{line}"))),
            None => output::error_line(format_args!("{line}")),
        }
    }

    /// Takes the bar away.
    pub(crate) fn close(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    /// A line is due at a new phase, and now and then within one that moves.
    fn is_due(&self, progress: &RunProgress) -> bool {
        match self.last_line {
            None => true,
            Some((phase, step, at)) => {
                phase != progress.phase || (step != progress.step && at.elapsed() >= LINE_INTERVAL)
            }
        }
    }
}

/// Says phase, step, and when it may be over.
fn describe(progress: &RunProgress, elapsed: Duration, left: Option<Duration>) -> String {
    let mut text = progress.phase.as_str().to_owned();
    if progress.total_steps > 0 {
        text.push_str(&format!(" {}/{}", progress.step, progress.total_steps));
    }
    text.push_str(&format!("  {} gone", clock(elapsed)));
    if let Some(left) = left {
        text.push_str(&format!(", about {} left", clock(left)));
    }
    text
}

/// Hours, minutes and seconds.
fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(percent: u8, step: u32) -> RunProgress {
        RunProgress { phase: Phase::Denoise, step, total_steps: 49, percent }
    }

    #[test]
    fn the_bar_of_a_terminal_can_be_drawn() {
        assert!(ProgressStyle::with_template("[{bar:32}] {percent:>3} %  {msg}").is_ok());
    }

    #[test]
    fn phase_step_and_time_left_are_told() {
        let told = describe(&progress(20, 12), Duration::from_secs(100), Some(Duration::from_secs(400)));
        assert_eq!(told, "denoise 12/49  1:40 gone, about 6:40 left");
        assert_eq!(describe(&RunProgress::START, Duration::from_secs(1), None), "prepare  0:01 gone");
    }

    #[test]
    fn lines_come_at_new_phases_and_not_at_every_step() {
        let mut screen = Screen { started: Instant::now(), estimate: Estimate::default(), bar: None, last_line: None };
        assert!(screen.is_due(&progress(20, 12)));
        screen.last_line = Some((Phase::Denoise, 12, Instant::now()));
        assert!(!screen.is_due(&progress(20, 13)));
        assert!(screen.is_due(&RunProgress { phase: Phase::DecodeAudio, ..progress(86, 0) }));
    }
}
