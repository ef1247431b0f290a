//! `clapboard tenants`: what each tenant may have.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::ensure;
use clap::Subcommand;
use clapboard_jobs::{Tenant, TenantLimits, Weight};
use serde_json::{Value, json};

use crate::output;
use crate::process::block_on;
use crate::settings::JobStoreArgs;
use crate::table::Table;

/// List what tenants may have, and change it
///
/// Works over the database of the distributed mode, or over the data directory of a standalone service, which may be
/// running.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(ListArgs),
    Set(SetArgs),
}

/// List the tenants about whom something was said; the others have weight 1 and no bounds
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    from: JobStoreArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Set a tenant's share and bounds; what is not named stays as it is
#[derive(Debug, clap::Args)]
struct SetArgs {
    #[command(flatten)]
    from: JobStoreArgs,
    /// The tenant
    #[arg(id = "only_tenant", value_name = "NAME")]
    tenant: Tenant,
    /// Its share in the fair order relative to others, from 0.001 to 1000
    #[arg(long, value_name = "W", value_parser = weight)]
    weight: Option<Weight>,
    /// How many of its jobs run at once at most, or none for any number
    #[arg(long, value_name = "N|none")]
    max_running: Option<Bound>,
    /// How many of its jobs wait at most, or none for any number
    #[arg(long, value_name = "N|none")]
    max_queued: Option<Bound>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A bound, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound(Option<u32>);

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            number => match number.parse() {
                Ok(most) => Ok(Self(Some(most))),
                Err(_) => Err(format!("it must be a whole number up to {}, or none", u32::MAX)),
            },
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    block_on(async {
        match args.command {
            Command::List(args) => list(args).await,
            Command::Set(args) => set(args).await,
        }
    })
    .map(|()| ExitCode::SUCCESS)
}

async fn list(args: ListArgs) -> anyhow::Result<()> {
    let tenants = args.from.open().await?.tenants().await?;
    if args.json {
        let tenants: Vec<Value> = tenants.iter().map(|(tenant, limits)| object(tenant, limits)).collect();
        output::json(&json!({ "tenants": tenants }));
        return Ok(());
    }
    output::line(format_args!("{}", table(&tenants)));
    Ok(())
}

async fn set(args: SetArgs) -> anyhow::Result<()> {
    let is_change = args.weight.is_some() || args.max_running.is_some() || args.max_queued.is_some();
    ensure!(is_change, "nothing to set: name --weight, --max-running or --max-queued");
    let store = args.from.open().await?;
    let before = store.tenants().await?.into_iter().find(|(tenant, _)| *tenant == args.tenant);
    let before = before.map(|(_, limits)| limits).unwrap_or_default();
    let limits = TenantLimits {
        weight: args.weight.unwrap_or(before.weight),
        max_running: args.max_running.map_or(before.max_running, |bound| bound.0),
        max_queued: args.max_queued.map_or(before.max_queued, |bound| bound.0),
    };
    store.set_tenant(&args.tenant, &limits).await?;
    if args.json {
        output::json(&object(&args.tenant, &limits));
    } else {
        output::line(format_args!("{}", table(&[(args.tenant, limits)])));
    }
    Ok(())
}

fn table(tenants: &[(Tenant, TenantLimits)]) -> Table<4> {
    let mut table = Table::new(["TENANT", "WEIGHT", "MAX RUNNING", "MAX QUEUED"]);
    let bound = |most: Option<u32>| most.map_or_else(|| "none".to_owned(), |most| most.to_string());
    for (tenant, limits) in tenants {
        table.add([
            tenant.to_string(),
            limits.weight.get().to_string(),
            bound(limits.max_running),
            bound(limits.max_queued),
        ]);
    }
    table
}

fn object(tenant: &Tenant, limits: &TenantLimits) -> Value {
    json!({
        "tenant": tenant,
        "weight": limits.weight.get(),
        "max_running": limits.max_running,
        "max_queued": limits.max_queued,
    })
}

fn weight(text: &str) -> Result<Weight, String> {
    let given: f64 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    Weight::new(given).map_err(|refused| refused.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_number_or_none() {
        assert_eq!("none".parse(), Ok(Bound(None)));
        assert_eq!("0".parse(), Ok(Bound(Some(0))));
        for wrong in ["", "-1", "4294967296", "many"] {
            let refused = wrong.parse::<Bound>().unwrap_err();
            assert_eq!(refused, "it must be a whole number up to 4294967295, or none");
        }
        assert!(weight("0").is_err() && weight("x").is_err() && weight("2.5").is_ok());
    }
}
