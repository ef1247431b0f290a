//! `clapboard keys revoke`.

use anyhow::Context;
use clapboard_jobs::ApiKeyId;

use super::{object, revoked};
use crate::output;
use crate::settings::JobStoreArgs;

/// Revoke an API key: it is good for nothing from then on, within 10 seconds where it was used just before
///
/// The jobs that were made with it stay its tenant's.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    from: JobStoreArgs,
    /// The key, by its id
    #[arg(value_name = "ID")]
    key: ApiKeyId,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let key = args.from.open().await?.revoke_key(args.key).await?;
    let key = key.with_context(|| format!("there is no key {}", args.key))?;
    if args.json {
        output::json(&object(&key));
    } else {
        output::line(format_args!("{} is revoked since {}", key.id, revoked(key.revoked_at)));
    }
    Ok(())
}
