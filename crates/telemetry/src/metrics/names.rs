//! Every metric.

use crate::metrics::kinds::{Counter, Gauge, Histogram, Label, Process, Row};

/// Bounds for what takes as long as a video: 5 s to 30 min.
const MINUTES: &[f64] = &[5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 300.0, 450.0, 600.0, 900.0, 1200.0, 1800.0];
/// Bounds for what takes from a blink to a coffee: a phase, an upload, the load of a model.
const PARTS: &[f64] =
    &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0];
/// Bounds for how long a job waits: at once to a day.
const WAITS: &[f64] =
    &[0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10800.0, 43200.0, 86400.0];
/// Bounds for a request, which may carry hundreds of megabytes or wait for a whole video.
const REQUESTS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
/// Bounds for one step of denoising.
const STEPS: &[f64] = &[0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0];
/// Bounds for what should take seconds at most.
const SECONDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0];

const PARTITION: Label = Label { name: "partition", values: &["fl2va", "ref2va"] };
const STATE: Label = Label { name: "state", values: &["queued", "running"] };
const OUTCOME: Label = Label { name: "outcome", values: &["completed", "failed", "cancelled"] };
/// The error code of the job; `none` for one that was completed.
const REASON: Label = Label { name: "reason", values: &[] };
const PHASE: Label = Label {
    name: "phase",
    values: &["prepare", "text_encode", "encode_inputs", "denoise", "decode_audio", "decode_video", "encode", "upload"],
};

const API: &[Process] = &[Process::Api];
const WORKER: &[Process] = &[Process::Worker];
const SCHEDULER: &[Process] = &[Process::Scheduler];

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident: $kind:ident<$count:literal> = $text:literal, $help:literal, $labels:expr, $buckets:expr, $processes:expr;)*) => {
        $(
            #[doc = $help]
            $(#[$doc])*
            pub static $name: $kind<$count> =
                $kind { name: $text, help: $help, labels: &$labels, buckets: $buckets, processes: $processes };
        )*

        /// Every metric, as rows of a table.
        pub const ALL: &[Row] = &[$($kind::<$count> { name: $text, help: $help, labels: &$labels, buckets: $buckets, processes: $processes }.row()),*];
    };
}

