//! The diffusion transformer: one packed sequence of text, video and audio rows through blocks of modulated attention.
//!
//! [`Dit::begin`] does once per request what no step changes (text refiner, rotary tables, timestep embeddings,
//! buffers, what AdaLN makes of the schedule); [`Dit::forward`] predicts the velocities of one step.

mod adaln;
mod attention;
mod block;
mod buffers;
mod feed_forward;
mod forward;
mod layers;
mod modulation;
mod refiner;
mod request;
mod rotary;
mod timestep;
mod weights;

pub use adaln::AdalnCache;
pub(crate) use adaln::products_plan;
pub use buffers::{DitBuffers, DitShape};
pub use forward::{Dit, DitOptions};
pub(crate) use refiner::plan as refiner_plan;
pub use request::{DitRequest, StepTimesteps};
pub(crate) use request::{embedding_plan, fixed_plan};
pub use weights::{AttentionWeights, DitBlockWeights, DitWeights, FeedForwardWeights, RefinerBlockWeights};
