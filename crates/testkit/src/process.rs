//! Processes as `/proc` shows them, and the users they run as.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// An unprivileged user, for servers that refuse to run as root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// Returns whom a server must run as, where that is somebody else than this process: `postgres`, else `nobody`, for
    /// root.
    pub(crate) fn instead_of_root() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let passwd = fs::read_to_string("/etc/passwd").expect("/etc/passwd can be read");
        let of = |name: &str| {
            let mut fields =
                passwd.lines().map(|line| line.split(':')).find(|fields| fields.clone().next() == Some(name))?;
            let uid = fields.nth(2)?.parse().ok()?;
            Some(Self { uid, gid: fields.next()?.parse().ok()? })
        };
        let user = of("postgres").or_else(|| of("nobody"));
        Some(user.expect("there is a user postgres or nobody, because Postgres refuses to run as root"))
    }
}

/// Makes the command run as the user, where there is one, with nothing to read and nowhere to write.
pub(crate) fn quiet_as(command: &mut Command, user: Option<User>) -> &mut Command {
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    // The present folder may be one that the user cannot enter.
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// One line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    pid: i32,
    ended: bool,
    parent: i32,
}

fn entry(pid: i32) -> Option<Entry> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may itself hold spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    Some(Entry { pid, ended, parent: fields.next()?.parse().ok()? })
}

/// Returns whether the process runs; one that has ended and waits for its parent to notice does not.
pub(crate) fn runs(pid: i32) -> bool {
    entry(pid).is_some_and(|entry| !entry.ended)
}

/// Returns the processes whose parent this is.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    let table = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = table.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(entry).filter(|entry| entry.parent == parent && !entry.ended).map(|entry| entry.pid).collect()
}

/// Sends a signal; a process that is gone already is not an error.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Finds a program on the `PATH` or in one of the folders.
pub(crate) fn find_program(name: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the search path is no setting of ours, and tests have no flags")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(folders).map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_seen_while_it_runs() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        assert!(runs(pid));
        assert!(children(std::process::id().cast_signed()).contains(&pid));
        child.kill().unwrap();
        crate::until("the end of a killed process", || (!runs(pid)).then_some(()));
        child.wait().unwrap();
        assert!(!runs(pid));
    }

    #[test]
    fn a_program_that_is_not_installed_is_not_found() {
        assert!(find_program("sh", []).is_some());
        assert_eq!(find_program("no-such-program", [PathBuf::from("/")]), None);
    }
}
