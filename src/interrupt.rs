//! The signals that ask a process to end.

use std::process;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears SIGTERM and SIGINT from its making on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    terminate: Signal,
    interrupt: Signal,
}

impl Interrupts {
    /// Begins to listen; the process is no longer ended by these signals themselves.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("could not listen to signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends the process at the next signal, whatever still runs.
    pub(crate) fn exit_at_the_next(mut self) {
        tokio::spawn(async move {
            let name = self.next().await;
            tracing::warn!(signal = name, "second signal: exiting at once");
            exit();
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever signals twice wants no destructor to be waited for")]
fn exit() -> ! {
    // As a shell reports a process that SIGINT ended.
    process::exit(130)
}
