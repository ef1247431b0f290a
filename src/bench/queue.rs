//! `clapboard bench queue`: how fast jobs are accepted, begun and recovered.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clapboard_blob::DiskBlob;
use clapboard_dispatch::{RedisDispatch, RedisOptions};
use clapboard_h3::{GenerationSpec, ModelProfile, Partition, VideoRequest};
use clapboard_jobs::{Blob, Dispatch, Policy, Store};
use clapboard_store_postgres::{PostgresStore, migrate};

use super::figures::{millis, per_second};
use super::{library, loaded_claims, post_to_start, recovery};
use crate::output;
use crate::process::block_on;
use crate::profile::profile_of;
use crate::settings::{DatabaseArgs, RedisArgs};
use crate::table::Table;

/// Measure the queue: from a request to the engine's start, drains, claims beside a deep queue, memory, recovery
///
/// Needs a database of its own, which it migrates and fills and leaves as it is then, and a Redis server. The API and the
/// workers that it starts inherit the environment, so that the servers and the bucket are best named there; scripts/bench-queue
/// does it all on free ports.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    redis: RedisArgs,
    /// How many requests are measured from POST to the engine's start
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = some)]
    requests: usize,
    /// How many jobs are created, drained, and accepted by an API whose memory is looked at
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = some)]
    jobs: usize,
    /// How many jobs wait beside the claims that are measured
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = deep)]
    deep: usize,
    /// Measure only the drain and the idle start as a library, as the peers do
    #[arg(long)]
    library_only: bool,
    /// Print the library's figures as the peers' loads do, as one JSON object
    #[arg(long, requires = "library_only")]
    json: bool,
    /// A tiny checkpoint: measures also how soon the job of a killed worker runs again (takes about a minute)
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
}

fn some(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(jobs) if jobs > 0 => Ok(jobs),
        _ => Err("it must be a whole number above 0".to_owned()),
    }
}

fn deep(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(jobs) if jobs > 1_000 => Ok(jobs),
        _ => Err("it must be a whole number above 1000".to_owned()),
    }
}

/// What is measured against.
pub(super) struct Servers {
    pub(super) database: clapboard_store_postgres::Options,
    pub(super) redis: RedisOptions,
    pub(super) store: Arc<PostgresStore>,
    pub(super) dispatch: Arc<dyn Dispatch>,
    pub(super) blob: Arc<dyn Blob>,
}

/// The smallest job of a released checkpoint.
pub(super) fn smallest_spec() -> GenerationSpec {
    let profile = ModelProfile::released("no-op", vec![Partition::Fl2va]);
    let request = VideoRequest {
        prompt: Some("a black frame".to_owned()),
        size: Some("256x256".to_owned()),
        num_inference_steps: Some(2),
        ..VideoRequest::default()
    };
    request.resolve(&profile, 0).expect("the smallest request follows every rule")
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (database, redis) = (args.database.required()?, args.redis.required()?);
    let profile = args.checkpoint.as_ref().map(|checkpoint| profile_of(checkpoint, &[Partition::Fl2va])).transpose()?;
    block_on(measure(args, database, redis, profile)).map(|()| ExitCode::SUCCESS)
}

async fn measure(
    args: Args,
    database: clapboard_store_postgres::Options,
    redis: RedisOptions,
    profile: Option<ModelProfile>,
) -> anyhow::Result<()> {
    migrate(&database).await.context("could not prepare the database")?;
    let folder = tempfile::tempdir().context("could not make a folder for videos")?;
    let store = Arc::new(PostgresStore::connect(&database, Policy::default()).await?);
    ensure!(
        store.usage().await?.is_empty() && store.ready(1).await?.is_empty(),
        "the database holds jobs already: name one that may be filled"
    );
    let servers = Servers {
        dispatch: Arc::new(RedisDispatch::open(&redis).context("--redis-url cannot be used")?),
        blob: Arc::new(DiskBlob::open(folder.path()).await.context("could not make a media store")?),
        database,
        redis,
        store,
    };
    let mut table = Table::new(["measure", "value"]);
    let mut tell = |measure: &str, value: String| table.add([measure.to_owned(), value]);

    let library = library::measure(&servers, args.jobs, args.requests).await?;
    if args.json {
        output::line(format_args!("{}", library.json()));
        servers.store.close().await;
        return Ok(());
    }
    tell("library: created one by one, per s", per_second(library.jobs, library.creating));
    tell("library: drained, per s", per_second(library.jobs, library.draining));
    tell("library: create to claim, idle, p50 ms", millis(library.idle.percentile(50)));
    tell("library: create to claim, idle, p99 ms", millis(library.idle.percentile(99)));
    if !args.library_only {
        let latencies = post_to_start::latencies(&servers, args.requests).await?;
        tell("POST to engine start, idle, p50 ms", millis(latencies.percentile(50)));
        tell("POST to engine start, idle, p99 ms", millis(latencies.percentile(99)));
        if let (Some(checkpoint), Some(profile)) = (&args.checkpoint, &profile) {
            let recovered = recovery::measure(&servers, checkpoint, profile).await?;
            tell("kill -9 to running elsewhere, s", format!("{:.1}", recovered.as_secs_f64()));
        }
        let claims = loaded_claims::measure(&servers, args.deep).await?;
        for (name, latencies) in [
            ("1,000 waiting".to_owned(), &claims.shallow),
            (format!("{} waiting", args.deep), &claims.deep),
            (format!("{} waiting, nearly all of a capped tenant", args.deep), &claims.capped),
        ] {
            tell(&format!("claim, {name}, p50 ms"), millis(latencies.percentile(50)));
            tell(&format!("claim, {name}, p99 ms"), millis(latencies.percentile(99)));
        }
        let memory = post_to_start::memory(&servers, args.jobs).await?;
        let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        tell("API: resident after 1,000 jobs, MiB", mebibytes(memory.before));
        tell(&format!("API: resident after {} more, MiB", memory.jobs), mebibytes(memory.after));
    }
    servers.store.close().await;
    output::line(format_args!("{table}"));
    Ok(())
}
