//! Which attention kernel runs, and running the own ones.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::Cuda;
use super::buffer::{CudaBuffer, address, address_mut};
use super::kernels::{Grid, MOST_SHARED_BYTES, Parameter, argument};
use super::rows::{input, output, small};
use crate::ops::{DType, OpError, View, ViewMut};

pub(super) const OP: &str = "attention";

/// The widest head that the plain kernel takes; mirrors what its threads hold in `attention_plain.cuh`.
const PLAIN_MOST_WIDTH: usize = 256;

/// Queries and keys of one block; mirror `attention_plain.cuh`.
const PLAIN_TILE: [u32; 2] = [16, 32];

/// Queries and keys of one block; mirror `attention_mma.cuh`.
const MMA_TILE: [u32; 2] = [128, 64];

/// Head widths that the tensor-core kernel was compiled for; a narrower head is filled up with zeros.
const MMA_WIDTHS: [u32; 3] = [64, 80, 128];

/// How many shapes are remembered so that the log tells of each once.
const MOST_TOLD: usize = 1024;

/// Kernels, types and sizes that the log has told of.
pub(super) type Told = Mutex<HashSet<(&'static str, DType, Sizes)>>;

/// Which attention computes in 16-bit types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttentionChoice {
    /// cuDNN's where it has a plan for a shape, the engine's own elsewhere.
    #[default]
    Auto,
    /// cuDNN's; a shape that it has no plan for, or operands that it does not take, are an error. Attention that hides
    /// later keys, the language model's, is computed by the engine's own all the same.
    Cudnn,
    /// The engine's own.
    Native,
}

/// What the tensor-core kernel is told; mirrors the struct of the same name in `attention_mma.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct AttentionShape {
    addresses: [u64; 4],
    /// Elements from row to row and from head to head, of queries, keys and values.
    steps: [i64; 6],
    y_step: i64,
    rows: u32,
    keys: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    causal: u32,
    scale: f32,
    _end: u32,
}

// SAFETY: `repr(C)`, of plain numbers; the last one fills what the kernel's struct is padded by.
unsafe impl Parameter for AttentionShape {}

/// The sizes of one attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Sizes {
    pub(super) rows: usize,
    pub(super) keys: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) causal: bool,
}

/// One attention: its operands, which have been checked against each other.
pub(super) struct Call<'a> {
    pub(super) q: View<'a, CudaBuffer>,
    pub(super) k: View<'a, CudaBuffer>,
    pub(super) v: View<'a, CudaBuffer>,
    pub(super) y: ViewMut<'a, CudaBuffer>,
    pub(super) sizes: Sizes,
    pub(super) scale: f32,
}

impl Cuda {
    pub(super) fn attention_of(
        &self,
        q: View<'_, CudaBuffer>,
        k: View<'_, CudaBuffer>,
        v: View<'_, CudaBuffer>,
        scale: f32,
        causal: bool,
        y: ViewMut<'_, CudaBuffer>,
    ) -> Result<(), OpError> {
        let sizes = sizes(&q, &k, &v, causal, &y)?;
        if sizes.rows == 0 {
            return Ok(());
        }
        let halves = q.dtype() != DType::F32 && [k.dtype(), v.dtype(), y.dtype()].iter().all(|d| *d == q.dtype());
        let call = Call { q, k, v, y, sizes, scale };
        if halves && self.attention != AttentionChoice::Native && self.cudnn_attention(&call)? {
            return Ok(());
        }
        match mma_width(sizes.head_dim).filter(|_| halves && call.is_aligned()) {
            Some(width) => {
                if self.is_news("attention", call.q.dtype(), sizes) {
                    tracing::info!(?sizes, width, "attention by the engine's own kernel");
                }
                self.mma_attention(width, &call)
            }
            None => {
                if halves && self.is_news("attention_plain", call.q.dtype(), sizes) {
                    tracing::warn!(
                        ?sizes,
                        "attention in 16 bits by the plain kernel, many times slower: heads are wider than 128, or do not \
                         begin at 16 bytes"
                    );
                }
                self.plain_attention(&call)
            }
        }
    }

    /// Tells whether the log has nothing yet of `kernel` over these sizes.
    fn is_news(&self, kernel: &'static str, dtype: DType, sizes: Sizes) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has met so many shapes has other worries than to hear of one twice.
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert((kernel, dtype, sizes))
    }

    fn plain_attention(&self, call: &Call<'_>) -> Result<(), OpError> {
        let Call { q, k, v, y, sizes, scale } = call;
        if sizes.head_dim > PLAIN_MOST_WIDTH {
            let expected = vec![sizes.rows, sizes.heads, PLAIN_MOST_WIDTH];
            return Err(OpError::Shape { op: OP, name: "q", expected, actual: q.shape().to_vec() });
        }
        let ((q, _), (k, _), (v, _)) = (input(OP, "q", q)?, input(OP, "k", k)?, input(OP, "v", v)?);
        let (y, _) = output(OP, "y", y)?;
        let [rows, keys, heads, kv_heads] = [
            small(OP, "q", sizes.rows)?,
            small(OP, "k", sizes.keys)?,
            small(OP, "q", sizes.heads)?,
            small(OP, "k", sizes.kv_heads)?,
        ];
        let causal = u32::from(sizes.causal);
        let [queries, some_keys] = PLAIN_TILE;
        let shared_bytes = 4 * ((queries + 2 * some_keys) * (q.width + 1) + queries * (some_keys + 1));
        let grid = Grid { blocks: (rows.div_ceil(queries), heads), threads: (128, 1), shared_bytes };
        let arguments = [
            argument(&q),
            argument(&k),
            argument(&v),
            argument(&y),
            argument(&rows),
            argument(&keys),
            argument(&heads),
            argument(&kv_heads),
            argument(scale),
            argument(&causal),
        ];
        self.launch(OP, "attention_plain", grid, &arguments)
    }

