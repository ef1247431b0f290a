//! The settings of the subcommands: one group per concern, shared by those that need it.
//!
//! A group is parsed by clap as it stands on the command line or in the environment (`…Args`), and then checked and
//! turned into what the rooms go by. A setting has the same name, meaning and default wherever it appears.

pub(crate) mod bytes;
mod database;
pub(crate) mod device;
mod distributed;
pub(crate) mod duration;
pub(crate) mod engine;
mod http;
mod job_store;
mod log;
mod media;
mod media_store;
mod offload;
mod partitions;
mod policy;
mod redis;
mod residency;
mod secret;
mod sweeps;
mod telemetry;
mod webhooks;
mod worker;

pub(crate) use self::database::DatabaseArgs;
pub(crate) use self::distributed::{Distributed, DistributedArgs};
pub(crate) use self::engine::EngineArgs;
pub(crate) use self::http::{Http, HttpArgs};
pub(crate) use self::job_store::JobStoreArgs;
pub(crate) use self::log::LogArgs;
pub(crate) use self::media::MediaArgs;
pub(crate) use self::media_store::MediaStoreArgs;
pub(crate) use self::offload::OffloadArgs;
pub(crate) use self::partitions::{PartitionArgs, partition};
pub(crate) use self::policy::PolicyArgs;
pub(crate) use self::redis::RedisArgs;
pub(crate) use self::residency::ResidencyArgs;
pub(crate) use self::secret::Secret;
pub(crate) use self::sweeps::SweepArgs;
pub(crate) use self::telemetry::TelemetryArgs;
pub(crate) use self::webhooks::{WebhookArgs, url_host};
pub(crate) use self::worker::{WorkerArgs, WorkerSettings};
