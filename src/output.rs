//! Lines for the person or program at the terminal. A reader that has gone away is no error.

use std::fmt::Arguments;
use std::io::{self, Write};

use serde_json::Value;

/// Writes one line to standard output.
pub(crate) fn line(text: Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    // A closed pipe means that nobody reads: there is nobody to tell either.
    let _ = writeln!(stdout, "{text}");
    let _ = stdout.flush();
}

/// Writes an object for a program to standard output.
pub(crate) fn json(object: &Value) {
    line(format_args!("{object:#}"));
}

/// Writes one line to standard error.
pub(crate) fn error_line(text: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
