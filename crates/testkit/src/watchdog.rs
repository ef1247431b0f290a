//! What ends a server when its test is gone.
//!
//! A destructor does not run in a test that is killed, and a parent-death signal is bound to the thread that spawned
//! the server, not to the process. So a shell waits at the other end of a pipe: the kernel closes the pipe with the
//! test's process, however that ends, and the shell then ends the server and removes its folder. It runs in a process
//! group of its own, so that a signal to the test's whole group (an interrupt from the terminal, a runner's time-out)
//! does not take it along. A destructor only closes the pipe as well: there is one way down, taken by every test.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::statvfs;

/// Ends the process whose number came last, unless that is no longer ours: the server's working directory tells.
/// `$1` is the folder, `$2` the signal that ends the server in order. A server that was killed may have left its
/// System V segment behind; its id stands in the seventh line of Postgres's pid file.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
folder=$1
signal=$2
pid=
while read -r next; do pid=$next; done
ours() { [ -n "$pid" ] && [ "/proc/$pid/cwd" -ef "$folder/data" ]; }
if ours; then
    kill -s "$signal" "$pid"
    kill -s CONT "$pid"
    looks=0
    while ours && [ "$looks" -lt 500 ]; do
        sleep 0.01
        looks=$((looks + 1))
    done
    if ours; then
        kill -s KILL "$pid"
    fi
fi
if [ -f "$folder/data/postmaster.pid" ]; then
    segment=$(sed -n '7s/.* //p' "$folder/data/postmaster.pid")
    [ -n "$segment" ] && ipcrm -m "$segment"
fi
tries=0
until rm -rf "$folder" || [ "$tries" -ge 100 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
"#;

/// How much room a folder in memory must have to be used.
const ROOM_BYTES: u64 = 1 << 30;

/// A folder that is gone when this is dropped or its process ends, after the server that works in it.
#[derive(Debug)]
pub(crate) struct Watchdog {
    folder: PathBuf,
    shell: Child,
}

impl Watchdog {
    /// Makes an empty folder with a folder `data` in it, in memory where there is room, and watches over it.
    pub(crate) fn over_new_folder(signal: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let has_room = statvfs(memory).is_ok_and(|stat| stat.f_bavail * stat.f_frsize >= ROOM_BYTES);
        let base = if has_room { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("clapboard-testkit-").tempdir_in(&base);
        let folder =
            folder.unwrap_or_else(|error| panic!("no folder can be made in {}: {error}", base.display())).keep();
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "clapboard-testkit-watchdog"])
            .arg(&folder)
            .arg(signal)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell can be started");
        std::fs::create_dir(folder.join("data")).expect("a folder can be made in a new folder");
        Self { folder, shell }
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names the process to end, which must work in the folder `data`; it replaces the one named before.
    pub(crate) fn watch(&mut self, pid: u32) {
        let pipe = self.shell.stdin.as_mut().expect("the pipe is open until this is dropped");
        writeln!(pipe, "{pid}").expect("the watchdog is still there");
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
