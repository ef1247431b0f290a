//! `clapboard jobs usage`.

use clapboard_jobs::Usage;
use serde_json::{Value, json};

use crate::output;
use crate::settings::JobStoreArgs;
use crate::table::Table;

/// Tell what each tenant has used: completed jobs, their TFLOP, and the seconds that workers spent
///
/// Deleted jobs count too, and so do the seconds of attempts that came to nothing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    from: JobStoreArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let usage = args.from.open().await?.usage().await?;
    if args.json {
        let tenants: Vec<Value> = usage.iter().map(object).collect();
        output::json(&json!({ "tenants": tenants }));
        return Ok(());
    }
    let mut table = Table::new(["TENANT", "COMPLETED", "TFLOP", "WORKER SECONDS"]);
    for tenant in &usage {
        table.add([
            tenant.tenant.to_string(),
            tenant.completed.to_string(),
            format!("{:.3}", tenant.tflop),
            format!("{:.1}", tenant.worker_seconds),
        ]);
    }
    output::line(format_args!("{table}"));
    Ok(())
}

fn object(usage: &Usage) -> Value {
    json!({
        "tenant": usage.tenant,
        "completed": usage.completed,
        "tflop": usage.tflop,
        "worker_seconds": usage.worker_seconds,
    })
}
