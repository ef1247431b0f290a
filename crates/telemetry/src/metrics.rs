//! What is counted and measured.
//!
//! [`names`] holds every metric there is. A room increments, sets or records through it with one value for each label, so that no
//! metric can be written with other labels than its own. Labels are few and have few values: never a job's id or a tenant.

mod kinds;
pub mod names;
mod recorder;

pub use kinds::{Counter, Gauge, Histogram, Kind, Label, Process, Row};
pub use recorder::{InstallError, Metrics, install, is_on};

#[cfg(test)]
mod tests;
