//! Everything at once: many jobs, many processes, and faults by chance.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use clapboard_jobs::{ApiKey, AttemptEnd, DeliveryState, JobState, KeyHash, Notice, Phase, Tenant};
use clapboard_testkit::Mode;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::cluster::Cluster;
use super::events::Events;
use super::rng::Rng;
use crate::support::{Body, Media, Receiver, Reply, until};

const JOBS: usize = 30;
const FAULTS: usize = 24;
const TENANTS: [&str; 3] = ["ada", "bela", "cora"];

/// The seed of the day; another one is given by the environment, to try more or to repeat a failure.
#[expect(clippy::disallowed_methods, reason = "a setting of the test itself")]
fn seed() -> u64 {
    match std::env::var("CLAPBOARD_CHAOS_SEED") {
        Ok(text) => text.parse().expect("CLAPBOARD_CHAOS_SEED is a whole number"),
        Err(_) => 20_261_130,
    }
}

/// A job that was accepted.
struct Accepted {
    tenant: Tenant,
    id: String,
    kind: usize,
    cancelled: bool,
}

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillWorker,
    KillWorkerBetweenBlocks,
    FreezeWorker,
    DrainWorker,
    KillApi,
    KillScheduler,
    RestartPostgres,
    RestartRedis,
    FlushRedis,
    RefuseObjects,
    HangObjects,
    Cancel,
}

const KINDS_OF_FAULT: [Fault; 12] = [
    Fault::KillWorker,
    Fault::KillWorkerBetweenBlocks,
    Fault::FreezeWorker,
    Fault::DrainWorker,
    Fault::KillApi,
    Fault::KillScheduler,
    Fault::RestartPostgres,
    Fault::RestartRedis,
    Fault::FlushRedis,
    Fault::RefuseObjects,
    Fault::HangObjects,
    Fault::Cancel,
];

/// The videos that are asked for; few, so that each result can be compared with one made without faults. The last one
/// starts from a picture.
const KINDS: usize = 3;

fn request(kind: usize, picture: &str) -> Value {
    let mut request = json!({
        "prompt": "A clapperboard falls shut",
        "size": "96x64",
        "num_frames": 22,
        "num_inference_steps": 30,
        "seed": 100 + kind,
    });
    if kind == KINDS - 1 {
        request["image_reference"] = json!({ "image_url": picture });
    }
    request
}

fn key(tenant: &str) -> String {
    format!("key-of-{tenant}")
}

