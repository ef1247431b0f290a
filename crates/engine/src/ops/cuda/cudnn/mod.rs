//! Attention by cuDNN: one plan for each shape, made when it is met first.

mod descriptor;
mod graph;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cudnn::result;
use cudarc::cudnn::sys::{self, cudnnHandle_t};

use self::graph::{Graph, KEYS, LOG_SUMS, Operands, Plan, QUERIES, RESULT, SCALE, VALUES, execute, worse};
use super::Cuda;
use super::attention::{AttentionChoice, Call, OP, Sizes};
use super::buffer::{CudaBuffer, address, address_mut};
use super::context::Context;
use super::error::{CudaError, Fault, fault};
use super::memory::DeviceMemory;
use super::rows::output;
use crate::ops::{DType, OpError, View};

/// Scores from which on a plan, which takes up to a second to make, is worth it by itself.
const WORTH_A_PLAN: usize = 1 << 16;

/// How many shapes' plans are kept.
const MOST_PLANS: usize = 256;

/// The first version that is written for.
const NEEDED_VERSION: usize = 90_000;

/// An attention that every cuDNN should have a plan for, to see whether this one plans at all.
const TRIAL: Sizes = Sizes { rows: 512, keys: 512, heads: 2, kv_heads: 2, head_dim: 128, causal: false };

/// The library, opened for one GPU.
pub(super) struct Cudnn {
    context: Arc<Context>,
    handle: cudnnHandle_t,
    /// Of every shape met so far; none where the library has said that it has no plan.
    plans: Mutex<HashMap<Operands, Option<Plan>>>,
}

// SAFETY: the handle and the plans are used under the lock alone.
unsafe impl Send for Cudnn {}
// SAFETY: as above.
unsafe impl Sync for Cudnn {}

