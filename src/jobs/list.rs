//! `clapboard jobs list`.

use clapboard_jobs::{JobId, ListQuery, Order, Status, Tenant};
use serde_json::{Value, json};

use super::describe;
use super::fleet::Fleet;
use crate::output;
use crate::settings::JobStoreArgs;
use crate::table::Table;
use crate::utc;

/// List jobs, newest first
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    from: JobStoreArgs,
    /// The tenant whose jobs are meant
    #[arg(long, env = "CLAPBOARD_TENANT", value_name = "NAME", default_value_t = Tenant::default())]
    tenant: Tenant,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Only those of this status: queued, in_progress, completed or failed, which those that were cancelled count as
    #[arg(long, value_name = "STATUS")]
    status: Option<Status>,
    /// How many at most, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Go on after this one, the last of the page before
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,
    /// Oldest first
    #[arg(long)]
    oldest_first: bool,
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let store = args.from.open().await?;
    let order = if args.oldest_first { Order::Ascending } else { Order::Descending };
    let query = ListQuery { after: args.after, limit: args.limit, order, status: args.status, ..ListQuery::default() };
    let page = store.list(&args.tenant, &query).await?;
    if args.json {
        let jobs: Vec<Value> = page.jobs.iter().map(describe::job).collect();
        output::json(&json!({ "jobs": jobs, "has_more": page.has_more }));
        return Ok(());
    }
    let (now, fleet) = (store.now().await?, Fleet::of(&*store).await?);
    let mut table = Table::new(["ID", "STATE", "DONE", "ATTEMPT", "QUEUE", "CREATED", "NOTE"]);
    for job in &page.jobs {
        table.add([
            job.id.to_string(),
            job.state.to_string(),
            format!("{}%", job.progress.percent),
            format!("{}/{}", job.attempt, job.max_attempts),
            job.queue().to_string(),
            utc::seconds(job.created_at),
            describe::note(job, now, &fleet),
        ]);
    }
    output::line(format_args!("{table}"));
    if let (true, Some(last)) = (page.has_more, page.jobs.last()) {
        output::line(format_args!("more follow: --after {}", last.id));
    }
    Ok(())
}