struct Story {
    cluster: Cluster,
    events: Events,
    rng: Rng,
    jobs: Vec<Accepted>,
    /// The picture, as a URL.
    picture: String,
    killed_between_blocks: usize,
    api_settings: [&'static str; 6],
    worker_settings: [&'static str; 2],
}

impl Story {
    /// Sends a request as a tenant to whichever API answers.
    fn send(&self, tenant: &str, method: &str, path: &str, body: Body<'_>) -> Reply {
        let authorization = format!("authorization: Bearer {}", key(tenant));
        until("an API to answer", || {
            (0..self.cluster.apis.len()).find_map(|api| {
                let reply = self.cluster.request(api, method, path, &[&authorization], body)?;
                (reply.status < 500).then_some(reply)
            })
        })
    }

    fn create(&mut self) {
        let (tenant, kind) = (*self.rng.pick(&TENANTS), self.rng.below(KINDS));
        // Not repeated on a lost answer: only what was accepted counts.
        let api = self.rng.below(self.cluster.apis.len());
        let authorization = format!("authorization: Bearer {}", key(tenant));
        let request = request(kind, &self.picture);
        let reply = self.cluster.request(api, "POST", "/v1/videos", &[&authorization], Body::Json(&request));
        match reply {
            Some(reply) if reply.status == 200 => {
                let id = reply.json()["id"].as_str().unwrap().to_owned();
                self.events.note(&format!("{tenant} was given {id}, kind {kind}"));
                self.jobs.push(Accepted { tenant: tenant.parse().unwrap(), id, kind, cancelled: false });
            }
            Some(reply) => self.events.note(&format!("{tenant} was refused: {}", reply.status)),
            None => self.events.note(&format!("{tenant} got no answer")),
        }
    }

    /// Lets the service go on for a while, and wakes it up with a new job in between.
    fn let_run(&mut self, time: Duration) {
        let until = Instant::now() + time;
        if self.jobs.len() < JOBS {
            self.create();
        }
        self.cluster.rest_until(until);
    }

    fn fault(&mut self, fault: Fault) {
        self.events.note(&format!("{fault:?}"));
        let worker = self.rng.below(self.cluster.workers.len());
        match fault {
            Fault::KillWorker => self.cluster.replace_worker(worker, &self.worker_settings),
            Fault::KillWorkerBetweenBlocks => {
                let found = self.denoising_worker();
                self.events.note(&format!("denoising is worker {found:?}"));
                self.killed_between_blocks += usize::from(found.is_some());
                self.cluster.replace_worker(found.unwrap_or(worker), &self.worker_settings);
            }
            Fault::FreezeWorker => {
                self.cluster.workers[worker].freeze();
                self.let_run(Duration::from_millis(5_500));
                self.cluster.workers[worker].thaw();
            }
            Fault::DrainWorker => {
                self.cluster.workers[worker].terminate();
                let status = self.cluster.workers[worker].wait();
                self.events.note(&format!("drained: {status}"));
                self.cluster.replace_worker(worker, &self.worker_settings);
            }
            Fault::KillApi => {
                let api = self.rng.below(self.cluster.apis.len());
                self.cluster.replace_api(api, &self.api_settings);
            }
            Fault::KillScheduler => {
                let scheduler = self.rng.below(self.cluster.schedulers.len());
                self.cluster.replace_scheduler(scheduler);
            }
            Fault::RestartPostgres => {
                self.cluster.postgres.kill();
                self.let_run(Duration::from_millis(800));
                self.cluster.postgres.start_again();
            }
            Fault::RestartRedis => {
                self.cluster.redis.kill();
                self.let_run(Duration::from_millis(800));
                self.cluster.redis.start_again();
            }
            Fault::FlushRedis => self.cluster.redis.flush(),
            Fault::RefuseObjects | Fault::HangObjects => {
                let mode = if fault == Fault::HangObjects { Mode::Hang } else { Mode::Refuse };
                self.cluster.s3_path.set(mode);
                self.let_run(Duration::from_secs(2));
                self.cluster.s3_path.set(Mode::Pass);
            }
            Fault::Cancel => self.cancel(),
        }
        // A worker that fenced itself with a wedged upload, or was told to go, has a supervisor that starts another.
        for worker in 0..self.cluster.workers.len() {
            if self.cluster.workers[worker].has_ended() {
                self.events.note(&format!("worker {worker} had ended by itself"));
                self.cluster.replace_worker(worker, &self.worker_settings);
            }
        }
    }

    /// Which worker is between two blocks of the transformer now.
    fn denoising_worker(&self) -> Option<usize> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            for job in &self.jobs {
                let row = self.cluster.truth.ask(async |store| store.get(&job.tenant, job.id.parse().unwrap()).await);
                let Some(row) = row.flatten() else { continue };
                if row.state == JobState::Running && row.progress.phase == Phase::Denoise && row.progress.step > 0 {
                    let id = row.worker.expect("a running job has a worker").to_string();
                    return self.cluster.workers.iter().position(|worker| worker.log().contains(&id));
                }
            }
        }
        None
    }

