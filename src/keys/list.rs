//! `clapboard keys list`.

use clapboard_jobs::Tenant;
use serde_json::{Value, json};

use super::{object, revoked, scopes};
use crate::output;
use crate::settings::JobStoreArgs;
use crate::table::Table;
use crate::utc;

/// List the API keys, revoked ones too; the keys themselves are not known
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    from: JobStoreArgs,
    /// Only those of this tenant
    #[arg(id = "only_tenant", long = "tenant", value_name = "NAME")]
    tenant: Option<Tenant>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let keys = args.from.open().await?.keys(args.tenant.as_ref()).await?;
    if args.json {
        let keys: Vec<Value> = keys.iter().map(object).collect();
        output::json(&json!({ "keys": keys }));
        return Ok(());
    }
    let mut table = Table::new(["ID", "TENANT", "NAME", "ENDS IN", "SCOPES", "PER MINUTE", "CREATED", "REVOKED"]);
    for key in &keys {
        table.add([
            key.id.to_string(),
            key.tenant.to_string(),
            key.name.clone(),
            key.hint.clone(),
            scopes(key).join(","),
            key.rate.map_or_else(String::new, |rate| rate.per_minute.to_string()),
            utc::seconds(key.created_at),
            revoked(key.revoked_at),
        ]);
    }
    output::line(format_args!("{table}"));
    Ok(())
}
