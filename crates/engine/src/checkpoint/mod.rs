//! Reading a MiniMax-H3 checkpoint in either released layout.
//!
//! [`Checkpoint::open`] finds out which layout a directory holds and reads every config; [`Checkpoint::component`] maps
//! one component's weights, of which nothing is read before it is touched. Tensors are asked for by their canonical
//! names, which are the original release's. Weights are never rewritten: where the layouts order rows differently,
//! [`Component::qkv_rows`] and [`Component::gate_order`] say how, and the networks read through strided views.
//!
//! [`inspect`] explains a directory to a person, [`tiny`] writes small checkpoints that exercise everything.
//!
//! A checkpoint must not be rewritten in place while it is open: its files are mapped. Replacing them by rename is
//! fine.

mod component;
mod config;
mod drawn;
mod dtype;
mod error;
mod header;
mod inspect;
mod inventory;
mod layout;
mod names;
mod opened;
mod sequence;
mod settings;
mod tensors;
pub mod tiny;

pub use crate::files::FileProblem;
pub use component::{Component, ComponentId, GateOrder, QkvRows, Stored};
pub use config::{
    AudioVaeConfig, DitConfig, PixelConfig, ProcessorConfig, SamplingConfig, TextConfig, TextEncoderConfig,
    VideoVaeConfig, VisionConfig,
};
pub use dtype::StoredDtype;
pub use error::{ConfigProblem, Error, ShardProblem};
pub(crate) use header::{HeaderEntry, parse_bytes};
pub use inspect::{ComponentInspection, DitSizes, Inspection, TokenizerInspection, inspect};
pub use inventory::{
    BeyondConfig, DtypeMismatch, ExpectedTensor, Inventory, ShapeMismatch, TensorReport, TensorUse, check,
};
pub use layout::{Layout, Location};
pub use opened::Checkpoint;
pub(crate) use sequence::Sequence;
pub use settings::{Settings, TINY_NAME};
pub use tensors::{RawTensor, map_file};

#[cfg(test)]
pub(crate) mod tests;