impl Cudnn {
    /// Opens the library.
    ///
    /// Errors: [`CudaError::NoLibrary`], [`CudaError::OldLibrary`], [`CudaError::Cudnn`], [`CudaError::NoRoom`].
    pub(super) fn open(context: &Arc<Context>) -> Result<Self, CudaError> {
        // SAFETY: only tries to open the library by its usual names; any other call panics where there is none.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoLibrary { library: "libcudnn.so.9", package: "cuDNN 9" });
        }
        // Before any function that older releases lack: calling one that is not there is a panic.
        let found = result::get_version();
        if found < NEEDED_VERSION {
            return Err(CudaError::OldLibrary { library: "cuDNN", found, needed: NEEDED_VERSION });
        }
        context.bind()?;
        let failed = |error: result::CudnnError| context.blame(CudaError::cudnn("opening the library", error.0, ""));
        let handle = result::create_handle().map_err(failed)?;
        let opened = Self { context: Arc::clone(context), handle, plans: Mutex::default() };
        // SAFETY: handle and stream are valid, and the context outlives both.
        unsafe { result::set_stream(handle, context.stream().cast()) }.map_err(failed)?;
        Ok(opened)
    }

    /// Opens the library where it is there and works, for attention that others can compute as well.
    ///
    /// Errors: [`CudaError::Lost`], [`CudaError::NoRoom`]: those say nothing of the library.
    pub(super) fn open_if_useful(context: &Arc<Context>) -> Result<Option<Self>, CudaError> {
        match Self::open(context).and_then(|opened| opened.try_out().map(|()| opened)) {
            Ok(cudnn) => Ok(Some(cudnn)),
            Err(error) if fault(&error) == Some(Fault::Failed) => {
                tracing::warn!(%error, "cuDNN computes nothing: attention is computed by the engine's own kernels");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes one plan, since a library without its parts opens and then fails at every shape.
    fn try_out(&self) -> Result<(), CudaError> {
        let steps = TRIAL.heads * TRIAL.head_dim;
        let operands = Operands { sizes: TRIAL, rows: [steps; 4], heads: [TRIAL.head_dim; 4], is_bf16: true };
        match operands.plan_of_any(self.handle) {
            Ok(_) | Err(CudaError::Unsupported { .. }) => Ok(()),
            Err(error) => Err(self.context.blame(error)),
        }
    }

    /// The library's version, as `91400`.
    pub(super) fn version(&self) -> usize {
        result::get_version()
    }

    /// Makes the plan of a shape; none when the library says that it has none.
    ///
    /// Errors: those that another try may get past, and that say nothing of the shape: with them, the same shape would be
    /// computed now by one kernel and later by another.
    fn plan(&self, operands: Operands) -> Result<Option<Plan>, CudaError> {
        match operands.plan_of_any(self.handle) {
            Ok(plan) => {
                tracing::info!(sizes = ?operands.sizes, graph = ?plan.graph, "attention by cuDNN");
                Ok(Some(plan))
            }
            Err(error @ CudaError::Unsupported { .. }) => {
                tracing::warn!(sizes = ?operands.sizes, %error, "cuDNN has no plan for an attention");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Queues attention over `addresses` of queries, keys, values and the result; false when there is no plan, and nothing
    /// was queued.
    ///
    /// Errors: [`CudaError::Cudnn`], [`CudaError::NoRoom`], [`CudaError::OutOfMemory`]; [`CudaError::Lost`] also when a
    /// kernel before has faulted.
    fn attend(&self, operands: Operands, addresses: [u64; 4], scale: f32) -> Result<bool, CudaError> {
        self.context.bind()?;
        self.queue(operands, addresses, scale).map_err(|error| self.context.blame(error))
    }

    fn queue(&self, operands: Operands, addresses: [u64; 4], scale: f32) -> Result<bool, CudaError> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            // Work of theirs may be queued, and their kernels go with them.
            self.context.wait()?;
            plans.clear();
        }
        let plan = match plans.entry(operands) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.plan(operands)?),
        };
        let Some(plan) = plan else { return Ok(false) };
        let workspace = match plan.workspace_bytes {
            0 => None,
            bytes => Some(DeviceMemory::new(&self.context, bytes)?),
        };
        let [q, k, v, y] = addresses;
        let mut names = vec![QUERIES, KEYS, VALUES, RESULT, SCALE];
        let mut places = vec![q, k, v, y, std::ptr::from_ref(&scale).addr() as u64];
        let log_sums = match plan.graph {
            Graph::Unified => None,
            Graph::Composite => {
                let bytes = log_sum_bytes(operands.sizes.rows, operands.sizes.heads);
                Some(DeviceMemory::new(&self.context, bytes)?)
            }
        };
        if let Some(log_sums) = &log_sums {
            names.push(LOG_SUMS);
            places.push(log_sums.address());
        }
        let room = workspace.as_ref().map_or(0, DeviceMemory::address);
        execute(self.handle, plan, &names, &places, room).map(|()| true)
    }
}

/// Bytes of the sums that attention leaves beside its result where the library has a plan for no smaller graph.
pub(crate) fn log_sum_bytes(rows: usize, heads: usize) -> usize {
    rows * heads * DType::F32.size()
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        // Plans hold kernels, which may be queued; and the handle belongs to the GPU that was current when it was made.
        if let Err(error) = self.context.bind().and_then(|()| self.context.wait()) {
            tracing::debug!(%error, "cuDNN is closed on a lost GPU");
        }
        self.plans.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        // SAFETY: the handle is valid and destroyed once. A failure is one of a context that is gone.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Operands {
    /// Makes a plan of the first graph that the library has one for.
    fn plan_of_any(&self, handle: cudnnHandle_t) -> Result<Plan, CudaError> {
        self.plan(handle, Graph::Unified).or_else(|first| {
            tracing::debug!(error = %first, "cuDNN has no plan for attention as one node");
            self.plan(handle, Graph::Composite).map_err(|second| worse(first, second))
        })
    }
}

impl Cuda {
    /// Computes attention by cuDNN where it may and can; false when nothing was queued.
    ///
    /// Errors: [`OpError::Backend`] when it is the only choice and has no plan, or fails.
    pub(super) fn cudnn_attention(&self, call: &Call<'_>) -> Result<bool, OpError> {
        let Call { q, k, v, y, sizes, scale } = call;
        let sizes = *sizes;
        // The engine's own kernel hides later keys; so short a sum over them is no work for another library.
        if sizes.causal {
            return Ok(false);
        }
        let Some(cudnn) = &self.cudnn else { return Ok(false) };
        let only = self.attention == AttentionChoice::Cudnn;
        if !(only || sizes.rows * sizes.keys >= WORTH_A_PLAN) {
            return Ok(false);
        }
        let refused = |status: String| {
            let error = CudaError::Unsupported { doing: "computing attention", status };
            if only { Err(CudaError::of(OP)(error)) } else { Ok(false) }
        };
        if !call.is_aligned() || !address_mut(y).is_multiple_of(16) {
            return refused(format!("operands of {sizes:?} do not begin at 16 bytes"));
        }
        output(OP, "y", y)?;
        let step = |view: &View<'_, CudaBuffer>, axis: usize| view.window().strides.as_slice()[axis];
        let operands = Operands {
            sizes,
            rows: [step(q, 0), step(k, 0), step(v, 0), y.window().strides.as_slice()[0]],
            heads: [step(q, 1), step(k, 1), step(v, 1), sizes.head_dim],
            is_bf16: q.dtype() == DType::Bf16,
        };
        let addresses = [address(q), address(k), address(v), address_mut(y)];
        if cudnn.attend(operands, addresses, *scale).map_err(CudaError::of(OP))? {
            return Ok(true);
        }
        refused(format!("there is no plan for {sizes:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_reasons_the_one_that_is_no_plain_no_is_told() {
        let no = || CudaError::Unsupported { doing: "planning attention", status: "no engine".to_owned() };
        let failed = || CudaError::Cudnn { doing: "planning attention", status: "out of luck".to_owned() };
        for (one, other, unsupported) in
            [(no(), no(), true), (no(), failed(), false), (failed(), no(), false), (failed(), failed(), false)]
        {
            assert_eq!(matches!(worse(one, other), CudaError::Unsupported { .. }), unsupported);
        }
    }
}
