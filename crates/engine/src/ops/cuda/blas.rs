//! Matrix products by cuBLASLt.
//!
//! Sums are F32 whatever the operands are, without TF32 and without splitting a sum over blocks: a product of the same
//! sizes has the same bits every time.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::result;
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cudaDataType_t,
};
use cudarc::driver::sys::CUdeviceptr;

use super::context::Context;
use super::error::CudaError;
use super::memory::DeviceMemory;
use crate::ops::DType;

/// Room that algorithms may use, always the same, since another one might be chosen with more.
pub(crate) const WORKSPACE_BYTES: usize = 32 << 20;

/// How many products' algorithms are kept; a generation uses a few dozen.
const MOST_PLANS: usize = 1024;

/// The first version that is written for: that of CUDA 13.
const NEEDED_VERSION: usize = 130_000;

/// `CUBLAS_OP_T`, which the bindings leave out.
const TRANSPOSED: i32 = 1;

/// One matrix in memory, as its library counts: columns of neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Matrix {
    /// Where it begins.
    pub(super) address: CUdeviceptr,
    /// Neighbouring elements of one column.
    pub(super) rows: u64,
    /// Columns.
    pub(super) columns: u64,
    /// Elements from one column to the next.
    pub(super) step: i64,
}

/// A product `d = op(a) · b (+ bias)`; `bias` has an element for each row of `d`, in `d`'s type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) a: Matrix,
    pub(super) a_transposed: bool,
    pub(super) b: Matrix,
    pub(super) d: Matrix,
    pub(super) bias: Option<CUdeviceptr>,
    /// The type of both factors.
    pub(super) factors: DType,
    /// The type of the result: the factors' or F32.
    pub(super) result: DType,
}

/// All that the choice of an algorithm depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    sizes: [u64; 3],
    steps: [i64; 3],
    alignments: [u32; 3],
    a_transposed: bool,
    has_bias: bool,
    factors: DType,
    result: DType,
}

impl Product {
    fn key(&self) -> Key {
        let matrices = [self.a, self.b, self.d];
        Key {
            sizes: [self.d.rows, self.d.columns, if self.a_transposed { self.a.rows } else { self.a.columns }],
            steps: matrices.map(|matrix| matrix.step),
            alignments: matrices.map(|matrix| alignment(matrix.address)),
            a_transposed: self.a_transposed,
            has_bias: self.bias.is_some(),
            factors: self.factors,
            result: self.result,
        }
    }
}

/// The largest power of two that divides an address, up to 256.
pub(super) fn alignment(address: CUdeviceptr) -> u32 {
    1 << address.trailing_zeros().min(8)
}

/// A product's descriptors and its algorithm; none when the library has none.
struct Plan {
    description: cublasLtMatmulDesc_t,
    layouts: [cublasLtMatrixLayout_t; 3],
    algorithm: Option<cublasLtMatmulAlgo_t>,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the descriptors are valid and destroyed once; queued products hold copies of what they need. A
        // failure leaks a few bytes of the host.
        unsafe {
            let _ = result::destroy_matmul_desc(self.description);
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

/// The library, opened for one GPU.
pub(super) struct Blas {
    context: Arc<Context>,
    handle: cublasLtHandle_t,
    workspace: DeviceMemory,
    plans: Mutex<HashMap<Key, Plan>>,
}

// SAFETY: the library's handle may be used by several threads at a time; descriptors are only touched under the lock.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Opens the library.
    ///
    /// Errors: [`CudaError::NoLibrary`], [`CudaError::OldLibrary`], [`CudaError::Blas`], [`CudaError::OutOfMemory`].
    pub(super) fn open(context: &Arc<Context>) -> Result<Self, CudaError> {
        // SAFETY: only tries to open the library by its usual names; any other call panics where there is none.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoLibrary { library: "libcublasLt.so.13", package: "cuBLAS" });
        }
        // SAFETY: the library is there, and every release of it has the function.
        let found = unsafe { sys::cublasLtGetVersion() };
        if found < NEEDED_VERSION {
            return Err(CudaError::OldLibrary { library: "cuBLASLt", found, needed: NEEDED_VERSION });
        }
        context.bind()?;
        // Before the handle, which nothing would destroy if there were no room.
        let workspace = DeviceMemory::new(context, WORKSPACE_BYTES)?;
        let handle =
            result::create_handle().map_err(|error| context.blame(CudaError::blas("opening the library")(error)))?;
        Ok(Self { context: Arc::clone(context), handle, workspace, plans: Mutex::default() })
    }

