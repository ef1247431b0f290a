//! `clapboard doctor`: looks at everything that a deployment stands on, and says what is wrong.

mod checkpoint;
mod database;
mod finding;
mod gpu;
mod media_store;
mod redis;

use std::path::PathBuf;
use std::process::ExitCode;

use clapboard_jobs::Causes;

use self::finding::{Finding, Verdict};
use crate::output;
use crate::process::block_on;
use crate::settings::device::DeviceArgs;
use crate::settings::{DistributedArgs, MediaArgs};

/// Examine Postgres, Redis, S3, ffmpeg, libheif, the checkpoint and the GPU, and say what is missing and what that means
///
/// Prints one line for each finding, which begins with ok, warn or fail. Exits with 1 when there is a fail. Of the
/// servers only those are examined that are named. A few small objects are put into the bucket and removed again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    servers: DistributedArgs,
    #[command(flatten)]
    media: MediaArgs,
    /// The checkpoint that workers are to serve; configs and headers are read, no weights
    #[arg(long, env = "CLAPBOARD_CHECKPOINT", value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (database, redis, s3) = args.servers.options()?;
    let verdict = block_on(async {
        let mut verdict = Verdict::Ok;
        let mut tell = |findings: Vec<Finding>| {
            for finding in findings {
                output::line(format_args!("{finding}"));
                verdict = verdict.max(finding.verdict);
            }
        };
        tell(match database {
            Some(options) => database::examine(&options).await,
            None => vec![not_named("postgres", "--database-url")],
        });
        tell(match redis {
            Some(options) => redis::examine(&options).await,
            None => vec![not_named("redis", "--redis-url")],
        });
        tell(match s3 {
            Some(options) => media_store::examine(options).await,
            None => vec![not_named("s3", "--s3-bucket")],
        });
        tell(vec![examine_ffmpeg(&args.media), examine_heif(&args.media)]);
        tell(vec![checkpoint::examine(args.checkpoint.as_deref()), gpu::examine(&args.device)]);
        Ok(verdict)
    })?;
    Ok(if verdict == Verdict::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn examine_heif(media: &MediaArgs) -> Finding {
    match media.heif().check() {
        Ok(()) => Finding::ok("heic", "pictures of HEIC can be read"),
        Err(error) => Finding::warn("heic", format!("{error}; pictures of HEIC are refused, all others are read")),
    }
}

fn not_named(about: &'static str, flag: &str) -> Finding {
    Finding::warn(about, format!("not examined: {flag} is not given, which only a standalone service can do without"))
}

fn examine_ffmpeg(media: &MediaArgs) -> Finding {
    match media.programs() {
        Ok(ffmpeg) => {
            Finding::ok("ffmpeg", format!("version {}, with the encoders that every video needs", ffmpeg.version()))
        }
        Err(error) => {
            Finding::fail("ffmpeg", format!("{}; workers and APIs need it, schedulers do not", Causes(&error)))
        }
    }
}
