//! Attention as graphs that cuDNN fuses, and the plans it makes of them.

use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t,
    cudnnDataType_t, cudnnHandle_t, cudnnPointwiseMode_t, cudnnReduceTensorOp_t,
};

use super::descriptor::{Descriptor, Values};
use crate::ops::cuda::attention::Sizes;
use crate::ops::cuda::error::CudaError;

const F32: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_FLOAT;

/// Names of the tensors that a run is given.
pub(super) const QUERIES: i64 = 1;
pub(super) const KEYS: i64 = 2;
pub(super) const VALUES: i64 = 3;
pub(super) const RESULT: i64 = 4;
pub(super) const SCALE: i64 = 5;
/// The logarithm of each row's sum; nobody reads it, and without it older releases find no plan.
pub(super) const LOG_SUMS: i64 = 6;

/// How a graph says attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Graph {
    /// One node; cuDNN 9.13 and later.
    Unified,
    /// Products, reductions and element-wise nodes in the pattern that older releases fuse.
    Composite,
}

/// The operands of one attention: sizes, elements from row to row and from head to head, and the element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Operands {
    pub(super) sizes: Sizes,
    /// Of queries, keys, values and the result.
    pub(super) rows: [usize; 4],
    pub(super) heads: [usize; 4],
    pub(super) is_bf16: bool,
}

/// What executes one shape, and everything that it refers to.
pub(super) struct Plan {
    pub(super) descriptor: Descriptor,
    pub(super) workspace_bytes: usize,
    pub(super) graph: Graph,
    _kept: Vec<Descriptor>,
}

/// A tensor of a graph.
struct Tensor {
    name: i64,
    dtype: cudnnDataType_t,
    sizes: [i64; 4],
    steps: [i64; 4],
}

impl Tensor {
    fn described(&self) -> Result<Descriptor, CudaError> {
        let tensor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
        tensor.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Values::DataTypes(&[self.dtype]))?;
        tensor.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Values::Numbers(&self.sizes))?;
        tensor.set(Name::CUDNN_ATTR_TENSOR_STRIDES, Values::Numbers(&self.steps))?;
        tensor.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Values::Numbers(&[self.name]))?;
        tensor.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Values::Numbers(&[16i64]))?;
        Ok(tensor)
    }

    fn real(&self) -> Result<Descriptor, CudaError> {
        self.described()?.sealed()
    }

    /// One that is never in memory.
    fn between(&self) -> Result<Descriptor, CudaError> {
        let tensor = self.described()?;
        tensor.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Values::Booleans(&[true]))?;
        tensor.sealed()
    }

    /// One whose value the host gives.
    fn by_value(&self) -> Result<Descriptor, CudaError> {
        let tensor = self.described()?;
        tensor.set(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, Values::Booleans(&[true]))?;
        tensor.sealed()
    }
}

impl Operands {
    fn dtype(&self) -> cudnnDataType_t {
        if self.is_bf16 { cudnnDataType_t::CUDNN_DATA_BFLOAT16 } else { cudnnDataType_t::CUDNN_DATA_HALF }
    }

    /// Operand `index` as `[1, heads, rows, head_dim]`.
    fn tensor(&self, name: i64, index: usize) -> Tensor {
        let (count, heads) = if matches!(name, KEYS | VALUES) {
            (self.sizes.keys, self.sizes.kv_heads)
        } else {
            (self.sizes.rows, self.sizes.heads)
        };
        let (row, head) = (self.rows[index] as i64, self.heads[index] as i64);
        Tensor {
            name,
            dtype: self.dtype(),
            sizes: [1, heads as i64, count as i64, self.sizes.head_dim as i64],
            steps: [row * count as i64, head, row, 1],
        }
    }

