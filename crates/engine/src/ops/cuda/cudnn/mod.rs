//! Attention by cuDNN: one plan for each shape, made when it is met first.

mod descriptor;
mod graph;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cudnn::result;
use cudarc::cudnn::sys::{self, cudnnHandle_t};

use self::graph::{Graph, KEYS, LOG_SUMS, Operands, Plan, QUERIES, RESULT, SCALE, VALUES, execute};
use super::Cuda;
use super::attention::{AttentionChoice, Call};
use super::buffer::{CudaBuffer, address, address_mut};
use super::context::Context;
use super::error::CudaError;
use super::memory::DeviceMemory;
use super::rows::output;
use crate::ops::{DType, OpError, View};

/// Scores from which on a plan, which takes up to a second to make, is worth it by itself.
const WORTH_A_PLAN: usize = 1 << 16;

/// How many shapes' plans are kept.
const MOST_PLANS: usize = 256;

/// The library, opened for one GPU.
pub(super) struct Cudnn {
    context: Arc<Context>,
    handle: cudnnHandle_t,
    /// Of every shape met so far; none where the library has no plan.
    plans: Mutex<HashMap<Operands, Option<Plan>>>,
}

// SAFETY: the handle and the plans are used under the lock alone.
unsafe impl Send for Cudnn {}
// SAFETY: as above.
unsafe impl Sync for Cudnn {}

impl Cudnn {
    /// Opens the library.
    ///
    /// Errors: [`CudaError::NoLibrary`], [`CudaError::Cudnn`].
    pub(super) fn open(context: &Arc<Context>) -> Result<Self, CudaError> {
        // SAFETY: only tries to open the library by its usual names; any other call panics where there is none.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoLibrary { library: "libcudnn.so.9", package: "cuDNN 9" });
        }
        context.bind()?;
        let failed = |error: result::CudnnError| CudaError::Cudnn {
            doing: "opening the library",
            status: format!("{:?}", error.0),
        };
        let handle = result::create_handle().map_err(failed)?;
        let opened = Self { context: Arc::clone(context), handle, plans: Mutex::default() };
        // SAFETY: handle and stream are valid, and the context outlives both.
        unsafe { result::set_stream(handle, context.stream().cast()) }.map_err(failed)?;
        Ok(opened)
    }

    /// The library's version, as `91400`.
    pub(super) fn version(&self) -> usize {
        result::get_version()
    }

    /// Makes the plan of a shape; none when the library has none.
    fn plan(&self, operands: Operands) -> Option<Plan> {
        let planned = operands.plan(self.handle, Graph::Unified).or_else(|error| {
            tracing::debug!(%error, "cuDNN has no plan for attention as one node");
            operands.plan(self.handle, Graph::Composite)
        });
        match &planned {
            Ok(plan) => tracing::info!(sizes = ?operands.sizes, graph = ?plan.graph, "attention by cuDNN"),
            Err(error) => tracing::info!(sizes = ?operands.sizes, %error, "cuDNN has no plan for an attention"),
        }
        planned.ok()
    }

    /// Queues attention over `addresses` of queries, keys, values and the result; the reason when there is no plan, and
    /// nothing was queued.
    fn attend(&self, operands: Operands, addresses: [u64; 4], scale: f32) -> Result<Result<(), CudaError>, CudaError> {
        self.context.bind()?;
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        let plan = match plans.entry(operands) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.plan(operands)),
        };
        let Some(plan) = plan else {
            let status = format!("no plan for {:?}", operands.sizes);
            return Ok(Err(CudaError::Cudnn { doing: "planning attention", status }));
        };
        let workspace = DeviceMemory::new(&self.context, plan.workspace_bytes)?;
        let [q, k, v, y] = addresses;
        let mut names = vec![QUERIES, KEYS, VALUES, RESULT, SCALE];
        let mut places = vec![q, k, v, y, std::ptr::from_ref(&scale).addr() as u64];
        let log_sums = match plan.graph {
            Graph::Unified => None,
            Graph::Composite => Some(DeviceMemory::new(&self.context, operands.sizes.rows * operands.sizes.heads * 4)?),
        };
        if let Some(log_sums) = &log_sums {
            names.push(LOG_SUMS);
            places.push(log_sums.address());
        }
        execute(self.handle, plan, &names, &places, workspace.address()).map(Ok)
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        self.plans.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        // SAFETY: the handle is valid and destroyed once. A failure is one of a context that is gone.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Cuda {
    /// Computes attention by cuDNN where it may and can; false when nothing was queued.
    ///
    /// Errors: [`OpError::Backend`] when it is the only choice and has no plan, or fails.
    pub(super) fn cudnn_attention(&self, call: &Call<'_>) -> Result<bool, OpError> {
        const OP: &str = "attention";
        let Call { q, k, v, y, sizes, scale } = call;
        let sizes = *sizes;
        let Some(cudnn) = &self.cudnn else { return Ok(false) };
        // The engine's own kernel hides later keys; so short a sum over them is no work for another library.
        let only = self.attention == AttentionChoice::Cudnn;
        let worth = only || sizes.rows * sizes.keys >= WORTH_A_PLAN;
        if sizes.causal || !worth || !call.is_aligned() || !address_mut(y).is_multiple_of(16) {
            return Ok(false);
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
        match cudnn.attend(operands, addresses, *scale).map_err(CudaError::of(OP))? {
            Ok(()) => Ok(true),
            Err(reason) if only => Err(CudaError::of(OP)(reason)),
            Err(_) => Ok(false),
        }
    }
}
