//! The rule from which every tensor of a tiny checkpoint is made.
//!
//! A tensor's values are the hash sequence of `seed:component:name`, spread to the wanted mean and standard deviation.

use std::collections::BTreeMap;

use half::bf16;
use serde::Deserialize;

use super::error::Error;
use crate::checkpoint::dtype::StoredDtype;
use crate::checkpoint::sequence::Sequence;

/// One tensor in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) dtype: StoredDtype,
    pub(super) shape: Vec<usize>,
    /// Little-endian values, row major.
    pub(super) bytes: Vec<u8>,
}

/// Tensors of a component by name.
pub(super) type Tensors = BTreeMap<String, Tensor>;

/// `recipe.json`: seed and rules. Names are diffusers names.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Recipe {
    pub(super) seed: u64,
    pub(super) components: BTreeMap<String, BTreeMap<String, Rule>>,
    #[serde(default)]
    pub(super) buffers: BTreeMap<String, Vec<Buffers>>,
    pub(super) configs: Configs,
    #[cfg(test)]
    pub(super) sha256_of_value_bytes: BTreeMap<String, String>,
}

/// How one parameter is made.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Rule {
    shape: Vec<usize>,
    dtype: String,
    mean: f64,
    std: f64,
    /// The mean of the second half of all values, where it differs.
    mean_second_half: Option<f64>,
}

/// Equal constants under several names.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Buffers {
    shape: Vec<usize>,
    dtype: String,
    fill: Option<f64>,
    values: Option<Vec<f64>>,
    names: Vec<String>,
}

/// The sizes that the maps to the original layout need.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Configs {
    pub(super) transformer: TransformerSizes,
    pub(super) vae: VaeSizes,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct TransformerSizes {
    pub(super) num_attention_heads: usize,
    pub(super) rope_freq_dim: usize,
    pub(super) rope_theta: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct VaeSizes {
    pub(super) decoder_num_attention_heads: usize,
}

impl Recipe {
    /// Makes every tensor of a component, buffers included.
    pub(super) fn tensors(&self, component: &str) -> Result<Tensors, Error> {
        let unknown = || Error::golden("recipe.json", format!("no component {component}"));
        let rules = self.components.get(component).ok_or_else(unknown)?;
        let mut tensors = Tensors::new();
        for (name, rule) in rules {
            let values = rule.values(&format!("{}:{component}:{name}", self.seed), name)?;
            tensors.insert(name.clone(), encode(name, &rule.dtype, &rule.shape, &values)?);
        }
        for group in self.buffers.get(component).into_iter().flatten() {
            for name in &group.names {
                tensors.insert(name.clone(), encode(name, &group.dtype, &group.shape, &group.values(name)?)?);
            }
        }
        Ok(tensors)
    }

    /// Makes the mean and standard deviation of a VAE's latent channels.
    pub(super) fn latent_statistics(&self, component: &str, channels: usize) -> [Vec<f32>; 2] {
        [("latents_mean", 0.0, 0.3), ("latents_std", 1.0, 0.2)].map(|(name, mean, std)| {
            let rule = Rule { shape: vec![channels], dtype: "F32".to_owned(), mean, std, mean_second_half: None };
            rule.sequence(&format!("{}:{component}:{name}", self.seed), channels)
        })
    }
}

impl Rule {
    fn values(&self, key: &str, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.sequence(key, elements(name, &self.shape)?))
    }

    /// Evaluated in F64 in this order, then rounded once to F32: other orders give other last bits.
    fn sequence(&self, key: &str, count: usize) -> Vec<f32> {
        let sequence = Sequence::of(key);
        let spread = self.std * 3.0_f64.sqrt();
        let second_half = self.mean_second_half.map_or(0.0, |mean| mean - self.mean);
        let value = |i: usize| {
            let mut value = self.mean + spread * (2.0 * sequence.uniform(i) - 1.0);
            if self.mean_second_half.is_some() && i >= count / 2 {
                value += second_half;
            }
            value as f32
        };
        (0..count).map(value).collect()
    }
}

impl Buffers {
    fn values(&self, name: &str) -> Result<Vec<f32>, Error> {
        let count = elements(name, &self.shape)?;
        let values = match (&self.fill, &self.values) {
            (Some(fill), _) => vec![*fill as f32; count],
            (None, Some(values)) => values.iter().map(|&value| value as f32).collect(),
            (None, None) => Vec::new(),
        };
        if values.len() != count {
            let reason = format!("buffer {name} needs {count} values, found {}", values.len());
            return Err(Error::golden("recipe.json", reason));
        }
        Ok(values)
    }
}

/// Counts the elements of a shape; far more than a tiny checkpoint can have is an error, not an allocation.
fn elements(name: &str, shape: &[usize]) -> Result<usize, Error> {
    const LIMIT: usize = 1 << 28;
    let count = shape.iter().try_fold(1_usize, |count, &dim| count.checked_mul(dim));
    let count = count.filter(|&count| count <= LIMIT);
    count.ok_or_else(|| Error::golden("recipe.json", format!("tensor {name} has the impossible shape {shape:?}")))
}

fn encode(name: &str, dtype: &str, shape: &[usize], values: &[f32]) -> Result<Tensor, Error> {
    let shape = shape.to_vec();
    match StoredDtype::from_name(dtype) {
        Some(StoredDtype::F32) => {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            Ok(Tensor { dtype: StoredDtype::F32, shape, bytes })
        }
        // Rounds to nearest, ties to even.
        Some(StoredDtype::BF16) => {
            let bytes = values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect();
            Ok(Tensor { dtype: StoredDtype::BF16, shape, bytes })
        }
        _ => Err(Error::golden("recipe.json", format!("tensor {name} must be F32 or BF16, found {dtype}"))),
    }
}
