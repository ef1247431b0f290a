//! A whole service on one machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clapboard_jobs::{JobState, Tenant};
use clapboard_testkit::{FaultProxy, Postgres, Redis, S3};
use serde_json::Value;

use super::process::Process;
use super::truth::Truth;
use crate::support::{Body, Reply, clapboard, send, tiny_checkpoint, until, until_not};

/// The servers, the processes and a folder for all that they leave.
///
/// The processes reach S3 through a proxy, so that it can be made to refuse and to hang.
pub(super) struct Cluster {
    pub(super) apis: Vec<Process>,
    pub(super) workers: Vec<Process>,
    pub(super) schedulers: Vec<Process>,
    urls: Vec<String>,
    pub(super) truth: Truth,
    pub(super) s3_path: FaultProxy,
    pub(super) s3: S3,
    pub(super) redis: Redis,
    pub(super) postgres: Postgres,
    started: usize,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts the servers and migrates the database; no process of the service runs yet.
    pub(super) fn servers() -> Self {
        Self::with_redis(Redis::start())
    }

    /// The same with a Redis of the story's own.
    pub(super) fn with_redis(redis: Redis) -> Self {
        let folder = tempfile::tempdir().unwrap();
        tiny_checkpoint(&folder.path().join("checkpoint"));
        let (postgres, s3) = (Postgres::start(), S3::start());
        let s3_path = FaultProxy::start(s3.address());
        let migrated = clapboard().arg("migrate").env("DATABASE_URL", postgres.url()).output().unwrap();
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        let truth = Truth::of(&postgres.url());
        let (apis, workers, schedulers, urls) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { apis, workers, schedulers, urls, truth, s3_path, s3, redis, postgres, started: 0, folder }
    }

    /// Starts one of each.
    pub(super) fn start() -> Self {
        let mut cluster = Self::servers();
        cluster.add_api(&[]);
        cluster.add_scheduler();
        cluster.add_worker(&[]);
        cluster
    }

    /// The command of a process of the service, with all servers in its environment.
    pub(super) fn command(&self, subcommand: &str) -> Command {
        let mut command = clapboard();
        command.arg(subcommand);
        command.env("DATABASE_URL", self.postgres.url()).env("REDIS_URL", self.redis.url());
        command.env("AWS_ACCESS_KEY_ID", self.s3.access_key()).env("AWS_SECRET_ACCESS_KEY", self.s3.secret_key());
        command.env("CLAPBOARD_S3_BUCKET", self.s3.bucket());
        command.env("CLAPBOARD_S3_ENDPOINT", format!("http://{}", self.s3_path.address()));
        command.env("AWS_REGION", "us-east-1").env("CLAPBOARD_S3_PATH_STYLE", "true");
        command
    }

    fn name(&mut self, kind: &str) -> String {
        self.started += 1;
        format!("{kind}-{}", self.started)
    }

    pub(super) fn add_api(&mut self, settings: &[&str]) -> usize {
        let (process, url) = self.spawn_api("127.0.0.1:0", settings);
        self.apis.push(process);
        self.urls.push(url);
        self.apis.len() - 1
    }

    fn spawn_api(&mut self, listen: &str, settings: &[&str]) -> (Process, String) {
        let name = self.name("api");
        let command = self.api_command(listen, settings);
        let mut process = Process::spawn(self.folder.path(), &name, command);
        let url = process.says("clapboard listens on ");
        (process, url)
    }

    /// The command of an API over the tiny checkpoint's configs.
    pub(super) fn api_command(&self, listen: &str, settings: &[&str]) -> Command {
        let mut command = self.command("api");
        // One that is killed leaves what it has below the story's own folder.
        command.env("CLAPBOARD_SPOOL", self.folder.path().join("spool"));
        command.arg("--checkpoint").arg(self.checkpoint()).args(["--listen", listen]).args(settings);
        command
    }

