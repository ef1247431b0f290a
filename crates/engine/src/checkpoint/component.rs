//! One component's weights, read by canonical name.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};

use clapboard_h3::Partition;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::dtype::StoredDtype;
use super::error::Error;
use super::layout::{Layout, is_dir};
use super::names::stored_names;
use super::tensors::{RawTensor, map_folder};
use crate::files::{self, TABLE_LIMIT};

/// Names one component of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComponentId {
    /// The diffusion transformer of a partition.
    Dit(Partition),
    /// Qwen3-VL.
    TextEncoder,
    /// The video VAE.
    VideoVae,
    /// The audio VAE.
    AudioVae,
}

impl Display for ComponentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dit(partition) => write!(f, "dit/{partition}"),
            Self::TextEncoder => f.write_str("text_encoder"),
            Self::VideoVae => f.write_str("video_vae"),
            Self::AudioVae => f.write_str("audio_vae"),
        }
    }
}

impl Serialize for ComponentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How the rows of `attn.qkv_proj` (transformer) and `attn.to_qkv` (video VAE decoder) are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkvRows {
    /// Head by head: `q, k, v` of head 0, then of head 1, and so on, each of `head_dim` rows.
    PerHead,
    /// All queries, then all keys, then all values.
    Grouped,
}

/// How the two halves of `mlp.fc1` (transformer) and `ff.w1` (video VAE decoder) are ordered: its rows, and so the
/// columns of what it projects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateOrder {
    /// `[gate; up]`: the half that goes through SiLU comes first.
    GateFirst,
    /// `[up; gate]`: the half that is multiplied in comes first.
    UpFirst,
}

/// One canonical tensor as it is stored: pieces that stack along dimension 0.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The element type of all pieces.
    pub dtype: StoredDtype,
    /// The shape of the stack.
    pub shape: Vec<usize>,
    /// The pieces, top first; three for a split query-key-value projection, otherwise one.
    pub pieces: Vec<RawTensor>,
}

impl Stored {
    /// Returns all values in stored order, widened to F32; `None` when they are not F32, BF16 or F16.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let mut values = Vec::with_capacity(self.shape.iter().product());
        for piece in &self.pieces {
            piece.append_f32(&mut values)?;
        }
        Some(values)
    }
}

/// The mapped weights of one component. Canonical names are the original release's, whatever the layout.
#[derive(Debug)]
pub struct Component {
    id: ComponentId,
    layout: Layout,
    tensors: BTreeMap<String, RawTensor>,
    /// Where the weight index places each stored tensor; only a hint for errors.
    index: BTreeMap<String, String>,
}

impl Component {
    /// Maps every safetensors file of `folder`; reads headers only.
    ///
    /// Errors: [`Error::Missing`], [`Error::NoShards`], [`Error::File`], [`Error::Shard`], [`Error::TwiceStored`].
    pub fn open(id: ComponentId, layout: Layout, folder: &Path) -> Result<Self, Error> {
        if !is_dir(folder)? {
            return Err(Error::Missing { what: id.to_string(), path: folder.to_owned() });
        }
        let tensors = map_folder(id, folder)?;
        Ok(Self { id, layout, tensors, index: read_index(folder) })
    }

    /// Holds tensors under the names that `layout` stores them by.
    pub(super) fn of_tensors(id: ComponentId, layout: Layout, tensors: BTreeMap<String, RawTensor>) -> Self {
        Self { id, layout, tensors, index: BTreeMap::new() }
    }

    /// Returns which component this is.
    pub fn id(&self) -> ComponentId {
        self.id
    }

    /// Returns how its tensors are stored.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the row order of fused query-key-value projections.
    pub fn qkv_rows(&self) -> QkvRows {
        match self.layout {
            Layout::Original => QkvRows::PerHead,
            Layout::Diffusers => QkvRows::Grouped,
        }
    }

    /// Returns the order of gated projections.
    pub fn gate_order(&self) -> GateOrder {
        match self.layout {
            Layout::Original => GateOrder::GateFirst,
            Layout::Diffusers => GateOrder::UpFirst,
        }
    }