metrics! {
    BUILD_INFO: Gauge<2> = "clapboard_build_info",
        "1, with the version of the program and what it was started as.",
        [Label { name: "version", values: &[] }, Label { name: "process", values: &[] }], &[], Process::ALL;
    DB_POOL_IN_USE: Gauge<0> = "clapboard_db_pool_in_use",
        "Connections to Postgres that are in use.", [], &[], Process::ALL;
    DB_POOL_WAITING: Gauge<0> = "clapboard_db_pool_waiting",
        "Calls that wait for a connection to Postgres.", [], &[], Process::ALL;
    DB_POOL_LIMIT: Gauge<0> = "clapboard_db_pool_limit",
        "Connections to Postgres that there may be.", [], &[], Process::ALL;

    JOBS_SUBMITTED: Counter<1> = "clapboard_jobs_submitted_total",
        "Jobs that were accepted.", [PARTITION], &[], API;
    HTTP_REQUEST_SECONDS: Histogram<3> = "clapboard_http_request_seconds",
        "From the head of a request to the head of its answer.",
        [Label { name: "method", values: &[] }, Label { name: "route", values: &[] },
         Label { name: "status_class", values: &["2xx", "3xx", "4xx", "5xx"] }], REQUESTS, API;
    LIMITS_HIT: Counter<1> = "clapboard_limits_hit_total",
        "Requests refused because there were too many.",
        [Label { name: "limit", values: &["rate", "queue", "concurrency", "capacity"] }], &[], API;

    JOBS_FINISHED: Counter<3> = "clapboard_jobs_finished_total",
        "Jobs that have ended, counted by whoever ended them.", [PARTITION, OUTCOME, REASON], &[], Process::ALL;

    JOB_QUEUE_DEPTH: Gauge<2> = "clapboard_job_queue_depth",
        "Jobs that wait or run, counted no further than 10000 of a partition.", [PARTITION, STATE], &[], SCHEDULER;
    JOB_OLDEST_QUEUED_AGE_SECONDS: Gauge<1> = "clapboard_job_oldest_queued_age_seconds",
        "Age of the oldest waiting job, among the first 10000 of a partition; 0 where none waits.",
        [PARTITION], &[], SCHEDULER;
    LEASE_EXPIRED: Counter<0> = "clapboard_lease_expired_total",
        "Leases that ended without their worker.", [], &[], SCHEDULER;
    HINT_REPAIRS: Counter<0> = "clapboard_hint_repairs_total",
        "Hints that sweeps found missing, and pushed.", [], &[], SCHEDULER;
    WEBHOOK_ATTEMPTS: Counter<1> = "clapboard_webhook_attempts_total",
        "Tries of webhooks by how they were answered; none is no answer, local is a fault of this machine.",
        [Label { name: "code_class", values: &["2xx", "3xx", "4xx", "5xx", "none", "local"] }], &[], SCHEDULER;
    WEBHOOK_BACKLOG: Gauge<0> = "clapboard_webhook_backlog",
        "Webhooks that wait to be delivered, counted no further than 10000.", [], &[], SCHEDULER;
    WEBHOOK_OLDEST_AGE_SECONDS: Gauge<0> = "clapboard_webhook_oldest_age_seconds",
        "Age of the oldest webhook that waits, among the first 10000; 0 where none does.", [], &[], SCHEDULER;

    CLAIMS: Counter<2> = "clapboard_claims_total",
        "Jobs claimed by a hint of Redis, by asking Postgres, or ahead of time.",
        [PARTITION, Label { name: "source", values: &["redis", "poll", "ahead"] }], &[], WORKER;
    JOB_QUEUE_WAIT_SECONDS: Histogram<1> = "clapboard_job_queue_wait_seconds",
        "From the making of a job to its first claim, by the clock of the job store.", [PARTITION], WAITS, WORKER;
    JOB_RUN_SECONDS: Histogram<1> = "clapboard_job_run_seconds",
        "From the claim of an attempt that completed its job to the end.", [PARTITION], MINUTES, WORKER;
    JOB_PHASE_SECONDS: Histogram<2> = "clapboard_job_phase_seconds",
        "Duration of a phase of an attempt.", [PARTITION, PHASE], PARTS, WORKER;
    GPU_STEP_SECONDS: Histogram<1> = "clapboard_gpu_step_seconds",
        "Duration of a step of denoising.", [PARTITION], STEPS, WORKER;
    JOB_ATTEMPTS: Counter<2> = "clapboard_job_attempts_total",
        "Attempts by how they ended.",
        [PARTITION, Label { name: "outcome",
            values: &["ok", "failed", "retried", "unwell", "drained", "cancelled", "stalled", "lost", "stale_rejected", "unknown"] }],
        &[], WORKER;
    HEARTBEAT_FAILURES: Counter<0> = "clapboard_heartbeat_failures_total",
        "Heartbeats that the job store did not answer.", [], &[], WORKER;
    HEARTBEAT_AGE_SECONDS: Gauge<0> = "clapboard_heartbeat_age_seconds",
        "Time since the job store last answered a heartbeat.", [], &[], WORKER;
    STALE_COMPLETIONS_REJECTED: Counter<0> = "clapboard_stale_completions_rejected_total",
        "Finished videos that were discarded because their job was another's by then.", [], &[], WORKER;
    CANCEL_LATENCY_SECONDS: Histogram<0> = "clapboard_cancel_latency_seconds",
        "From hearing of a cancel to the end of the attempt.", [], SECONDS, WORKER;
    S3_UPLOAD_SECONDS: Histogram<0> = "clapboard_s3_upload_seconds",
        "Time to store a video, tries that failed included.", [], PARTS, WORKER;
    S3_UPLOAD_RETRIES: Counter<0> = "clapboard_s3_upload_retries_total",
        "Tries to store a video that failed and were made again.", [], &[], WORKER;
    WORKER_STATE: Gauge<2> = "clapboard_worker_state",
        "1 for the state that the worker is in, 0 for the others.",
        [PARTITION, Label { name: "state", values: &["idle", "busy", "unwell", "draining"] }], &[], WORKER;
    MODEL_LOAD_SECONDS: Histogram<1> = "clapboard_model_load_seconds",
        "Time to load the engine with the weights of its first partition.", [PARTITION], PARTS, WORKER;
}