    /// Ends an API and starts another in its place.
    pub(super) fn replace_api(&mut self, which: usize, settings: &[&str]) {
        self.apis[which].kill();
        (self.apis[which], self.urls[which]) = self.spawn_api("127.0.0.1:0", settings);
    }

    pub(super) fn add_scheduler(&mut self) -> usize {
        self.add_scheduler_with(&[])
    }

    /// The same with further settings.
    pub(super) fn add_scheduler_with(&mut self, settings: &[&str]) -> usize {
        let process = self.spawn_scheduler(settings);
        self.schedulers.push(process);
        self.schedulers.len() - 1
    }

    fn spawn_scheduler(&mut self, settings: &[&str]) -> Process {
        let name = self.name("scheduler");
        let mut command = self.command("scheduler");
        command.args(["--refill-interval", "500ms", "--reaper-interval", "500ms", "--garbage-interval", "500ms"]);
        command.args(["--orphan-interval", "1s", "--orphan-age", "0s"]);
        command.args(["--allow-http-webhook-host", "127.0.0.1"]).args(settings);
        Process::spawn(self.folder.path(), &name, command)
    }

    pub(super) fn replace_scheduler(&mut self, which: usize) {
        self.schedulers[which].kill();
        self.schedulers[which] = self.spawn_scheduler(&[]);
    }

    /// Starts a worker with a short lease.
    pub(super) fn add_worker(&mut self, settings: &[&str]) -> usize {
        let scratch = self.scratch_of(self.workers.len());
        let process = self.spawn_worker(&scratch, settings);
        self.workers.push(process);
        self.workers.len() - 1
    }

    fn scratch_of(&self, worker: usize) -> PathBuf {
        self.folder.path().join(format!("scratch-{worker}"))
    }

    fn spawn_worker(&mut self, scratch: &Path, settings: &[&str]) -> Process {
        let name = self.name("worker");
        let command = self.worker_command(scratch, settings);
        Process::spawn(self.folder.path(), &name, command)
    }

    /// The command of a worker whose leases last three seconds.
    pub(super) fn worker_command(&self, scratch: &Path, settings: &[&str]) -> Command {
        let mut command = self.command("worker");
        command.arg("--checkpoint").arg(self.checkpoint()).arg("--scratch").arg(scratch);
        command.args(settings);
        // What the settings say goes before the environment.
        command.env("CLAPBOARD_PARTITION", "fl2va");
        command.env("CLAPBOARD_LEASE", "3s").env("CLAPBOARD_BEAT_INTERVAL", "200ms");
        command.env("CLAPBOARD_FENCE_MARGIN", "1s").env("CLAPBOARD_POLL_INTERVAL", "500ms");
        command.env("CLAPBOARD_CHECKPOINT_INTERVAL", "100ms");
        command
    }

    /// Starts a worker in the place of another one, which is killed if it still lives, over the same scratch folder.
    pub(super) fn replace_worker(&mut self, which: usize, settings: &[&str]) {
        self.workers[which].kill();
        let scratch = self.scratch_of(which);
        self.workers[which] = self.spawn_worker(&scratch, settings);
    }

