//! A test that is killed leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clapboard_testkit::{Postgres, Redis, S3, until};
use rustix::process::{Pid, Signal, kill_process_group};

const SHOWN: &str = "folders of the servers:";

/// Not a test: the program that the tests below kill. Run by itself it ends with its input.
#[test]
#[ignore = "it is run by the tests of this file"]
fn holds_servers() {
    let _held = (Postgres::start(), Redis::start(), S3::start());
    let own = std::process::id().to_string();
    let mut folders: Vec<String> = servers_of(&own).into_iter().map(|folder| folder.display().to_string()).collect();
    folders.push(_held.2.root().display().to_string());
    writeln!(stdout(), "\n{SHOWN}{}", folders.join(",")).unwrap();
    stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Returns the working folders of the children of a process that are servers.
fn servers_of(parent: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let is_child =
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_ascii_whitespace().nth(1) == Some(parent));
        if let (true, Ok(folder)) = (is_child, fs::read_link(process.path().join("cwd")))
            && folder.ends_with("data")
        {
            folders.push(folder);
        }
    }
    folders
}

/// Returns whether any process works in the folder.
fn is_worked_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|process| process.path().join("cwd"))
        .any(|cwd| fs::read_link(cwd).is_ok_and(|cwd| cwd.starts_with(folder)))
}

/// Starts the program; its output must stay open, or it fails as it ends.
fn start() -> (Child, Vec<PathBuf>, impl BufRead) {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_servers", "--ignored", "--nocapture"])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(holder.stdout.take().unwrap());
    let lines = output.by_ref().lines();
    let shown = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix(SHOWN)?.to_owned()));
    let folders: Vec<PathBuf> = shown.unwrap().split(',').map(PathBuf::from).collect();
    assert_eq!(folders.len(), 3, "{folders:?}");
    assert!(folders[..2].iter().all(|folder| is_worked_in(folder)));
    (holder, folders, output)
}

fn everything_goes(folders: &[PathBuf]) {
    for folder in folders {
        until("the end of a server of a killed test", || (!is_worked_in(folder)).then_some(()));
        until("the end of a folder of a killed test", || (!folder.parent()?.exists()).then_some(()));
    }
}

#[test]
fn a_killed_test_leaves_nothing() {
    let (mut holder, folders, _output) = start();
    holder.kill().unwrap();
    holder.wait().unwrap();
    everything_goes(&folders);
}

#[test]
fn a_process_group_that_is_killed_leaves_nothing() {
    let (mut holder, folders, _output) = start();
    let group = Pid::from_raw(holder.id().cast_signed()).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    holder.wait().unwrap();
    everything_goes(&folders);
}

#[test]
fn a_test_that_ends_leaves_nothing() {
    let (mut holder, folders, _output) = start();
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    everything_goes(&folders);
}