    fn cancel(&mut self) {
        let which = self.rng.below(self.jobs.len());
        let (tenant, id) = (self.jobs[which].tenant.clone(), self.jobs[which].id.clone());
        let output = self.cluster.command("jobs").args(["cancel", &id, "--tenant", tenant.as_str()]).output().unwrap();
        self.events.note(&format!("cancel of {id}: {}", output.status));
        self.jobs[which].cancelled |= output.status.success();
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_done_twice() {
    let seed = seed();
    let events = Events::begin(&format!("CLAPBOARD_CHAOS_SEED={seed}"));
    let mut cluster = Cluster::servers();
    let receiver = Receiver::start();
    for tenant in TENANTS {
        let (name, hash) = (tenant.parse::<Tenant>().unwrap(), KeyHash(Sha256::digest(key(tenant)).into()));
        cluster.truth.must(async |store| store.add_key(&hash, &ApiKey::new(name.clone(), "chaos")).await);
        cluster.truth.add_endpoint(&name, &receiver.url("/one"));
        cluster.truth.add_endpoint(&name, &receiver.url("/two"));
    }
    let media = Media::new();
    let first_frame = media.picture("first.png", "96x64").display().to_string();
    let picture = media.data_url("first.png", "image/png");
    let made = |kind| {
        let options: &[&str] = if kind == KINDS - 1 { &["--first-frame", &first_frame] } else { &[] };
        cluster.generated_from(&request(kind, &picture), options)
    };
    let expected: Vec<Vec<u8>> = (0..KINDS).map(made).collect();
    let api_settings = ["--auth", "keys", "--max-attempts", "50", "--input-grace", "20s"];
    let worker_settings = ["--upload-deadline", "60s"];
    for _ in 0..2 {
        cluster.add_api(&api_settings);
        cluster.add_scheduler();
    }
    for _ in 0..3 {
        cluster.add_worker(&worker_settings);
    }
    let (rng, jobs) = (Rng::new(seed), Vec::new());
    let mut story =
        Story { cluster, events, rng, jobs, picture, killed_between_blocks: 0, api_settings, worker_settings };
    while story.jobs.len() < 6 {
        story.create();
    }
    // Each kind at least once, in an order of chance, then any.
    let mut faults = KINDS_OF_FAULT.to_vec();
    for last in (1..faults.len()).rev() {
        let other = story.rng.below(last + 1);
        faults.swap(last, other);
    }
    while faults.len() < FAULTS {
        faults.push(*story.rng.pick(&KINDS_OF_FAULT));
    }
    for fault in faults {
        story.fault(fault);
        let pause = Duration::from_millis(200 + story.rng.next() % 1_500);
        story.let_run(pause);
    }
    while story.jobs.len() < JOBS {
        story.create();
    }
    story.events.note("no more faults");
    check(&story, &receiver, &expected);
}

/// Waits for the end of every job and compares all that is left with what was promised.
fn check(story: &Story, receiver: &Receiver, expected: &[Vec<u8>]) {
    let cluster = &story.cluster;
    let mut ends: HashMap<JobState, usize> = HashMap::new();
    let mut resumed = 0;
    let mut told = BTreeSet::new();
    for job in &story.jobs {
        let row = until(&format!("the end of {}", job.id), || {
            let row = cluster.truth.job(&job.tenant, &job.id);
            row.state.is_final().then_some(row)
        });
        *ends.entry(row.state).or_default() += 1;
        let attempts = cluster.truth.attempts(&job.tenant, &job.id);
        let completions =
            attempts.iter().filter(|attempt| attempt.ended.is_some_and(|(_, end)| end == AttemptEnd::Completed));
        let completions = completions.count();
        let allowed: &[JobState] =
            if job.cancelled { &[JobState::Completed, JobState::Cancelled] } else { &[JobState::Completed] };
        assert!(allowed.contains(&row.state), "{row:?}\n{attempts:?}");
        assert_eq!(completions, usize::from(row.state == JobState::Completed), "{attempts:?}");
        assert!(attempts.iter().all(|attempt| attempt.ended.is_some()), "{attempts:?}");
        assert!(attempts.windows(2).all(|pair| pair[0].fence < pair[1].fence), "{attempts:?}");
        let notice = Notice::of(row.state).expect("the job has ended");
        let deliveries = until(&format!("the webhooks about {} to be delivered", job.id), || {
            let deliveries = cluster.truth.deliveries(&job.tenant, &job.id);
            let all_are_there = deliveries.iter().all(|delivery| delivery.state == DeliveryState::Delivered);
            all_are_there.then_some(deliveries)
        });
        assert_eq!(deliveries.len(), 2, "one for each endpoint: {deliveries:?}");
        told.extend(deliveries.iter().map(|delivery| delivery.id.to_string()));
        assert!(deliveries.iter().all(|delivery| delivery.notice == notice));
        assert_ne!(deliveries[0].receiver, deliveries[1].receiver);
        if row.state == JobState::Completed {
            let path = format!("/v1/videos/{}/content", job.id);
            let reply = story.send(job.tenant.as_str(), "GET", &path, Body::Nothing);
            assert_eq!(reply.status, 200);
            assert!(reply.body == expected[job.kind], "{} after {} attempts is another video", job.id, attempts.len());
            resumed += usize::from(attempts.len() > 1);
        }
    }
    let heard = ["/one", "/two"].into_iter().flat_map(|path| receiver.heard(path));
    let heard: BTreeSet<String> = heard.map(|heard| heard.header("webhook-id").to_owned()).collect();
    assert_eq!(heard, told, "somebody heard of what is not to be told, or not of what is");
    story.events.note(&format!("{ends:?}, {resumed} of them after more than one attempt"));
    assert!(resumed > 0, "no completed job was ever interrupted: the faults did nothing");
    assert!(story.killed_between_blocks > 0, "no worker was ever killed between two blocks");
    let went_on = cluster.times_logged("going on from a stored state");
    story.events.note(&format!("{went_on} attempts went on from a stored state"));
    assert!(went_on > 0, "no attempt ever went on from a stored state");
    let jobs: Vec<(Tenant, String)> = story.jobs.iter().map(|job| (job.tenant.clone(), job.id.clone())).collect();
    cluster.objects_become(&cluster.truth.named_keys(&jobs));
}
