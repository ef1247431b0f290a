//! What MiniMax-H3 accepts and produces: tasks, canvases, the frame lattice, sigma grids, the packed layout and their
//! cost.
//!
//! Everything here is pure arithmetic: no I/O, no tensors, no async. The API and the engine share it, so a request that
//! the API accepts is one that the engine can run. A request travels through it once:
//!
//! 1. [`VideoRequest`] holds what the client asked for, every option as it came;
//! 2. [`VideoRequest::resolve`] checks it against the [`ModelProfile`] of the loaded checkpoint and answers with a
//!    [`GenerationSpec`], or with one [`Invalid`] that names the field and the rule;
//! 3. the stored, versioned [`GenerationSpec`] is all that a worker reads: nothing is derived again;
//! 4. [`prepare`] brings its reference media to the sizes and rates at which the networks take them;
//! 5. [`packing::PackedLayout`] orders the rows of the transformer's sequence for it; [`cost`] says what it will take.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail by panicking where its premise is broken"))]

mod canvas;
pub mod cost;
mod error;
mod frames;
mod geometry;
mod input;
mod medium;
pub mod packing;
pub mod prepare;
mod profile;
mod quality;
mod recipe;
mod references;
mod request;
mod resolve;
mod sigmas;
mod spec;
mod task;

pub use canvas::{AspectRatio, Canvas, CanvasError, UnknownAspectRatio};
pub use cost::Tflop;
pub use error::{Invalid, InvalidCode};
pub use frames::{DurationError, FPS, FrameCount, NotOnFrameLattice};
pub use geometry::{GeometryError, GeometryProfile};
pub use input::{Input, InputRole, InputShape, InputsError};
pub use medium::{Medium, MediumFacts};
pub use profile::{Defaults, ModelProfile, Shifts, TaskFrames};
pub use quality::{Quality, UnknownQuality};
pub use recipe::{Recipe, UnknownRecipe};
pub use references::ReferenceCounts;
pub use request::VideoRequest;
pub use sigmas::{Sigmas, SigmasError};
pub use spec::{GenerationSpec, SpecError};
pub use task::{Partition, Task, UnknownPartition, UnknownTask};
