//! Lines for the person or program at the terminal. A reader that has gone away is no error.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

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

/// Writes one line about a service to standard output, unless nobody reads: a service does not wait for its reader, neither
/// at its start nor at its end.
pub(crate) fn status(text: Arguments<'_>) {
    unless_nobody_reads(text.to_string(), |text| line(format_args!("{text}")));
}

/// Writes one line to standard error, unless nobody reads: a process that is to end does.
pub(crate) fn error_line(text: Arguments<'_>) {
    unless_nobody_reads(text.to_string(), |text| {
        let _ = writeln!(io::stderr().lock(), "{text}");
    });
}

/// How long a line waits for room in a pipe.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes on a thread of its own, which is left alone when it stands still; where there are no more threads, on this one.
fn unless_nobody_reads(text: String, write: fn(&str)) {
    let (done, written) = mpsc::sync_channel(1);
    let copy = text.clone();
    let writing = thread::Builder::new().name("output".to_owned()).spawn(move || {
        write(&copy);
        // Who waits may have given up.
        let _ = done.try_send(());
    });
    match writing {
        Ok(_) => {
            let _ = written.recv_timeout(PATIENCE);
        }
        Err(_) => write(&text),
    }
}
