//! Child processes under limits: of time, of output, and of what they may leave behind.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Error;

/// How much of a child's standard error an error message keeps: its end.
const STDERR_TAIL_BYTES: usize = 4096;

/// A child in its own process group, killed with the group and reaped when dropped.
///
/// Its own group also keeps a Ctrl-C at the terminal from the child, so that a service that drains can finish its file.
#[derive(Debug)]
pub(crate) struct Process {
    program: &'static str,
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`, which runs `program`.
    pub(crate) fn spawn(program: &'static str, mut command: Command) -> Result<Self, Error> {
        // FFREPORT makes the programs write log files with whole command lines into the current folder.
        command.process_group(0).env_remove("FFREPORT");
        let child = command.spawn().map_err(|source| {
            let path = Path::new(command.get_program()).to_path_buf();
            match source.kind() {
                io::ErrorKind::NotFound => Error::ProgramMissing { program, path },
                io::ErrorKind::PermissionDenied => Error::NotExecutable { program, path },
                _ => Error::Start { program, path, source },
            }
        })?;
        Ok(Self { program, child, status: None })
    }

    /// Gives the pipes, of which those not asked for are absent.
    pub(crate) fn pipes(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Says how the child ended, when it has.
    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(Error::io("wait for", self.program))?;
        }
        Ok(self.status)
    }

    /// Waits for the end of the child until `deadline`.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>, Error> {
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Kills the child with its group and reaps it; says how it ended.
    pub(crate) fn kill(&mut self) -> Result<ExitStatus, Error> {
        if let Some(status) = self.try_wait()? {
            return Ok(status);
        }
        // Not reaped, so the group's number is still the child's own.
        if kill_process_group(Pid::from_child(&self.child), Signal::KILL).is_err() {
            self.child.kill().map_err(Error::io("kill", self.program))?;
        }
        let status = self.child.wait().map_err(Error::io("wait for", self.program))?;
        self.status = Some(status);
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(program = self.program, %error, "could not end a child process");
        }
    }
}

/// What a child that ended well printed.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Its standard output.
    pub(crate) stdout: Vec<u8>,
    /// The end of its standard error.
    pub(crate) stderr: String,
}

/// Runs `command` to its end with nothing on standard input.
///
/// Errors: missing program, a time limit passed, more than `max_bytes` printed, an exit status other than success.
pub(crate) fn capture(
    program: &'static str,
    mut command: Command,
    limit: Duration,
    max_bytes: usize,
) -> Result<Captured, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let deadline = Instant::now() + limit;
    let mut process = Process::spawn(program, command)?;
    let stdout = process.pipes().stdout.take();
    let stderr = process.pipes().stderr.take();
    // Past its bound the reader closes the pipe, and the child ends on its next write.
    let stdout = thread::spawn(move || {
        let mut kept = Vec::new();
        stdout.map_or(Ok(0), |pipe| pipe.take(max_bytes as u64 + 1).read_to_end(&mut kept)).map(|_| kept)
    });
    let stderr = thread::spawn(move || stderr.map(tail).unwrap_or_default());

    let ended = process.wait_until(deadline)?;
    let status = match ended {
        Some(status) => status,
        None => process.kill()?,
    };
    let stdout = stdout.join().expect("the reader does not panic");
    let stderr = stderr.join().expect("the reader does not panic");
    if ended.is_none() {
        return Err(Error::TimedOut { program, limit });
    }
    let stdout = stdout.map_err(Error::io("read from", program))?;
    if stdout.len() > max_bytes {
        return Err(Error::OutputTooLarge { program, limit_bytes: max_bytes });
    }
    if !status.success() {
        return Err(Error::ProgramFailed { program, status, stderr });
    }
    Ok(Captured { stdout, stderr })
}

/// Reads `pipe` to its end and keeps the last bytes as text.
pub(crate) fn tail(mut pipe: impl Read) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut piece = [0; 1024];
    loop {
        match pipe.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                kept.extend_from_slice(&piece[..n]);
                kept.drain(..kept.len().saturating_sub(STDERR_TAIL_BYTES));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const GENEROUS: Duration = Duration::from_secs(60);

    #[test]
    fn output_past_its_bound_is_an_error_and_ends_the_child() {
        let error = capture("ffprobe", shell("exec cat /dev/zero"), GENEROUS, 1000).unwrap_err();
        assert!(matches!(error, Error::OutputTooLarge { limit_bytes: 1000, .. }), "{error}");
    }

    #[test]
    fn a_child_past_its_time_is_killed_with_the_children_it_started() {
        // The inner sleep holds the pipes open: only a killed group lets the readers end.
        let error = capture("ffprobe", shell("sleep 1000; true"), Duration::from_millis(50), 1000).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    }

    #[test]
    fn a_failure_carries_the_end_of_standard_error() {
        let script = "i=0; while [ $i -lt 2000 ]; do echo noise >&2; i=$((i+1)); done; echo last words >&2; exit 3";
        let error = capture("ffprobe", shell(script), GENEROUS, 1000).unwrap_err();
        let Error::ProgramFailed { status, stderr, .. } = error else { panic!("{error}") };
        assert_eq!(status.code(), Some(3));
        assert!(stderr.ends_with("last words") && stderr.len() <= STDERR_TAIL_BYTES, "{stderr}");
    }
}
