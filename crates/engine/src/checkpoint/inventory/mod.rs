//! Every tensor a component is made of, worked out from its config.
//!
//! Names are canonical (the original release's). [`check`] compares them with what is stored, in either layout, and
//! names every difference.

mod audio_vae;
mod dit;
mod report;
mod text;
mod video_vae;

use std::collections::{HashMap, HashSet};

use super::component::{Component, ComponentId};
use super::config::{AudioVaeConfig, DitConfig, TextEncoderConfig, VideoVaeConfig};
use super::dtype::StoredDtype;
use super::layout::Layout;
use super::names::stored_names;

pub use report::{BeyondConfig, DtypeMismatch, ShapeMismatch, TensorReport};

#[cfg(test)]
mod tests;

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorUse {
    /// A learned parameter that is read.
    Parameter,
    /// A constant that is stored and read.
    Buffer,
    /// Stored by the release, but never read: it may be absent.
    Unread,
}

/// One tensor that a component should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// The canonical name.
    pub name: String,
    /// The shape under the canonical name.
    pub shape: Vec<usize>,
    /// The element type of the release.
    pub dtype: StoredDtype,
    /// What it is for.
    pub usage: TensorUse,
}

impl ExpectedTensor {
    /// Returns the number of elements; more than a file could hold saturates.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |elements: u64, &dim| elements.saturating_mul(dim as u64))
    }

    /// Returns the bytes of all elements; more than a file could hold saturates.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.size() as u64)
    }
}

/// The list of one component's tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    component: ComponentId,
    tensors: Vec<ExpectedTensor>,
}

impl Inventory {
    /// Lists the tensors of a diffusion transformer.
    pub fn dit(component: ComponentId, config: &DitConfig) -> Self {
        let mut list = List::new(StoredDtype::BF16);
        dit::list(config, &mut list);
        Self { component, tensors: list.tensors }
    }

    /// Lists the tensors of the text encoder: all layers, of which those past the conditioning are never read.
    pub fn text_encoder(config: &TextEncoderConfig) -> Self {
        let mut list = List::new(StoredDtype::BF16);
        text::list(config, &mut list);
        Self { component: ComponentId::TextEncoder, tensors: list.tensors }
    }

    /// Lists the tensors of the video VAE, encoder and decoder.
    pub fn video_vae(config: &VideoVaeConfig) -> Self {
        let mut list = List::new(StoredDtype::F32);
        video_vae::list(config, &mut list);
        Self { component: ComponentId::VideoVae, tensors: list.tensors }
    }

    /// Lists the tensors of the audio VAE, encoder and decoder.
    pub fn audio_vae(config: &AudioVaeConfig) -> Self {
        let mut list = List::new(StoredDtype::F32);
        audio_vae::list(config, &mut list);
        Self { component: ComponentId::AudioVae, tensors: list.tensors }
    }

    /// Returns which component is listed.
    pub fn component(&self) -> ComponentId {
        self.component
    }

    /// Returns the tensors by canonical name.
    pub fn tensors(&self) -> &[ExpectedTensor] {
        &self.tensors
    }

    /// Returns the tensors as a layout stores them: renamed, split projections as three tensors, and without those that
    /// the diffusers layout leaves out.
    pub fn stored(&self, layout: Layout) -> Vec<ExpectedTensor> {
        let mut stored = Vec::with_capacity(self.tensors.len());
        for tensor in &self.tensors {
            if !is_kept(self.component, layout, &tensor.name) {
                continue;
            }
            let names = stored_names(self.component, layout, &tensor.name);
            let mut shape = tensor.shape.clone();
            if let Some(rows) = shape.first_mut() {
                *rows /= names.len();
            }
            let piece = |name| ExpectedTensor { name, shape: shape.clone(), ..tensor.clone() };
            stored.extend(names.into_iter().map(piece));
        }
        stored
    }

    /// Returns the bytes of all tensors that are read and whose canonical name `wanted` accepts.
    pub fn bytes(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let read = self.tensors.iter().filter(|tensor| tensor.usage != TensorUse::Unread);
        read.filter(|tensor| wanted(&tensor.name)).map(ExpectedTensor::bytes).fold(0, u64::saturating_add)
    }

    /// Returns the number of learned values that are read.
    pub fn parameters(&self) -> u64 {
        let learned = self.tensors.iter().filter(|tensor| tensor.usage == TensorUse::Parameter);
        learned.map(ExpectedTensor::elements).fold(0, u64::saturating_add)
    }
}