    fn mma_attention(&self, width: u32, call: &Call<'_>) -> Result<(), OpError> {
        let Call { q, k, v, y, sizes, scale } = call;
        let step = |view: &View<'_, CudaBuffer>, axis: usize| view.window().strides.as_slice()[axis] as i64;
        let shape = AttentionShape {
            addresses: [address(q), address(k), address(v), address_mut(y)],
            steps: [step(q, 0), step(q, 1), step(k, 0), step(k, 1), step(v, 0), step(v, 1)],
            y_step: y.window().strides.as_slice()[0] as i64,
            rows: small(OP, "q", sizes.rows)?,
            keys: small(OP, "k", sizes.keys)?,
            heads: small(OP, "q", sizes.heads)?,
            kv_heads: small(OP, "k", sizes.kv_heads)?,
            head_dim: small(OP, "q", sizes.head_dim)?,
            causal: u32::from(sizes.causal),
            scale: *scale,
            _end: 0,
        };
        output(OP, "y", y)?;
        let kernel = match (q.dtype(), width) {
            (DType::F16, 64) => "attention_f16_64",
            (DType::F16, 80) => "attention_f16_80",
            (DType::F16, _) => "attention_f16_128",
            (_, 64) => "attention_bf16_64",
            (_, 80) => "attention_bf16_80",
            (_, _) => "attention_bf16_128",
        };
        let [queries, _] = MMA_TILE;
        let blocks = (shape.rows.div_ceil(queries), shape.heads);
        let grid = Grid { blocks, threads: (256, 1), shared_bytes: mma_shared_bytes(width) };
        self.launch(OP, kernel, grid, &[argument(&shape)])
    }
}

/// Two tiles of keys and two of values, each row padded by 16 bytes.
const fn mma_shared_bytes(width: u32) -> u32 {
    4 * MMA_TILE[1] * (width + 8) * 2
}

const _: () = assert!(mma_shared_bytes(MMA_WIDTHS[2]) <= MOST_SHARED_BYTES);

/// The width of the tensor-core kernel that takes heads of `head_dim`; none when no such kernel does.
fn mma_width(head_dim: usize) -> Option<u32> {
    let fits = |width: &u32| head_dim <= *width as usize;
    MMA_WIDTHS.into_iter().find(fits).filter(|_| head_dim.is_multiple_of(8))
}

impl Call<'_> {
    /// Tells whether every row of every head begins where 16 bytes can be copied at once.
    pub(super) fn is_aligned(&self) -> bool {
        let inputs = [&self.q, &self.k, &self.v].iter().all(|x| {
            let window = x.window();
            let &[row, head, element] = window.strides.as_slice() else { return false };
            element == 1 && row.is_multiple_of(8) && head.is_multiple_of(8) && address(x).is_multiple_of(16)
        });
        let steps = self.y.window().strides;
        let &[row, element] = steps.as_slice() else { return false };
        inputs && element == 1 && row.is_multiple_of(2) && address_mut(&self.y).is_multiple_of(4)
    }
}

/// Checks the shapes against each other.
fn sizes(
    q: &View<'_, CudaBuffer>,
    k: &View<'_, CudaBuffer>,
    v: &View<'_, CudaBuffer>,
    causal: bool,
    y: &ViewMut<'_, CudaBuffer>,
) -> Result<Sizes, OpError> {
    let &[rows, heads, head_dim] = q.shape() else {
        return Err(OpError::Shape { op: OP, name: "q", expected: vec![0, 0, 0], actual: q.shape().to_vec() });
    };
    let &[keys, kv_heads, _] = k.shape() else {
        return Err(OpError::Shape { op: OP, name: "k", expected: vec![0, 0, 0], actual: k.shape().to_vec() });
    };
    k.expect_shape(OP, "k", &[keys, kv_heads, head_dim])?;
    v.expect_shape(OP, "v", &[keys, kv_heads, head_dim])?;
    y.expect_shape(OP, "y", &[rows, heads * head_dim])?;
    let shared = kv_heads > 0 && heads % kv_heads == 0;
    if !shared || keys == 0 || head_dim == 0 || (causal && rows != keys) {
        let expected = vec![rows, heads, head_dim];
        return Err(OpError::Shape { op: OP, name: "k", expected, actual: k.shape().to_vec() });
    }
    Ok(Sizes { rows, keys, heads, kv_heads, head_dim, causal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_take_the_narrowest_kernel_that_holds_them() {
        let widths = [8, 16, 64, 72, 80, 96, 128].map(mma_width);
        assert_eq!(widths, [64, 64, 64, 80, 80, 128, 128].map(Some));
        assert_eq!([4, 20, 136, 256].map(mma_width), [None; 4]);
    }

    #[test]
    fn the_struct_has_the_size_of_its_twin() {
        assert_eq!(size_of::<AttentionShape>(), 120);
    }
}
