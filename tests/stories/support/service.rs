//! A running `clapboard serve`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::http::{self, Body, Reply};
use super::{tiny_checkpoint, until};

/// The binary under test, without any setting from the environment of whoever runs the tests.
pub(crate) fn clapboard() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clapboard"));
    command.env_clear().env("PATH", path());
    command
}

#[expect(clippy::disallowed_methods, reason = "ffmpeg is found on the PATH of whoever runs the tests")]
fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// A service over a tiny checkpoint and a data directory of its own, killed when dropped.
pub(crate) struct Service {
    folder: tempfile::TempDir,
    child: Child,
    url: String,
    settings: &'static [&'static str],
}

impl Service {
    /// Starts a service and waits until it takes work.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further settings, which a restart keeps.
    pub(crate) fn start_with(settings: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        tiny_checkpoint(&folder.path().join("checkpoint"));
        let (child, url) = spawn(folder.path(), settings);
        Self { folder, child, url, settings }
    }

    /// Starts it again over the same data.
    pub(crate) fn restart(&mut self) {
        assert!(self.child.try_wait().unwrap().is_some(), "the last process still runs");
        (self.child, self.url) = spawn(self.folder.path(), self.settings);
    }

    /// Ends the process as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the process to end, as a supervisor does.
    pub(crate) fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until("the process to end", || self.child.try_wait().unwrap())
    }

    /// Where it answers.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its checkpoint.
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.folder.path().join("checkpoint")
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Sends a request with headers.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[&str], body: Body<'_>) -> Reply {
        let reply = http::send(method, &format!("{}{path}", self.url), headers, body);
        reply.unwrap_or_else(|| panic!("{method} {path} got no answer; the service's log:\n{}", self.log()))
    }

    /// Fetches something.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], Body::Nothing)
    }

    /// Asks for a video.
    pub(crate) fn post(&self, body: Body<'_>) -> Reply {
        self.request("POST", "/v1/videos", &[], body)
    }

    /// Asks for a video that has to be accepted, and returns its id.
    pub(crate) fn create(&self, job: &Value) -> String {
        let reply = self.post(Body::Json(job));
        let video = reply.json();
        assert_eq!((reply.status, video["status"].as_str()), (200, Some("queued")), "{video}");
        video["id"].as_str().unwrap().to_owned()
    }

    /// Looks at a video.
    pub(crate) fn video(&self, id: &str) -> Value {
        let reply = self.get(&format!("/v1/videos/{id}"));
        assert_eq!(reply.status, 200, "{}", reply.json());
        reply.json()
    }

    /// Waits until a video has a file, and returns it.
    pub(crate) fn completed(&self, id: &str) -> Value {
        until("the video", || {
            let video = self.video(id);
            assert_ne!(video["status"], "failed", "{video}\n{}", self.log());
            (video["status"] == "completed").then_some(video)
        })
    }

    /// Waits until a video is being made and has come some way, but not far.
    pub(crate) fn in_its_middle(&self, id: &str) -> Value {
        until("the middle of the job", || {
            let video = self.video(id);
            assert!(video["status"] == "queued" || video["status"] == "in_progress", "too late: {video}");
            (video["progress"].as_u64().unwrap() >= 4).then_some(video)
        })
    }

    /// Downloads a video.
    pub(crate) fn download(&self, id: &str) -> Vec<u8> {
        let reply = self.get(&format!("/v1/videos/{id}/content"));
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("video/mp4")));
        reply.body
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, settings: &[&str]) -> (Child, String) {
    let (address, log) = (folder.join("address"), folder.join("log"));
    let mut command = clapboard();
    command.arg("serve").arg("--checkpoint").arg(folder.join("checkpoint")).arg("--data").arg(folder.join("data"));
    command.args(["--listen", "127.0.0.1:0", "--beat-interval", "50ms", "--garbage-interval", "200ms"]);
    command.args(settings);
    command.stdout(File::create(&address).unwrap());
    command.stderr(File::options().create(true).append(true).open(&log).unwrap()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let url = until("the service to be ready", || {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the service ended ({status}):\n{}", fs::read_to_string(&log).unwrap());
        }
        let text = fs::read_to_string(&address).unwrap();
        let url = text.strip_prefix("clapboard listens on ")?.strip_suffix('\n')?;
        let ready = http::send("GET", &format!("{url}/ready"), &[], Body::Nothing)?;
        (ready.status == 200).then(|| url.to_owned())
    });
    (child, url)
}
