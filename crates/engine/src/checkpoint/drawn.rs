//! Components whose tensors are drawn instead of read: released shapes without a released checkpoint.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::path::Path;
use std::thread;

use half::{bf16, f16};
use memmap2::MmapMut;

use super::component::Component;
use super::dtype::StoredDtype;
use super::error::Error;
use super::inventory::{ExpectedTensor, Inventory};
use super::layout::Layout;
use super::sequence::Sequence;
use super::tensors::{Placed, tensors_in};

/// What errors and logs call the memory that drawn tensors lie in.
const PLACE: &str = "memory of drawn weights";

/// Tensors begin at multiples of this many bytes.
const ALIGNMENT: usize = 64;

impl Component {
    /// Draws the tensors of `inventory` whose stored name `wanted` accepts. Tensor `name` has the sequence of
    /// `seed:component:name`. Equal blocks of a stack share the bytes of the first: weights are as large on a device as
    /// they would be, and here they are one block.
    ///
    /// Errors: [`Error::Io`] when there is no memory.
    pub(crate) fn drawn(
        inventory: &Inventory,
        layout: Layout,
        seed: u64,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        Self::drawn_apart(inventory, layout, seed, wanted, |_| false)
    }

    /// The same, but the tensors whose stored name `apart` accepts have bytes of their own.
    ///
    /// Errors: [`Error::Io`] when there is no memory.
    pub(crate) fn drawn_apart(
        inventory: &Inventory,
        layout: Layout,
        seed: u64,
        wanted: impl Fn(&str) -> bool,
        apart: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let id = inventory.component();
        let mut shared: BTreeMap<(String, Vec<usize>), Range<usize>> = BTreeMap::new();
        let (mut placed, mut drawn, mut end) = (Vec::new(), Vec::new(), 0_usize);
        for tensor in inventory.stored(layout).into_iter().filter(|tensor| wanted(&tensor.name)) {
            let first = if apart(&tensor.name) { tensor.name.clone() } else { first_of_stack(&tensor.name) };
            let key = (first, tensor.shape.clone());
            let range = shared.entry(key).or_insert_with(|| {
                let start = end.next_multiple_of(ALIGNMENT);
                end = start + tensor.shape.iter().product::<usize>() * tensor.dtype.size();
                drawn.push((tensor.clone(), start..end));
                start..end
            });
            let ExpectedTensor { name, shape, dtype, .. } = tensor;
            placed.push(Placed { name, dtype, shape, range: range.clone() });
        }
        let failed = |source| Error::Io { doing: "make", path: PLACE.into(), source };
        let mut map = MmapMut::map_anon(end.max(1)).map_err(failed)?;
        for (tensor, range) in drawn {
            let sequence = Sequence::of(&format!("{seed}:{id}:{}", tensor.name));
            fill(&mut map[range], tensor.dtype, sequence, Spread::of(&tensor));
        }
        let map = map.make_read_only().map_err(failed)?;
        Ok(Self::of_tensors(id, layout, tensors_in(map, Path::new(PLACE), placed)))
    }
}

/// Returns the name of the same tensor in the first block of its stack.
fn first_of_stack(name: &str) -> String {
    let mut found = false;
    let steps = name.split('.').map(|step| {
        let number = !found && !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        found |= number;
        if number { "0" } else { step }
    });
    steps.collect::<Vec<_>>().join(".")
}

/// Mean and standard deviation of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    mean: f64,
    std: f64,
}

impl Spread {
    /// Values that keep activations near 1: products by the inverse root of their terms, norms near 1, biases near 0.
    fn of(tensor: &ExpectedTensor) -> Self {
        let leaf = tensor.name.rsplit('.').next().unwrap_or_default();
        let terms: usize = tensor.shape.iter().skip(1).product();
        let (mean, std) = match leaf {
            "weight_g" => (1.0, 0.1),
            "filter" => (1.0 / terms as f64, 0.01),
            "alpha" | "beta" | "scale1" | "scale2" => (0.5, 0.1),
            "weight" if tensor.shape.len() == 1 => (1.0, 0.1),
            _ if tensor.shape.len() == 1 => (0.0, 0.02),
            _ => (0.0, 1.0 / (terms as f64).sqrt()),
        };
        Self { mean, std }
    }
}

/// Writes a tensor's values, every thread its share.
fn fill(bytes: &mut [u8], dtype: StoredDtype, sequence: Sequence, spread: Spread) {
    let size = dtype.size();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let share = (bytes.len() / size).div_ceil(threads).max(1 << 16);
    thread::scope(|scope| {
        for (index, part) in bytes.chunks_mut(share * size).enumerate() {
            scope.spawn(move || {
                for (offset, target) in part.chunks_exact_mut(size).enumerate() {
                    let value = sequence.value(index * share + offset, spread.mean, spread.std);
                    match dtype {
                        StoredDtype::BF16 => target.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
                        StoredDtype::F16 => target.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
                        // Inventories hold no other type.
                        _ => target.copy_from_slice(&value.to_le_bytes()),
                    }
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::tests::tiny_dit;

    fn tiny() -> Inventory {
        tiny_dit(3)
    }

    #[test]
    fn blocks_share_their_bytes_and_nothing_else_does() {
        let drawn = Component::drawn(&tiny(), Layout::Original, 1, |_| true).unwrap();
        let range = |name: &str| drawn.get(name).unwrap().pieces[0].file_range();
        assert_eq!(range("blocks.0.mlp.fc1.weight"), range("blocks.2.mlp.fc1.weight"));
        assert_ne!(range("blocks.0.mlp.fc1.weight"), range("token_refiner.blocks.0.mlp.fc1.weight"));
        assert_ne!(range("blocks.0.norm1.weight"), range("blocks.0.norm2.weight"));
        assert_eq!(crate::checkpoint::check(&drawn, &tiny()), crate::checkpoint::TensorReport::default());
    }

    #[test]
    fn a_value_is_that_of_its_name_and_place() {
        let drawn = Component::drawn(&tiny(), Layout::Diffusers, 7, |name| name.contains("blocks.0.")).unwrap();
        let stored = drawn.get("blocks.0.mlp.fc2.weight").unwrap();
        let sequence = Sequence::of("7:dit/fl2va:transformer_blocks.0.ff.net.2.weight");
        let expected = bf16::from_f32(sequence.value(50, 0.0, 1.0 / 48_f64.sqrt())).to_f32();
        assert_eq!(stored.to_f32().unwrap()[50], expected);
        assert!(!drawn.contains("blocks.1.mlp.fc2.weight"), "it was not wanted");
        let norm = drawn.get("blocks.0.norm1.weight").unwrap().to_f32().unwrap();
        assert!(norm.iter().all(|value| (0.8..1.2).contains(value)), "{norm:?}");
    }
}
