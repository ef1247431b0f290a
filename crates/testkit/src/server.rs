//! One server process with its folder, its log and its watchdog.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::process::{self, User};
use crate::until;
use crate::watchdog::Watchdog;

/// How many lines of its log a server that did not start is shown with.
const LOG_LINES: usize = 20;

/// A server that can be started, ended and started again over the same data.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    user: Option<User>,
    running: Option<Child>,
    watchdog: Watchdog,
}

impl Server {
    /// Makes the folder of a server that runs as `user` and is ended by `signal` when its test is gone.
    pub(crate) fn new(name: &'static str, signal: &str, user: Option<User>) -> Self {
        let server = Self { name, user, running: None, watchdog: Watchdog::over_new_folder(signal) };
        if let Some(user) = user {
            for folder in [server.watchdog.folder(), &server.data()] {
                chown(folder, Some(user.uid), Some(user.gid)).expect("root may give a folder away");
            }
        }
        server
    }

    /// Returns the folder of the server's data.
    pub(crate) fn data(&self) -> PathBuf {
        self.watchdog.folder().join("data")
    }

    /// Returns the number of the process, while there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Child::id)
    }

    /// Starts the process and waits until `ready`.
    pub(crate) fn run(&mut self, program: &Path, arguments: &[OsString], mut ready: impl FnMut(u32) -> bool) {
        assert!(self.running.is_none(), "{} runs already", self.name);
        let log = self.log();
        let to_log = File::options().create(true).append(true).open(&log).expect("a log can be made in our folder");
        // The shell becomes the server only once the watchdog knows its number: a test that is killed in between leaves
        // a shell that reads the end of its input and goes.
        let mut command = Command::new("sh");
        command
            .args(["-c", "read -r _ && exec \"$@\" </dev/null", "sh"])
            .arg(program)
            .args(arguments)
            .current_dir(self.data())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(to_log.try_clone().expect("a descriptor can be doubled"))
            .stderr(to_log);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        let mut child = command.spawn().expect("a shell can be started");
        let pid = child.id();
        self.watchdog.watch(pid);
        let mut gate = child.stdin.take().expect("its input is a pipe");
        std::io::Write::write_all(&mut gate, b"go\n").expect("the shell reads its input");
        drop(gate);
        self.running = Some(child);
        until(&format!("{} to be ready", self.name), || {
            if self.has_exited() {
                panic!("{} did not start:\n{}", self.name, self.log_end());
            }
            ready(pid).then_some(())
        });
    }

    /// Sends a signal and waits until the process has ended.
    pub(crate) fn end(&mut self, signal: Signal) {
        let Some(mut child) = self.running.take() else { return };
        process::signal(child.id().cast_signed(), signal);
        until(&format!("the end of {}", self.name), || child.try_wait().expect("our own child can be asked"));
    }

    fn has_exited(&mut self) -> bool {
        self.running.as_mut().is_none_or(|child| child.try_wait().expect("our own child can be asked").is_some())
    }

    fn log(&self) -> PathBuf {
        self.watchdog.folder().join("log")
    }

    fn log_end(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}