    /// Makes the plan of `graph`, by the library's first choice that works.
    ///
    /// Errors: [`CudaError::Unsupported`] when there is none; what stands in the way of one that there should be.
    pub(super) fn plan(&self, handle: cudnnHandle_t, graph: Graph) -> Result<Plan, CudaError> {
        let mut kept = Vec::new();
        let nodes = match graph {
            Graph::Unified => vec![self.unified(&mut kept)?],
            Graph::Composite => self.composite(&mut kept)?,
        };
        let whole = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        whole.set_descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &nodes.iter().collect::<Vec<_>>())?;
        whole.set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, Values::Handle(&handle))?;
        let whole = whole.sealed()?;
        kept.extend(nodes);
        let mut reason = CudaError::Unsupported { doing: "planning attention", status: "no engine".to_owned() };
        for mode in [cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A, cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_FALLBACK] {
            let choices = match engines(&whole, mode) {
                Ok(choices) => choices,
                Err(error) => {
                    reason = worse(reason, error);
                    continue;
                }
            };
            for choice in choices {
                match executable(handle, &choice) {
                    Ok((descriptor, workspace_bytes)) => {
                        kept.extend([choice, whole]);
                        return Ok(Plan { descriptor, workspace_bytes, graph, _kept: kept });
                    }
                    Err(error) => reason = worse(reason, error),
                }
            }
        }
        Err(reason)
    }

    fn scale() -> Tensor {
        Tensor { name: SCALE, dtype: F32, sizes: [1; 4], steps: [1; 4] }
    }

    fn unified(&self, kept: &mut Vec<Descriptor>) -> Result<Descriptor, CudaError> {
        let [q, k, v] = [(QUERIES, 0), (KEYS, 1), (VALUES, 2)].map(|(name, index)| self.tensor(name, index).real());
        let (q, k, v, y, scale) = (q?, k?, v?, self.tensor(RESULT, 3).real()?, Self::scale().by_value()?);
        let node = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR)?;
        node.set_descriptors(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, &[&q])?;
        node.set_descriptors(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, &[&k])?;
        node.set_descriptors(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, &[&v])?;
        node.set_descriptors(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, &[&y])?;
        node.set_descriptors(Name::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, &[&scale])?;
        kept.extend([q, k, v, y, scale]);
        node.sealed()
    }

    fn composite(&self, kept: &mut Vec<Descriptor>) -> Result<Vec<Descriptor>, CudaError> {
        use cudnnPointwiseMode_t::*;
        use cudnnReduceTensorOp_t::*;
        let Sizes { rows, keys, heads, .. } = self.sizes;
        let (rows, keys, heads) = (rows as i64, keys as i64, heads as i64);
        let scores = |name, dtype| Tensor {
            name,
            dtype,
            sizes: [1, heads, rows, keys],
            steps: [heads * rows * keys, rows * keys, keys, 1],
        };
        let per_row = |name| Tensor { name, dtype: F32, sizes: [1, heads, rows, 1], steps: [heads * rows, rows, 1, 1] };
        let mut transposed = self.tensor(KEYS, 1);
        transposed.sizes.swap(2, 3);
        transposed.steps.swap(2, 3);
        let (q, k, v) = (self.tensor(QUERIES, 0).real()?, transposed.real()?, self.tensor(VALUES, 2).real()?);
        let (y, scale) = (self.tensor(RESULT, 3).real()?, Self::scale().by_value()?);
        let (dots, scaled) = (scores(100, F32).between()?, scores(101, F32).between()?);
        let (top, less) = (per_row(102).between()?, scores(103, F32).between()?);
        let (powers, sums) = (scores(104, F32).between()?, per_row(105).between()?);
        let (weights, logs) = (scores(106, self.dtype()).between()?, per_row(107).between()?);
        let log_sums = per_row(LOG_SUMS).real()?;
        let nodes = vec![
            product(&q, &k, &dots)?,
            pointwise(CUDNN_POINTWISE_MUL, &dots, Some(&scale), &scaled)?,
            reduction(CUDNN_REDUCE_TENSOR_MAX, &scaled, &top)?,
            pointwise(CUDNN_POINTWISE_SUB, &scaled, Some(&top), &less)?,
            pointwise(CUDNN_POINTWISE_EXP, &less, None, &powers)?,
            reduction(CUDNN_REDUCE_TENSOR_ADD, &powers, &sums)?,
            pointwise(CUDNN_POINTWISE_LOG, &sums, None, &logs)?,
            pointwise(CUDNN_POINTWISE_ADD, &top, Some(&logs), &log_sums)?,
            pointwise(CUDNN_POINTWISE_DIV, &powers, Some(&sums), &weights)?,
            product(&weights, &v, &y)?,
        ];
        kept.extend([q, k, v, y, scale, dots, scaled, top, less, powers, sums, weights, logs, log_sums]);
        Ok(nodes)
    }
}

