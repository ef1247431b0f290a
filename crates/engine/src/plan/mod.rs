//! Where every weight lives in each phase of a generation, and what that takes: the residency plan.
//!
//! Pure arithmetic over the sizes of a checkpoint ([`ModelSizes`]), the shape of a request ([`RequestShape`]) and budgets
//! ([`Budgets`]): no device, no weights. Activations are counted by the same functions by which the networks make them, so that
//! the plan cannot say another size than the engine takes.
//!
//! A generation goes through phases ([`Phase`]), and each has the device's memory to itself: what a phase needs of a network
//! is brought in for it and given up after it. A stack of equal blocks streams through two slots, which are cut anew for each
//! phase; so many leading blocks of the transformer as the budget holds beside everything else stay on the device while it
//! denoises. AdaLN projections never stream there: what they make of a schedule is a table on the host, of which a block gets its
//! rows with its weights.
//!
//! What the plan never touches are the bounds of buffers ([`MemoryBounds`](crate::MemoryBounds)): a result may depend on them in
//! its last bits, so that they are the numerics' and go into the fingerprint. Where weights live changes no result.
//!
//! The engine places weights as [`Placement`](crate::Placement) says. Where layers stream, it asks the plan how many blocks may
//! stay beside each request; [`ResidencyPlan::unstreamed_hbm_bytes`] is what it takes with all of them resident.

mod budget;
mod conditions;
mod holding;
mod host;
mod laid_out;
mod parts;
mod phases;
mod pipeline;
mod planner;
mod profile;
mod rates;
mod refusal;
mod request;
mod residency;
mod sizes;

pub use budget::Budgets;
pub use holding::{Holding, HoldingKind, Phase, PhasePlan, Place};
pub use host::{HostHolding, HostPlan};
pub(crate) use laid_out::LaidOut;
pub use parts::{Part, Parts};
pub use planner::{DEVICE_OVERHEAD_BYTES, Planner, Precision};
pub use profile::{Profile, ProfileError};
pub use rates::Rates;
pub use refusal::{Alternatives, Refusal};
pub use request::{RequestShape, SequenceShape, ShapeError};
pub use residency::{ResidencyPlan, StepPlan};
pub use sizes::ModelSizes;

pub use crate::weights::{NoResidentLayers, ResidentLayers};

#[cfg(test)]
mod tests;
