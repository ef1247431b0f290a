//! How fast the networks run: each over its released shapes, with drawn weights and inputs.
//!
//! No checkpoint is needed. A network is made as a generation makes it, over operations that count what they compute and
//! move ([`Work`]); the device's own clock times it, and a [`Roofline`] says how fast it could be.

mod error;
mod generation;
mod inputs;
mod machine;
mod measure;
mod metered;
mod metered_ops;
mod roofline;
mod sizes;
mod stage;
mod stages;
mod work;
mod written;

pub use error::BenchError;
pub use generation::{GenerationMeasurement, GenerationOptions, run_generation};
pub use measure::{BenchOptions, Measurement, run};
#[cfg(test)]
pub(crate) use metered::Metered;
pub use roofline::Roofline;
pub use stage::{NoSuchStage, Stage};
pub use work::Work;
pub use written::{WrittenStage, write};
