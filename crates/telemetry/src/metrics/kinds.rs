//! The kinds of metrics.

use std::time::Duration;

use metrics::Label as Pair;

use crate::metrics::recorder::is_on;

/// What a metric tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How often something has come to pass.
    Counter,
    /// How something is now.
    Gauge,
    /// How long things have taken, counted below these bounds.
    Histogram,
}

impl Kind {
    /// Returns the name that Prometheus has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A process, or the part of one, that has metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// `clapboard api`.
    Api,
    /// `clapboard worker`.
    Worker,
    /// `clapboard scheduler`.
    Scheduler,
}

impl Process {
    /// Every process: `clapboard serve` is all of them in one.
    pub const ALL: &'static [Self] = &[Self::Api, Self::Worker, Self::Scheduler];

    /// Returns its subcommand.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Scheduler => "scheduler",
        }
    }
}

/// A label.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values where all are known, which then count from 0; none where they are not.
    pub values: &'static [&'static str],
}

/// A metric as it stands in a table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What kind it is of.
    pub kind: Kind,
    /// What it tells, in one sentence.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [Label],
    /// The bounds of a histogram.
    pub buckets: &'static [f64],
    /// Who has it.
    pub processes: &'static [Process],
}

macro_rules! kind {
    ($(#[$doc:meta])* $kind:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $kind<const N: usize> {
            pub(super) name: &'static str,
            pub(super) help: &'static str,
            pub(super) labels: &'static [Label; N],
            pub(super) buckets: &'static [f64],
            pub(super) processes: &'static [Process],
        }

        impl<const N: usize> $kind<N> {
            /// Returns what is known of it.
            pub const fn row(&self) -> Row {
                Row {
                    name: self.name,
                    kind: Kind::$kind,
                    help: self.help,
                    labels: self.labels,
                    buckets: self.buckets,
                    processes: self.processes,
                }
            }

            fn pairs(&self, values: [&str; N]) -> Vec<Pair> {
                self.labels.iter().zip(values).map(|(label, value)| Pair::new(label.name, value.to_owned())).collect()
            }
        }
    };
}

kind! {
    /// Counts how often something comes to pass.
    Counter
}
kind! {
    /// Tells how something is now.
    Gauge
}
kind! {
    /// Tells how long things take, in seconds.
    Histogram
}

impl<const N: usize> Counter<N> {
    /// Counts one more, under a value for each label.
    pub fn increment(&self, values: [&str; N]) {
        self.add(1, values);
    }

    /// Counts `count` more, under a value for each label.
    pub fn add(&self, count: u64, values: [&str; N]) {
        if is_on() {
            metrics::counter!(self.name, self.pairs(values)).increment(count);
        }
    }
}

impl<const N: usize> Gauge<N> {
    /// Takes note of how it is now, under a value for each label.
    pub fn set(&self, value: f64, values: [&str; N]) {
        if is_on() {
            metrics::gauge!(self.name, self.pairs(values)).set(value);
        }
    }
}

impl<const N: usize> Histogram<N> {
    /// Takes note of how long something took, under a value for each label.
    pub fn record(&self, took: Duration, values: [&str; N]) {
        if is_on() {
            metrics::histogram!(self.name, self.pairs(values)).record(took.as_secs_f64());
        }
    }
}