    /// Tells whether all pieces of a canonical tensor are stored.
    pub fn contains(&self, name: &str) -> bool {
        stored_names(self.id, self.layout, name).iter().all(|stored| self.tensors.contains_key(stored))
    }

    /// Returns a tensor by canonical name.
    ///
    /// Errors: [`Error::NoTensor`]; [`Error::WrongShape`] or [`Error::WrongDtype`] when pieces do not stack.
    pub fn get(&self, name: &str) -> Result<Stored, Error> {
        let names = stored_names(self.id, self.layout, name);
        let missing: Vec<String> = names.iter().filter(|stored| !self.tensors.contains_key(*stored)).cloned().collect();
        if let Some(first) = missing.first() {
            let index_file = self.index.get(first).cloned();
            let stored = if first == name { Vec::new() } else { missing };
            return Err(Error::NoTensor { component: self.id, tensor: name.to_owned(), stored, index_file });
        }
        let pieces: Vec<RawTensor> = names.iter().filter_map(|stored| self.tensors.get(stored)).cloned().collect();
        let first = pieces.first().expect("a canonical tensor is stored in at least one piece");
        let mut shape = first.shape().to_vec();
        for piece in &pieces[1..] {
            if piece.shape() != first.shape() {
                return Err(Error::WrongShape {
                    component: self.id,
                    tensor: piece.name().to_owned(),
                    expected: first.shape().to_vec(),
                    actual: piece.shape().to_vec(),
                });
            }
            if piece.dtype() != first.dtype() {
                return Err(Error::WrongDtype {
                    component: self.id,
                    tensor: piece.name().to_owned(),
                    expected: vec![first.dtype()],
                    actual: piece.dtype(),
                });
            }
        }
        if let Some(rows) = shape.first_mut() {
            *rows *= pieces.len();
        }
        Ok(Stored { dtype: first.dtype(), shape, pieces })
    }

    /// Returns a tensor by canonical name if it has the given shape and one of the given element types.
    ///
    /// Errors: [`Error::NoTensor`], [`Error::WrongShape`], [`Error::WrongDtype`], each naming the tensor.
    pub fn expect(&self, name: &str, shape: &[usize], dtypes: &[StoredDtype]) -> Result<Stored, Error> {
        let stored = self.get(name)?;
        if stored.shape != shape {
            return Err(Error::WrongShape {
                component: self.id,
                tensor: name.to_owned(),
                expected: shape.to_vec(),
                actual: stored.shape,
            });
        }
        if !dtypes.contains(&stored.dtype) {
            return Err(Error::WrongDtype {
                component: self.id,
                tensor: name.to_owned(),
                expected: dtypes.to_vec(),
                actual: stored.dtype,
            });
        }
        Ok(stored)
    }

    /// Returns the values of a tensor that is small enough to copy, if it is F32 of the given shape.
    ///
    /// Errors: as [`expect`](Self::expect).
    pub fn expect_values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let stored = self.expect(name, shape, &[StoredDtype::F32])?;
        Ok(stored.to_f32().expect("the tensor was taken as F32"))
    }

    /// Returns every tensor under its stored name, sorted.
    pub fn stored(&self) -> impl Iterator<Item = &RawTensor> {
        self.tensors.values()
    }

    /// Returns a tensor under its stored name.
    pub(super) fn raw(&self, stored: &str) -> Option<&RawTensor> {
        self.tensors.get(stored)
    }
}

/// Reads every weight index of a folder as far as it can be understood.
fn read_index(folder: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let indexes = paths.filter(|path: &PathBuf| path.to_string_lossy().ends_with(".safetensors.index.json"));
    let mut files = BTreeMap::new();
    for path in indexes {
        let parsed = files::read(&path, TABLE_LIMIT).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let map = parsed.as_ref().and_then(|index| index.get("weight_map")).and_then(Value::as_object);
        match map {
            Some(map) => {
                let named = map.iter().filter_map(|(name, file)| Some((name.clone(), file.as_str()?.to_owned())));
                files.extend(named);
            }
            None => tracing::warn!(file = %path.display(), "weight index could not be read and is not used"),
        }
    }
    files
}
