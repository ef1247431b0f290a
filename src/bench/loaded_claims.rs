//! Claims beside a deep queue.

use std::time::{Duration, Instant};

use anyhow::Context;
use clapboard_h3::Partition;
use clapboard_jobs::{
    Claimant, FailureCode, HandBack, JobError, Keyring, NewJob, Store, Tenant, TenantLimits, WorkerId,
};

use super::figures::Latencies;
use super::queue::{Servers, smallest_spec};

const CLAIMS: usize = 300;
const WARM_UP: usize = 30;
/// How many jobs of the backlog wait in the first measurement.
const SHALLOW: u32 = 1_000;

/// Claims jobs beside as many waiting ones as there are, and returns how long the claims took. Each claimed job then waits
/// for an hour, so that the next claim takes another.
///
/// The claim is the one by the store's own order, which is the dearer one: a hint names its job.
async fn claims(servers: &Servers) -> anyhow::Result<Latencies> {
    let claimant = Claimant::new(WorkerId::new(), vec![Partition::Fl2va]);
    let mut times = Vec::with_capacity(CLAIMS);
    for round in 0..WARM_UP + CLAIMS {
        let began = Instant::now();
        let claimed = servers.store.claim_next(&claimant).await?.context("there is nothing to claim")?;
        if round >= WARM_UP {
            times.push(began.elapsed());
        }
        let error = JobError::new(FailureCode::InternalError, "measured");
        let away = HandBack::Unwell { after: Duration::from_secs(3600), error };
        servers.store.hand_back(&claimed.lease, away).await?;
    }
    Ok(Latencies::new(times))
}

/// What was measured.
#[derive(Debug)]
pub(super) struct LoadedClaims {
    pub(super) shallow: Latencies,
    pub(super) deep: Latencies,
    pub(super) capped: Latencies,
}

/// Measures claims beside 1,000 waiting jobs, beside `deep`, and beside `deep` all of one tenant that may run none.
pub(super) async fn measure(servers: &Servers, deep: usize) -> anyhow::Result<LoadedClaims> {
    let (backlog, other): (Tenant, Tenant) = ("backlog".parse()?, "other".parse()?);
    let spec = smallest_spec();
    let job = |tenant: &Tenant| NewJob::new(tenant.clone(), "bench", &spec);
    // The tenant whose jobs are claimed once the other may run none.
    for _ in 0..2 * (WARM_UP + CLAIMS) {
        servers.store.create(job(&other)).await?;
    }
    servers.store.create_many(&job(&backlog), SHALLOW).await?;
    let shallow = claims(servers).await?;
    servers.store.create_many(&job(&backlog), u32::try_from(deep)? - SHALLOW).await?;
    let deep = claims(servers).await?;
    servers.store.set_tenant(&backlog, &TenantLimits { max_running: Some(0), ..TenantLimits::default() }).await?;
    let capped = claims(servers).await?;
    Ok(LoadedClaims { shallow, deep, capped })
}
