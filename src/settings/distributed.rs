//! What the processes of the distributed mode share: the database, the hints and the bucket.

use std::sync::Arc;

use anyhow::{Context, ensure};
use clapboard_blob::{S3Blob, S3Options};
use clapboard_dispatch::{RedisDispatch, RedisLimiter, RedisOptions};
use clapboard_h3::Partition;
use clapboard_jobs::{Blob, CapacityClass, Causes, Dispatch, Policy, Queue};
use clapboard_store_postgres::PostgresStore;

use super::{DatabaseArgs, MediaStoreArgs, RedisArgs};

/// Where the jobs, the hints and the videos are.
#[derive(Debug, clap::Args)]
pub(crate) struct DistributedArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    redis: RedisArgs,
    #[command(flatten)]
    media_store: MediaStoreArgs,
}

/// How each of the three servers is reached, as far as it is named.
type Named = (Option<clapboard_store_postgres::Options>, Option<RedisOptions>, Option<S3Options>);

impl DistributedArgs {
    /// Returns how the servers are reached that are named.
    ///
    /// Errors: a sentence about the first setting that cannot be.
    pub(crate) fn options(&self) -> anyhow::Result<Named> {
        Ok((self.database.options()?, self.redis.options()?, self.media_store.options()?))
    }
}

/// The checked settings of the three servers.
#[derive(Debug)]
pub(crate) struct Distributed {
    pub(crate) database: clapboard_store_postgres::Options,
    redis: RedisOptions,
    s3: S3Options,
}

/// The three servers, reached.
pub(crate) struct Servers {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) dispatch: RedisDispatch,
    pub(crate) limiter: RedisLimiter,
    pub(crate) blob: Arc<dyn Blob>,
}

impl TryFrom<DistributedArgs> for Distributed {
    type Error = anyhow::Error;

    /// Errors: a sentence about the first setting that is missing or cannot be.
    fn try_from(args: DistributedArgs) -> anyhow::Result<Self> {
        Ok(Self {
            database: args.database.required()?,
            redis: args.redis.required()?,
            s3: args.media_store.required()?,
        })
    }
}

impl Distributed {
    /// Checks that a queue in Redis has room for what a refill pushes, whatever new jobs there are.
    ///
    /// Errors: a sentence that names both settings.
    pub(crate) fn has_room_for_refills_of(&self, refill_window: u32) -> anyhow::Result<()> {
        let (window, largest) = (self.redis.window, self.redis.largest_refill());
        ensure!(
            usize::try_from(refill_window).is_ok_and(|refill| refill <= largest),
            "--redis-window {window} is too small for --refill-window {refill_window}: it must be at least twice as \
             large, since new jobs take up to one half of it"
        );
        Ok(())
    }

    /// Reaches the servers. Postgres and S3 have to answer, and S3 has to know our key; Redis may be away.
    ///
    /// Errors: a sentence about the server that does not answer as it should.
    pub(crate) async fn open(&self, policy: &Policy) -> anyhow::Result<Servers> {
        let store = PostgresStore::connect(&self.database, policy.clone()).await;
        let store = store.context("could not open the job store")?;
        let blob = S3Blob::open(self.s3.clone()).await.context("could not open the media store")?;
        let dispatch = RedisDispatch::open(&self.redis).context("--redis-url cannot be used")?;
        let limiter = RedisLimiter::open(&self.redis).context("--redis-url cannot be used")?;
        warn_of_silence(&dispatch).await;
        Ok(Servers { store: Arc::new(store), dispatch, limiter, blob: Arc::new(blob) })
    }
}

/// Says so when Redis does not answer. Nothing else follows from it.
async fn warn_of_silence(dispatch: &dyn Dispatch) {
    let queue = Queue::of(Partition::Fl2va, CapacityClass::SMALLEST);
    if let Err(error) = dispatch.len(queue).await {
        tracing::warn!(
            error = %Causes(&error),
            "Redis does not answer: jobs are accepted and run all the same, and begin up to a poll interval later"
        );
    }
}