/// Of two reasons against a plan, the one that is not the library's plain no.
pub(super) fn worse(one: CudaError, other: CudaError) -> CudaError {
    if matches!(one, CudaError::Unsupported { .. }) { other } else { one }
}

fn engines(graph: &Descriptor, mode: cudnnBackendHeurMode_t) -> Result<Vec<Descriptor>, CudaError> {
    let question = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    question.set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    question.set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Values::Heuristic(&mode))?;
    question.sealed()?.list(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
}

fn executable(handle: cudnnHandle_t, choice: &Descriptor) -> Result<(Descriptor, usize), CudaError> {
    let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
    plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Values::Handle(&handle))?;
    plan.set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[choice])?;
    let plan = plan.sealed()?;
    let bytes = plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
    Ok((plan, usize::try_from(bytes).unwrap_or(0)))
}

fn product(a: &Descriptor, b: &Descriptor, c: &Descriptor) -> Result<Descriptor, CudaError> {
    let how = Descriptor::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?;
    how.set(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Values::DataTypes(&[F32]))?;
    let how = how.sealed()?;
    let node = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &[a])?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &[b])?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &[c])?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &[&how])?;
    node.sealed()
}

fn pointwise(
    mode: cudnnPointwiseMode_t,
    x: &Descriptor,
    other: Option<&Descriptor>,
    y: &Descriptor,
) -> Result<Descriptor, CudaError> {
    let how = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
    how.set(Name::CUDNN_ATTR_POINTWISE_MODE, Values::Pointwise(&mode))?;
    how.set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Values::DataTypes(&[F32]))?;
    let how = how.sealed()?;
    let node = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&how])?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[x])?;
    if let Some(other) = other {
        node.set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &[other])?;
    }
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[y])?;
    node.sealed()
}

fn reduction(operator: cudnnReduceTensorOp_t, x: &Descriptor, y: &Descriptor) -> Result<Descriptor, CudaError> {
    let how = Descriptor::new(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?;
    how.set(Name::CUDNN_ATTR_REDUCTION_OPERATOR, Values::Reduction(&operator))?;
    how.set(Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, Values::DataTypes(&[F32]))?;
    let how = how.sealed()?;
    let node = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, &[x])?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &[y])?;
    node.set_descriptors(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &[&how])?;
    node.sealed()
}

/// Queues `plan` over the named `addresses`.
pub(super) fn execute(
    handle: cudnnHandle_t,
    plan: &Plan,
    names: &[i64],
    addresses: &[u64],
    workspace: u64,
) -> Result<(), CudaError> {
    let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Values::Addresses(addresses))?;
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Values::Numbers(names))?;
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Values::Addresses(&[workspace]))?;
    let pack = pack.sealed()?;
    // SAFETY: plan and pack are valid; the addresses are memory of the handle's context that holds the planned shapes,
    // but for the scale's, which is the host's and is read before the call returns.
    let status = unsafe { sys::cudnnBackendExecute(handle, plan.descriptor.raw(), pack.raw()) };
    super::descriptor::check("computing attention", status)
}