/// Compares what is stored with what is expected.
pub fn check(component: &Component, inventory: &Inventory) -> TensorReport {
    let expected = inventory.stored(component.layout());
    let mut report = TensorReport::default();
    for tensor in &expected {
        let Some(raw) = component.raw(&tensor.name) else {
            if tensor.usage != TensorUse::Unread {
                report.missing.push(tensor.name.clone());
            }
            continue;
        };
        if raw.shape() != tensor.shape {
            report.wrong_shape.push(ShapeMismatch {
                tensor: tensor.name.clone(),
                expected: tensor.shape.clone(),
                actual: raw.shape().to_vec(),
            });
        }
        if raw.dtype() != tensor.dtype {
            report.wrong_dtype.push(DtypeMismatch {
                tensor: tensor.name.clone(),
                expected: tensor.dtype,
                actual: raw.dtype(),
            });
        }
    }
    let known: HashSet<&str> = expected.iter().map(|tensor| tensor.name.as_str()).collect();
    let counts = counts(&expected);
    for name in component.stored().map(|raw| raw.name()).filter(|name| !known.contains(name)) {
        match beyond_config(name, &counts) {
            Some(beyond) => report.beyond_config.push(beyond),
            None => report.unknown.push(name.to_owned()),
        }
    }
    report
}

/// The language model's layers: those past the conditioning are never read, so that none can be missed.
const LANGUAGE_LAYERS: &str = "model.language_model.layers";

/// Returns how many entries each numbered list of modules has, such as `blocks`.
fn counts(expected: &[ExpectedTensor]) -> HashMap<&str, u64> {
    let mut counts = HashMap::new();
    for (list, index) in expected.iter().flat_map(|tensor| numbered(&tensor.name)) {
        let count = counts.entry(list).or_insert(0);
        *count = index.saturating_add(1).max(*count);
    }
    counts.remove(LANGUAGE_LAYERS);
    counts
}

/// Tells which list an unknown tensor would prolong; the outermost one.
fn beyond_config(name: &str, counts: &HashMap<&str, u64>) -> Option<BeyondConfig> {
    numbered(name).find_map(|(list, index)| {
        let &count = counts.get(list)?;
        (index >= count).then(|| BeyondConfig { tensor: name.to_owned(), list: list.to_owned(), count })
    })
}

/// Returns every numbered step of a dotted name with what stands before it: `blocks.3.mlp.fc1.weight` has
/// `("blocks", 3)`.
fn numbered(name: &str) -> impl Iterator<Item = (&str, u64)> {
    name.match_indices('.').filter_map(|(dot, _)| {
        let step = name[dot + 1..].split('.').next().unwrap_or_default();
        let digits = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        // More digits than fit are past the end of any list.
        digits.then(|| (&name[..dot], step.parse().unwrap_or(u64::MAX)))
    })
}

/// Tells whether a layout stores a tensor: the official converter drops what it recomputes or never reads.
fn is_kept(component: ComponentId, layout: Layout, name: &str) -> bool {
    layout == Layout::Original
        || !matches!(
            (component, name),
            (ComponentId::Dit(_), dit::INV_FREQ) | (ComponentId::VideoVae, video_vae::MASK_TOKEN)
        )
}

/// A list of tensors being put together.
struct List {
    dtype: StoredDtype,
    usage: TensorUse,
    tensors: Vec<ExpectedTensor>,
}

impl List {
    fn new(dtype: StoredDtype) -> Self {
        Self { dtype, usage: TensorUse::Parameter, tensors: Vec::new() }
    }

    /// Adds one tensor.
    fn add(&mut self, name: impl Into<String>, shape: &[usize]) {
        let (dtype, usage) = (self.dtype, self.usage);
        self.tensors.push(ExpectedTensor { name: name.into(), shape: shape.to_vec(), dtype, usage });
    }

    /// Adds `weight` of the given shape and `bias` of its first dimension.
    fn with_bias(&mut self, module: &str, shape: &[usize]) {
        self.add(format!("{module}.weight"), shape);
        self.add(format!("{module}.bias"), &shape[..1]);
    }

    /// Adds what `fill` lists, marked for another use.
    fn marked(&mut self, usage: TensorUse, fill: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.usage, usage);
        fill(self);
        self.usage = before;
    }

    /// Adds what `fill` lists, stored in another element type.
    fn stored_as(&mut self, dtype: StoredDtype, fill: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.dtype, dtype);
        fill(self);
        self.dtype = before;
    }
}
