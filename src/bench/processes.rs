//! Other processes of the same program, over the servers that this one was told of.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A child that is killed when dropped. It inherits the environment, and with it where the servers are.
pub(super) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Its temporary files, which it does not remove when it is killed.
    _temporary: tempfile::TempDir,
}

impl Process {
    /// Starts `clapboard` with these arguments.
    pub(super) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("could not find this program's own file")?;
        let temporary = tempfile::tempdir().context("could not make a folder for temporary files")?;
        let mut command = Command::new(program);
        command.env("TMPDIR", temporary.path());
        command.args(["--log", "error"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("could not start clapboard {}", arguments[0]))?;
        let stdout = child.stdout.take().context("the child has no output")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines(), _temporary: temporary })
    }

    /// Waits for its first line, and returns what follows `prefix`.
    pub(super) async fn says(&mut self, prefix: &str) -> anyhow::Result<String> {
        let line = self.lines.next_line().await?.context("a process ended before it was ready")?;
        let rest = line.strip_prefix(prefix);
        Ok(rest.with_context(|| format!("a process said {line:?} in place of {prefix:?}"))?.to_owned())
    }

    /// Ends it as a crash does.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("could not kill a process")
    }

    /// The memory that it holds now, in bytes.
    pub(super) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let id = self.child.id().context("the process has ended")?;
        let status = fs::read_to_string(format!("/proc/{id}/status")).context("could not read a process's status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let kibibytes = number.context("the status of a process does not tell its memory")?;
        ensure!(kibibytes > 0, "a process without memory was measured");
        Ok(kibibytes * 1024)
    }
}
