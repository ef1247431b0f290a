//! What a story did and when, to be printed when it fails.

use std::cell::RefCell;
use std::time::Instant;

/// The log of a story. It prints itself when the test fails.
#[derive(Debug)]
pub(super) struct Events {
    began: Instant,
    lines: RefCell<Vec<String>>,
}

impl Events {
    /// Begins a log whose first line says what the story is.
    pub(super) fn begin(story: &str) -> Self {
        let events = Self { began: Instant::now(), lines: RefCell::new(Vec::new()) };
        events.note(story);
        events
    }

    pub(super) fn note(&self, line: &str) {
        self.lines.borrow_mut().push(format!("{:8.3} s  {line}", self.began.elapsed().as_secs_f64()));
    }
}

impl Drop for Events {
    #[expect(clippy::print_stderr, reason = "what a failed test has to tell")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the story until it failed:\n{}", self.lines.borrow().join("\n"));
        }
    }
}
