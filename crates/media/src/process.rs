//! Child processes under limits: of time, of output, and of what they may leave behind.

use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, prlimit};

use crate::Error;

/// The most of a line that is kept.
const LINE_BYTES: u64 = 1024;
/// How much of a child's standard error an error message keeps: its end.
const STDERR_TAIL_BYTES: usize = 4096;

/// What a child gets of this process's environment: where programs, libraries and temporary files are. The rest holds
/// secrets, which a program that reads strangers' files has no business with, and switches such as FFREPORT.
const INHERITED: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "TMPDIR"];

#[expect(clippy::disallowed_methods, reason = "these are the system's, and handed on unread")]
fn environment() -> impl Iterator<Item = (&'static str, OsString)> {
    INHERITED.into_iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)))
}

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
        command.process_group(0).env_clear().envs(environment());
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

    /// Bounds the child's address space: past it the child's own allocations fail. Only on Linux.
    pub(crate) fn bound_memory(&self, bytes: u64) {
        #[cfg(target_os = "linux")]
        {
            let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
            // A child that is gone already needs no bound.
            if let Err(error) = prlimit(Some(Pid::from_child(&self.child)), Resource::As, limit) {
                tracing::debug!(program = self.program, %error, "could not bound the memory of a child process");
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
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
        self.wait_unless(&AtomicBool::new(false), deadline)
    }

    /// Waits for the end of the child until `deadline`, or until nobody wants it.
    ///
    /// Errors: [`Error::Aborted`] soon after `aborted` was set; the child goes on.
    pub(crate) fn wait_unless(&mut self, aborted: &AtomicBool, deadline: Instant) -> Result<Option<ExitStatus>, Error> {
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            if aborted.load(Ordering::Relaxed) {
                return Err(Error::Aborted);
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

/// How much of everything a child may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Until it is killed.
    pub(crate) time: Duration,
    /// On its standard output.
    pub(crate) max_bytes: usize,
    /// Of address space, where it is bounded.
    pub(crate) memory_bytes: Option<u64>,
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
/// Errors: missing program, a time limit passed, more than `max_bytes` printed, an exit status other than success,
/// [`Error::Aborted`] soon after `aborted` was set.
pub(crate) fn capture(
    program: &'static str,
    mut command: Command,
    bounds: &Bounds,
    aborted: &AtomicBool,
) -> Result<Captured, Error> {
    if aborted.load(Ordering::Relaxed) {
        return Err(Error::Aborted);
    }
    let Bounds { time: limit, max_bytes, memory_bytes } = *bounds;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let deadline = Instant::now() + limit;
    let mut process = Process::spawn(program, command)?;
    if let Some(bytes) = memory_bytes {
        process.bound_memory(bytes);
    }
    let stdout = process.pipes().stdout.take();
    let stderr = process.pipes().stderr.take();
    // Past its bound the reader closes the pipe, and the child ends on its next write.
    let stdout = thread::spawn(move || {
        let mut kept = Vec::new();
        stdout.map_or(Ok(0), |pipe| pipe.take(max_bytes as u64 + 1).read_to_end(&mut kept)).map(|_| kept)
    });
    let stderr = thread::spawn(move || stderr.map(tail).unwrap_or_default());

    let ended = process.wait_unless(aborted, deadline);
    if !matches!(ended, Ok(Some(_))) {
        process.kill()?;
    }
    let stdout = stdout.join().expect("the reader does not panic");
    let stderr = stderr.join().expect("the reader does not panic");
    let Some(status) = ended? else { return Err(Error::TimedOut { program, limit }) };
    let stdout = stdout.map_err(Error::io("read from", program))?;
    if stdout.len() > max_bytes {
        return Err(Error::OutputTooLarge { program, limit_bytes: max_bytes });
    }
    if !status.success() {
        return Err(Error::ProgramFailed { program, status, stderr });
    }
    Ok(Captured { stdout, stderr })
}

/// Reads the next line and keeps its first KiB, without its end; `None` after the last.
///
/// The rest of a longer line is dropped, so that no text within a line passes for the beginning of one.
pub(crate) fn bounded_line(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if lines.take(LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.pop_if(|end| *end == b'\n').is_none() {
        lines.skip_until(b'\n')?;
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
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

    static NEVER: AtomicBool = AtomicBool::new(false);
    const GENEROUS: Bounds = Bounds { time: Duration::from_secs(60), max_bytes: 1000, memory_bytes: None };

    #[test]
    fn a_child_knows_where_programs_are_and_nothing_else_of_the_environment() {
        let told = capture("ffprobe", shell("env"), &GENEROUS, &NEVER).unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let names: Vec<_> = told.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
        assert!(names.contains(&"PATH"), "{told}");
        // What a shell sets for itself.
        let own = ["PWD", "OLDPWD", "SHLVL", "_"];
        let others: Vec<_> = names.iter().filter(|name| !own.contains(name) && !INHERITED.contains(name)).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    #[test]
    fn output_past_its_bound_is_an_error_and_ends_the_child() {
        let error = capture("ffprobe", shell("exec cat /dev/zero"), &GENEROUS, &NEVER).unwrap_err();
        assert!(matches!(error, Error::OutputTooLarge { limit_bytes: 1000, .. }), "{error}");
    }

    #[test]
    fn a_child_past_its_time_is_killed_with_the_children_it_started() {
        // The inner sleep holds the pipes open: only a killed group lets the readers end.
        let bounds = Bounds { time: Duration::from_millis(50), ..GENEROUS };
        let error = capture("ffprobe", shell("sleep 1000; true"), &bounds, &NEVER).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    }

    #[test]
    fn a_child_that_nobody_wants_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let aborted = AtomicBool::new(false);
        let script = format!("echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000", file.display());
        let error = thread::scope(|scope| {
            let running = scope.spawn(|| capture("ffprobe", shell(&script), &GENEROUS, &aborted));
            while !file.exists() {
                thread::yield_now();
            }
            aborted.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap_err()
        });
        assert!(matches!(error, Error::Aborted), "{error}");
        let pid = std::fs::read_to_string(file).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists());
        let error = capture("no program", Command::new("/nowhere"), &GENEROUS, &aborted).unwrap_err();
        assert!(matches!(error, Error::Aborted), "{error}");
    }

    #[test]
    fn the_rest_of_a_long_line_is_no_line() {
        let text = [&[b'x'; 1024][..], b"[info] n: 0\nnext \xFF\n\n", &[b'y'; 1023], b"\nlast"].concat();
        let mut lines = &text[..];
        let found: Vec<_> = std::iter::from_fn(|| bounded_line(&mut lines).unwrap()).collect();
        assert_eq!(found, ["x".repeat(1024), "next \u{FFFD}".into(), String::new(), "y".repeat(1023), "last".into()]);
    }

    #[test]
    fn a_failure_carries_the_end_of_standard_error() {
        let script = "i=0; while [ $i -lt 2000 ]; do echo noise >&2; i=$((i+1)); done; echo last words >&2; exit 3";
        let error = capture("ffprobe", shell(script), &GENEROUS, &NEVER).unwrap_err();
        let Error::ProgramFailed { status, stderr, .. } = error else { panic!("{error}") };
        assert_eq!(status.code(), Some(3));
        assert!(stderr.ends_with("last words") && stderr.len() <= STDERR_TAIL_BYTES, "{stderr}");
    }
}
