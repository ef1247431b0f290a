//! Whether the process lives and whether it takes work.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use clapboard_h3::Partition;
use clapboard_jobs::{WorkerRecord, WorkerState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::AppState;
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;
use crate::readiness::ServiceState;

/// The reply of a process that is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// The reply of a service that takes work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Always `ready`.
    status: &'static str,
    /// For each set of weights, `fl2va` and `ref2va`, whether a worker runs the jobs that need it. Others wait.
    partitions: BTreeMap<&'static str, bool>,
}

/// Says that the process answers.
#[utoipa::path(get, path = "/health", tag = "service", responses((status = 200, body = Health)))]
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Says whether the service takes work.
///
/// Neither the dispatcher nor the media store is asked: jobs wait for them.
#[utoipa::path(get, path = "/ready", tag = "service", responses(
    (status = 200, body = Ready),
    (status = 503, description = "The service starts, drains, or has lost its worker or its job store.", body = ErrorBody),
))]
pub(crate) async fn ready(State(state): State<AppState>) -> Result<Json<Ready>, ApiError> {
    match state.readiness.get() {
        ServiceState::Ready => {
            // Without its store no process can take a job, nor a worker end one.
            state.store.now().await?;
            Ok(Json(Ready { status: "ready", partitions: served(&state).await? }))
        }
        other => Err(not_ready(other)),
    }
}

/// Returns which weights there are workers for: the one of this process, or those that the store knows.
async fn served(state: &AppState) -> Result<BTreeMap<&'static str, bool>, ApiError> {
    let served: Vec<Partition> = if state.readiness.has_worker() {
        state.profile.partitions.clone()
    } else {
        let workers = state.store.workers().await?;
        let claim = |worker: &WorkerRecord| {
            matches!(worker.card.state, WorkerState::Idle | WorkerState::Busy) && !worker.drain_requested
        };
        workers.into_iter().filter(claim).flat_map(|worker| worker.card.partitions).collect()
    };
    Ok(Partition::ALL.map(|partition| (partition.as_str(), served.contains(&partition))).into())
}

/// Checks that somebody runs the jobs of a partition now, where the service is to take no others.
///
/// Errors: `no_capacity`.
pub(crate) async fn check_live(state: &AppState, partition: Partition) -> Result<(), ApiError> {
    // A process with a worker of its own takes nothing that it does not run.
    if !state.options.require_live_partition || state.readiness.has_worker() {
        return Ok(());
    }
    match served(state).await?.get(partition.as_str()) {
        Some(true) => Ok(()),
        _ => Err(ApiError::away(&format!("no worker runs jobs of {partition} now"))),
    }
}

/// Makes the answer of a service that is in a state other than ready.
pub(crate) fn not_ready(state: ServiceState) -> ApiError {
    const RETRY_AFTER_S: u32 = 5;
    let message = match state {
        ServiceState::Starting => "the service is starting",
        ServiceState::Ready => "the service is ready",
        ServiceState::Draining => "the service is stopping and takes no new work",
        ServiceState::WorkerLost => "the worker has ended; the service must be restarted",
    };
    ApiError { retry_after_s: Some(RETRY_AFTER_S), ..ApiError::new(ErrorCode::NoCapacity, message) }
}