    /// The library's version, as `130100`.
    pub(super) fn version(&self) -> usize {
        // SAFETY: the library is open.
        unsafe { sys::cublasLtGetVersion() }
    }

    /// Queues a product; false when the library has no algorithm for it, and nothing was queued.
    ///
    /// Errors: [`CudaError::Blas`], [`CudaError::NoRoom`]; [`CudaError::Lost`] also when a kernel before has faulted.
    pub(super) fn multiply(&self, product: &Product) -> Result<bool, CudaError> {
        self.context.bind()?;
        self.queue(product).map_err(|error| self.context.blame(error))
    }

    fn queue(&self, product: &Product) -> Result<bool, CudaError> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        let key = product.key();
        let plan = match plans.entry(key) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(unknown) => unknown.insert(self.plan(product, key)?),
        };
        let Some(algorithm) = &plan.algorithm else { return Ok(false) };
        if let Some(bias) = product.bias {
            plan.describe(Attribute::Bias(bias))?;
        }
        let (one, zero) = (1.0f32, 0.0f32);
        let pointer = |matrix: Matrix| matrix.address as *mut c_void;
        let [a, b, d] = plan.layouts;
        // SAFETY: descriptors, algorithm and addresses belong together: the plan was made of this product's key, and the
        // caller's matrices lie in memory of this context, which `Cuda::owns` has seen to. The workspace is used by one stream alone.
        unsafe {
            result::matmul(
                self.handle,
                plan.description,
                std::ptr::from_ref(&one).cast(),
                std::ptr::from_ref(&zero).cast(),
                pointer(product.a),
                a,
                pointer(product.b),
                b,
                pointer(product.d),
                d,
                pointer(product.d),
                d,
                algorithm,
                self.workspace.address() as *mut c_void,
                WORKSPACE_BYTES,
                self.context.stream().cast(),
            )
        }
        .map_err(CudaError::blas("multiplying"))?;
        Ok(true)
    }

    fn plan(&self, product: &Product, key: Key) -> Result<Plan, CudaError> {
        let failed = CudaError::blas("describing a product");
        let compute = cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let description = result::create_matmul_desc(compute, cudaDataType_t::CUDA_R_32F).map_err(failed)?;
        let layout = |matrix: Matrix, dtype| {
            result::create_matrix_layout(library_type(dtype), matrix.rows, matrix.columns, matrix.step)
        };
        let a = layout(product.a, product.factors).map_err(failed)?;
        let b = layout(product.b, product.factors).map_err(failed)?;
        let d = layout(product.d, product.result).map_err(failed)?;
        let mut plan = Plan { description, layouts: [a, b, d], algorithm: None };
        if product.a_transposed {
            plan.describe(Attribute::TransposedA(TRANSPOSED))?;
        }
        if let Some(bias) = product.bias {
            plan.describe(Attribute::Epilogue(cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS))?;
            plan.describe(Attribute::Bias(bias))?;
        }
        plan.algorithm = self.algorithm(&plan, key)?;
        if plan.algorithm.is_none() {
            tracing::warn!(
                ?key,
                "cuBLASLt has no algorithm for a product: a plain kernel multiplies, many times slower"
            );
        }
        Ok(plan)
    }

    /// Asks the library for its choice; none when it has none.
    fn algorithm(&self, plan: &Plan, key: Key) -> Result<Option<cublasLtMatmulAlgo_t>, CudaError> {
        use cublasLtMatmulPreferenceAttributes_t as Preference;
        let failed = CudaError::blas("choosing an algorithm");
        let preference = result::create_matmul_pref().map_err(failed)?;
        let [a, b, d] = key.alignments;
        // No scheme in which several blocks share a sum.
        let no_reduction = 0u32;
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: the preference is valid, and the value is of the attribute's size.
            unsafe { result::set_matmul_pref_attribute(preference, attribute, value, bytes) }
        };
        let number = |attribute, value: &u32| set(attribute, std::ptr::from_ref(value).cast(), size_of::<u32>());
        let workspace = std::ptr::from_ref(&WORKSPACE_BYTES).cast();
        let chosen = set(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace, size_of::<usize>())
            .and_then(|()| number(Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction))
            .and_then(|()| number(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a))
            .and_then(|()| number(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b))
            .and_then(|()| number(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d))
            .and_then(|()| number(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d))
            .and_then(|()| {
                let [a, b, d] = plan.layouts;
                // SAFETY: handle, descriptors and preference are valid.
                unsafe { result::get_matmul_algo_heuristic(self.handle, plan.description, a, b, d, d, preference) }
            });
        // SAFETY: the preference is valid and destroyed once; a failure leaks a few bytes of the host.
        let _ = unsafe { result::destroy_matmul_pref(preference) };
        match chosen {
            Ok(chosen) => Ok(Some(chosen.algo)),
            Err(error) if error.0 == sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.plans.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        // The handle belongs to the context that was current when it was made.
        if let Err(error) = self.context.bind() {
            tracing::debug!(%error, "cuBLASLt is closed on a lost GPU");
        }
        // SAFETY: the handle is valid and destroyed once. A failure is one of a context that is gone.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// An attribute of a product, with a value of the type that the library reads for it.
#[derive(Debug, Clone, Copy)]
enum Attribute {
    TransposedA(i32),
    Epilogue(cublasLtEpilogue_t),
    Bias(CUdeviceptr),
}

impl Attribute {
    /// Its name, its value and the size of that.
    fn parts(&self) -> (cublasLtMatmulDescAttributes_t, *const c_void, usize) {
        use cublasLtMatmulDescAttributes_t::*;
        fn value<T>(value: &T) -> (*const c_void, usize) {
            (std::ptr::from_ref(value).cast(), size_of::<T>())
        }
        let (name, (place, bytes)) = match self {
            Attribute::TransposedA(operation) => (CUBLASLT_MATMUL_DESC_TRANSA, value(operation)),
            Attribute::Epilogue(epilogue) => (CUBLASLT_MATMUL_DESC_EPILOGUE, value(epilogue)),
            Attribute::Bias(address) => (CUBLASLT_MATMUL_DESC_BIAS_POINTER, value(address)),
        };
        (name, place, bytes)
    }
}

impl Plan {
    /// Sets one attribute of the product.
    fn describe(&self, attribute: Attribute) -> Result<(), CudaError> {
        let (name, value, bytes) = attribute.parts();
        // SAFETY: the descriptor is valid, and the value is of the attribute's type and lives through the call, which
        // copies it.
        unsafe { result::set_matmul_desc_attribute(self.description, name, value, bytes) }
            .map_err(CudaError::blas("describing a product"))
    }
}

fn library_type(dtype: DType) -> cudaDataType_t {
    match dtype {
        DType::Bf16 => cudaDataType_t::CUDA_R_16BF,
        DType::F16 => cudaDataType_t::CUDA_R_16F,
        DType::F32 | DType::U8 | DType::U32 => cudaDataType_t::CUDA_R_32F,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_aligned_to_what_divides_it() {
        assert_eq!([0u64, 256, 512, 48, 2, 1].map(alignment), [256, 256, 256, 16, 2, 1]);
    }

    #[test]
    fn products_of_other_types_and_alignments_have_plans_of_their_own() {
        let matrix = |address| Matrix { address, rows: 4, columns: 8, step: 4 };
        let product = Product {
            a: matrix(256),
            a_transposed: true,
            b: matrix(512),
            d: matrix(1024),
            bias: None,
            factors: DType::Bf16,
            result: DType::Bf16,
        };
        let moved = Product { b: matrix(4096), bias: None, ..product };
        assert_eq!(product.key(), moved.key());
        for other in [
            Product { b: matrix(514), ..product },
            Product { result: DType::F32, ..product },
            Product { bias: Some(16), ..product },
            Product { a_transposed: false, ..product },
        ] {
            assert_ne!(product.key(), other.key());
        }
    }
}
