//! `configs/manifest.json`: which files make a checkpoint, and how original tensors come from diffusers ones.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The manifest of both layouts. Paths begin with the layout's name.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Manifest {
    pub(super) files: Vec<SmallFile>,
    pub(super) weights: Vec<WeightFile>,
    pub(super) maps: BTreeMap<String, Vec<MapEntry>>,
}

/// A file that is copied.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SmallFile {
    /// Where it goes.
    pub(super) path: String,
    /// Where it is in the golden folder.
    pub(super) from: String,
}

/// A safetensors file that is made.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct WeightFile {
    /// Where it goes.
    pub(super) path: String,
    /// The recipe's component.
    pub(super) component: String,
    /// `identity`, or a name in [`Manifest::maps`].
    pub(super) map: String,
}

/// How one original tensor is made.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct MapEntry {
    /// The original name.
    pub(super) to: String,
    /// What is done.
    pub(super) op: Operation,
    /// The diffusers names it is done to.
    pub(super) from: Vec<String>,
    /// The shape of a tensor that comes from nothing.
    #[serde(default)]
    pub(super) shape: Vec<usize>,
}

/// An operation of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Operation {
    /// The same bytes.
    Copy,
    /// Rows of q, k and v regrouped head by head.
    InterleaveQkv,
    /// The second half of the rows first.
    SwapHalves,
    /// The transformer's rotary frequencies.
    InvFreq,
    /// F32 zeros.
    Zeros,
}