    /// Starts a worker whose wall clock is off by `skew`, such as `+1d`.
    pub(super) fn add_skewed_worker(&mut self, skew: &str) {
        let scratch = self.folder.path().join("scratch-skewed");
        let honest = self.worker_command(&scratch, &[]);
        // It sets the clock and becomes the program that follows.
        let mut command = Command::new("faketime");
        command.args(["-f", skew]).arg(honest.get_program()).args(honest.get_args());
        command.env_clear().env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.envs(honest.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let name = self.name("skewed-worker");
        let process = Process::spawn(self.folder.path(), &name, command);
        self.workers.push(process);
    }

    /// The file that a job makes when nothing interrupts it, by `clapboard generate`.
    pub(super) fn generated(&self, job: &Value) -> Vec<u8> {
        self.generated_from(job, &[])
    }

    /// The same for a job with inputs, which `options` name.
    pub(super) fn generated_from(&self, job: &Value, options: &[&str]) -> Vec<u8> {
        let file = self.folder.path().join("generated.mp4");
        let text = |name: &str| job[name].as_str().map_or_else(|| job[name].to_string(), str::to_owned);
        let mut command = clapboard();
        command.arg("generate").arg("--checkpoint").arg(self.checkpoint());
        command.args(["--prompt", &text("prompt"), "--size", &text("size"), "--num-frames", &text("num_frames")]);
        command.args(["--steps", &text("num_inference_steps"), "--seed", &text("seed"), "--force"]);
        let output = command.args(options).arg("--output").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(file).unwrap()
    }

    /// How often any process has logged a line that holds `text`.
    pub(super) fn times_logged(&self, text: &str) -> usize {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.map(|path| std::fs::read_to_string(path).unwrap().matches(text).count()).sum()
    }

    /// Does nothing until then.
    pub(super) fn rest_until(&self, then: Instant) {
        until("some time to pass", || (Instant::now() >= then).then_some(()));
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn checkpoint(&self) -> PathBuf {
        self.folder.path().join("checkpoint")
    }

    /// Sends a request to one of the APIs; none when it does not answer.
    pub(super) fn request(
        &self,
        api: usize,
        method: &str,
        path: &str,
        headers: &[&str],
        body: Body<'_>,
    ) -> Option<Reply> {
        send(method, &format!("{}{path}", self.urls[api]), headers, body)
    }

    /// Asks the first API for a video, which has to be accepted.
    pub(super) fn create(&self, job: &Value) -> String {
        let reply = self.request(0, "POST", "/v1/videos", &[], Body::Json(job)).expect("the API answers");
        assert_eq!(reply.status, 200, "{}", reply.json());
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Looks at a video; while the database is away, and for a moment after it, the answer is to ask again later.
    pub(super) fn video(&self, id: &str) -> Value {
        let reply = until("an API that reaches the database", || {
            let path = format!("/v1/videos/{id}");
            let reply = self.request(0, "GET", &path, &[], Body::Nothing).expect("the API answers");
            (reply.status != 503 || reply.header("retry-after").is_none()).then_some(reply)
        });
        assert_eq!(reply.status, 200, "{}", reply.json());
        reply.json()
    }

    pub(super) fn completed(&self, id: &str) -> Value {
        until("the video", || {
            let video = self.video(id);
            assert_ne!(video["status"], "failed", "{video}");
            (video["status"] == "completed").then_some(video)
        })
    }

    pub(super) fn download(&self, id: &str) -> Vec<u8> {
        let path = format!("/v1/videos/{id}/content");
        let reply = self.request(0, "GET", &path, &[], Body::Nothing).expect("the API answers");
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("video/mp4")));
        reply.body
    }

    /// Waits until a job is being denoised and has a stored state to go on from.
    pub(super) fn checkpointed(&self, id: &str) -> u32 {
        until("a stored state in the middle of denoising", || {
            let job = self.truth.job(&Tenant::default(), id);
            assert!(!job.state.is_final(), "too late: {job:?}");
            let step = job.checkpoint?.step;
            (job.state == JobState::Running).then_some(step)
        })
    }

    /// Waits until exactly these objects are in the bucket.
    pub(super) fn objects_become(&self, expected: &BTreeSet<String>) {
        until_not("the bucket to hold what the rows name and nothing else", || {
            let present: BTreeSet<String> = self.s3.keys().into_iter().collect();
            if present == *expected {
                return Ok(());
            }
            let nameless: Vec<String> = present.difference(expected).cloned().collect();
            let missing: Vec<String> = expected.difference(&present).cloned().collect();
            Err(format!("nameless {nameless:?}, missing {missing:?}"))
        });
    }
}
