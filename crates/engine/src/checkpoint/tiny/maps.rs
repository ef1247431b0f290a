//! From diffusers tensors to original ones.

use super::assets::{MANIFEST, RECIPE};
use super::error::Error;
use super::manifest::{MapEntry, Operation};
use super::recipe::{Recipe, Tensor, Tensors};
use crate::checkpoint::dtype::StoredDtype;

/// Makes the original tensors of a component. `heads` groups the rows of its query, key and value projections.
pub(super) fn apply(entries: &[MapEntry], source: &Tensors, recipe: &Recipe, heads: usize) -> Result<Tensors, Error> {
    let mut mapped = Tensors::new();
    for entry in entries {
        let mut inputs = Vec::with_capacity(entry.from.len());
        for name in &entry.from {
            let missing = || Error::golden(MANIFEST, format!("{} needs the unknown tensor {name}", entry.to));
            inputs.push(source.get(name).ok_or_else(missing)?);
        }
        let tensor = match (entry.op, inputs.as_slice()) {
            (Operation::Copy, &[tensor]) => Some(tensor.clone()),
            (Operation::InterleaveQkv, &[q, k, v]) => interleave_qkv([q, k, v], heads),
            (Operation::SwapHalves, &[tensor]) => swap_halves(tensor),
            (Operation::InvFreq, &[]) => Some(inv_freq(recipe)?),
            (Operation::Zeros, &[]) => Some(zeros(&entry.shape)),
            _ => None,
        };
        let unfit =
            || Error::golden(MANIFEST, format!("{:?} cannot make {} from {:?}", entry.op, entry.to, entry.from));
        mapped.insert(entry.to.clone(), tensor.ok_or_else(unfit)?);
    }
    Ok(mapped)
}

/// Orders rows as head 0's q, k, v, then head 1's, and so on; `None` when the shapes do not allow it.
fn interleave_qkv(parts: [&Tensor; 3], heads: usize) -> Option<Tensor> {
    let [q, k, v] = parts;
    let rows = *q.shape.first()?;
    let equal = [k, v].iter().all(|part| part.shape == q.shape && part.dtype == q.dtype);
    if !equal || heads == 0 || !rows.is_multiple_of(heads) {
        return None;
    }
    let head = q.bytes.len() / heads;
    let mut bytes = Vec::with_capacity(3 * q.bytes.len());
    for i in 0..heads {
        for part in parts {
            bytes.extend_from_slice(&part.bytes[i * head..(i + 1) * head]);
        }
    }
    let mut shape = q.shape.clone();
    shape[0] = 3 * rows;
    Some(Tensor { dtype: q.dtype, shape, bytes })
}

/// Puts the second half of the rows first; `None` when there is an odd number of them.
fn swap_halves(tensor: &Tensor) -> Option<Tensor> {
    if !tensor.shape.first()?.is_multiple_of(2) {
        return None;
    }
    let mut swapped = tensor.clone();
    swapped.bytes.rotate_left(tensor.bytes.len() / 2);
    Some(swapped)
}

/// `1 / theta^(2i / 2n)` in F32, `n` frequencies.
fn inv_freq(recipe: &Recipe) -> Result<Tensor, Error> {
    let sizes = &recipe.configs.transformer;
    if sizes.rope_freq_dim > 1 << 16 {
        return Err(Error::golden(RECIPE, format!("rope_freq_dim {} is impossible", sizes.rope_freq_dim)));
    }
    let width = 2 * sizes.rope_freq_dim;
    let theta = sizes.rope_theta as f32;
    let frequency = |i: usize| 1.0 / theta.powf((2 * i) as f32 / width as f32);
    let bytes = (0..sizes.rope_freq_dim).flat_map(|i| frequency(i).to_le_bytes()).collect();
    Ok(Tensor { dtype: StoredDtype::F32, shape: vec![sizes.rope_freq_dim], bytes })
}

fn zeros(shape: &[usize]) -> Tensor {
    let bytes = vec![0; StoredDtype::F32.size() * shape.iter().product::<usize>()];
    Tensor { dtype: StoredDtype::F32, shape: shape.to_vec(), bytes }
}
