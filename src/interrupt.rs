//! The signals that ask a process to end.

use std::sync::OnceLock;
use std::{fmt, process};

use anyhow::Context;
use clapboard_telemetry::LastLines;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks the process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// SIGTERM, as supervisors send it.
    Term,
    /// SIGINT, as Ctrl-C sends it.
    Int,
    /// SIGHUP, as a terminal sends it that is closed.
    Hup,
}

impl Interrupt {
    /// The exit code that a shell reports for a process which this signal ended.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Term => 143,
            Self::Int => 130,
            Self::Hup => 129,
        }
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Term => "SIGTERM",
            Self::Int => "SIGINT",
            Self::Hup => "SIGHUP",
        })
    }
}

/// Says that a signal ended the work before its result.
#[derive(Debug, thiserror::Error)]
#[error("stopped by {0}, nothing was written")]
pub(crate) struct Stopped(pub(crate) Interrupt);

/// Hears SIGTERM, SIGINT and SIGHUP from its making on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    terminate: Signal,
    interrupt: Signal,
    /// None where it is ignored, as `nohup` has it: then the process is to outlive its terminal.
    hang_up: Option<Signal>,
}

impl Interrupts {
    /// Begins to listen; the process is no longer ended by these signals themselves.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen to signals");
        let hang_up = if is_ignored(SignalKind::hangup()) { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())?, hang_up })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.terminate.recv() => Interrupt::Term,
            _ = self.interrupt.recv() => Interrupt::Int,
            () = heard(&mut self.hang_up) => Interrupt::Hup,
        }
    }

    /// Ends the process at the next signal, whatever still runs.
    pub(crate) fn exit_at_the_next(mut self) {
        tokio::spawn(async move {
            let signal = self.next().await;
            tracing::warn!(%signal, "second signal: exiting at once");
            exit(signal);
        });
    }
}

/// Waits for a signal that may be ignored.
async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Tells whether the process was started with a signal ignored, as far as the system says so.
fn is_ignored(kind: SignalKind) -> bool {
    is_ignored_by(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), kind)
}

/// Reads the mask of ignored signals in what `/proc` says of a process.
fn is_ignored_by(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// The log whose last lines an exit at once still waits for.
static LOG: OnceLock<LastLines> = OnceLock::new();

/// Lets an exit at a second signal wait, though not for long, until what was logged before it is written.
pub(crate) fn flush_at_exit(log: &LastLines) {
    // It fails where a log was named before, of which a process has one.
    let _ = LOG.set(log.clone());
}

#[expect(clippy::disallowed_methods, reason = "whoever signals twice wants no destructor to be waited for")]
fn exit(signal: Interrupt) -> ! {
    if let Some(log) = LOG.get() {
        log.flush();
    }
    process::exit(signal.exit_code().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_nohup_has_ignored_is_told_from_others() {
        let nohup = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert!(is_ignored_by(nohup, SignalKind::hangup()));
        assert!(is_ignored_by(nohup, SignalKind::pipe()));
        assert!(!is_ignored_by(nohup, SignalKind::terminate()));
        assert!(!is_ignored_by("", SignalKind::hangup()));
    }
}
