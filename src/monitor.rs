//! The listener that shows how a service is, where one is asked for.

use std::net::SocketAddr;
use std::sync::Arc;

use clapboard_store_postgres::{Connections, PostgresStore};
use clapboard_telemetry::metrics::{self, Process, names};
use clapboard_telemetry::{Health, Listener, Unwell};
use clapboard_worker::{Liveness, Stuck};

/// What of a service is watched.
pub(crate) struct Watched {
    /// The subcommand that it was started as.
    pub(crate) command: &'static str,
    /// Whose metrics it has.
    pub(crate) processes: &'static [Process],
    /// Its worker's, where it has one.
    pub(crate) liveness: Option<Liveness>,
    /// Its job store, where that has connections to count.
    pub(crate) store: Option<Arc<PostgresStore>>,
}

/// Begins to count and to listen, where `address` is one; until what is returned is dropped.
///
/// Errors: when the address cannot be listened on.
pub(crate) async fn start(address: Option<SocketAddr>, watched: Watched) -> anyhow::Result<Option<Listener>> {
    let Some(address) = address else { return Ok(None) };
    let Watched { command, processes, liveness, store } = watched;
    let metrics = metrics::install(command, env!("CARGO_PKG_VERSION"), processes)?;
    let health: Health = match liveness.clone() {
        Some(liveness) => Arc::new(move || liveness.check().map_err(unwell)),
        None => Arc::new(|| Ok(())),
    };
    let measure = move || {
        if let Some(liveness) = &liveness {
            liveness.measure();
        }
        if let Some(store) = &store {
            show(store.connections());
        }
    };
    let listener = Listener::start(address, metrics, health, measure).await?;
    tracing::info!(address = %listener.address(), "metrics and health are shown");
    Ok(Some(listener))
}

fn unwell(stuck: Stuck) -> Unwell {
    let status = match stuck {
        Stuck::Starting => "starting",
        Stuck::Stalled { .. } => "stalled",
        Stuck::Heartbeat { .. } => "no_heartbeat",
    };
    Unwell { status, reason: stuck.to_string() }
}

fn show(connections: Connections) {
    names::DB_POOL_IN_USE.set(connections.in_use as f64, []);
    names::DB_POOL_WAITING.set(connections.waiting as f64, []);
    names::DB_POOL_LIMIT.set(connections.limit as f64, []);
}
