//! Where what is counted is kept until somebody asks.

use std::sync::atomic::{AtomicBool, Ordering};

use metrics::Label as Pair;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::metrics::kinds::{Kind, Process, Row};
use crate::metrics::names;

static ON: AtomicBool = AtomicBool::new(false);

/// Why nothing can be counted.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The bounds of a histogram cannot be.
    #[error("the bounds of {name} cannot be")]
    Bounds {
        /// The histogram.
        name: &'static str,
        /// What is wrong with them.
        #[source]
        source: BuildError,
    },
    /// The process counts already.
    #[error("metrics are counted already")]
    AlreadySet,
}

/// What was counted so far.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Returns the text that Prometheus reads.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Sums up what was measured since the last time: else it would be kept one by one where nobody ever asks.
    pub fn tidy(&self) {
        self.0.run_upkeep();
    }
}

/// Tells whether anything is counted.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins to count, for the whole process, which is started as `command` and is these `processes`. Counters whose labels have
/// known values begin at 0, so that their first increment can be seen.
///
/// Errors: [`InstallError::AlreadySet`] on a second call.
pub fn install(command: &str, version: &str, processes: &[Process]) -> Result<Metrics, InstallError> {
    let mut builder = PrometheusBuilder::new();
    for row in names::ALL.iter().filter(|row| row.kind == Kind::Histogram) {
        let matcher = Matcher::Full(row.name.to_owned());
        builder = builder
            .set_buckets_for_metric(matcher, row.buckets)
            .map_err(|source| InstallError::Bounds { name: row.name, source })?;
    }
    let recorder = builder.build_recorder();
    let metrics = Metrics(recorder.handle());
    metrics::set_global_recorder(recorder).map_err(|_| InstallError::AlreadySet)?;
    ON.store(true, Ordering::Relaxed);
    for row in names::ALL.iter().filter(|row| row.processes.iter().any(|it| processes.contains(it))) {
        describe(row);
        if row.kind == Kind::Counter {
            for labels in known(row) {
                metrics::counter!(row.name, labels).increment(0);
            }
        }
    }
    names::BUILD_INFO.set(1.0, [version, command]);
    Ok(metrics)
}

fn describe(row: &Row) {
    match row.kind {
        Kind::Counter => metrics::describe_counter!(row.name, row.help),
        Kind::Gauge => metrics::describe_gauge!(row.name, row.help),
        Kind::Histogram => metrics::describe_histogram!(row.name, row.help),
    }
}

/// Returns every combination of a metric's labels; none where a label's values are not known.
fn known(row: &Row) -> Vec<Vec<Pair>> {
    let mut all = vec![Vec::new()];
    for label in row.labels {
        let longer = |labels: &Vec<Pair>| {
            let with = |value: &&'static str| {
                let mut labels = labels.clone();
                labels.push(Pair::from_static_parts(label.name, value));
                labels
            };
            label.values.iter().map(with).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
