//! One process of the service.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::until;

/// A process that is killed when it is dropped. Its log goes to a file, which is shown when the test fails.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    output: PathBuf,
}

impl Process {
    pub(super) fn spawn(folder: &Path, name: &str, mut command: Command) -> Self {
        let (log, output) = (folder.join(format!("{name}.log")), folder.join(format!("{name}.out")));
        command.stdin(Stdio::null()).stdout(File::create(&output).unwrap());
        command.stderr(File::options().create(true).append(true).open(&log).unwrap());
        // A group of its own, since the program that sets the clock stays beside the one that it starts.
        let child = command.process_group(0).spawn().unwrap();
        Self { name: name.to_owned(), child, log, output }
    }

    /// The rest of the line on standard output that begins with `prefix`, once it is there.
    pub(super) fn says(&mut self, prefix: &str) -> String {
        let what = format!("{} to say {prefix:?}", self.name);
        until(&what, || {
            self.must_live();
            let text = fs::read_to_string(&self.output).unwrap();
            let line = text.split_inclusive('\n').find_map(|line| line.strip_prefix(prefix)?.strip_suffix('\n'))?;
            Some(line.to_owned())
        })
    }

    /// Waits for a line of the log that holds `text`.
    pub(super) fn logs(&mut self, text: &str) {
        let what = format!("{} to log {text:?}", self.name);
        until(&what, || {
            self.must_live();
            self.log().contains(text).then_some(())
        });
    }

    fn must_live(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{} ended ({status}):\n{}", self.name, self.log());
        }
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(super) fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.child.wait().unwrap();
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops it as a machine that has lost its network and its time does: it does nothing, and knows nothing of that.
    pub(super) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(super) fn wait(&mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        until(&what, || self.child.try_wait().unwrap())
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "what a failed test has to tell")]
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(4_000);
            let tail = log.get(from..).unwrap_or(&log);
            eprintln!("--- the end of {}'s log\n{tail}", self.name);
        }
    }
}
