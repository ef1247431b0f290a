//! The kernels of the embedded fatbin, and launching them.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, OnceLock};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule, CUresult};
use sha2::{Digest, Sha256};

use super::context::Context;
use super::error::CudaError;
use super::rows::Rows;
use crate::hex::hex;

/// Machine code for every generation of GPUs, and PTX for later ones; made by `scripts/build-kernels`.
static FATBIN: &[u8] = include_bytes!("../../../kernels/kernels.fatbin");

/// The most shared memory that a kernel may ask for: what every generation from 8.0 on has.
pub(super) const MOST_SHARED_BYTES: u32 = 99 << 10;

/// Every kernel that the backend launches.
const NAMES: [&str; 39] = [
    "activate",
    "add",
    "add_bias",
    "add_channel_bias",
    "alias_free_snake",
    "attention_bf16_128",
    "attention_bf16_64",
    "attention_bf16_80",
    "attention_f16_128",
    "attention_f16_64",
    "attention_f16_80",
    "attention_plain",
    "cast_rows",
    "conv_transpose_1d",
    "cross_fade",
    "euler_step",
    "gated_add",
    "gated_add_bf16",
    "gather_rows",
    "gather_taps_1d",
    "gather_taps_3d",
    "group_norm",
    "layer_norm",
    "linear_plain",
    "mix_rows",
    "multiply",
    "norm_rotate_heads",
    "norm_rotate_heads_bf16",
    "pixels_to_rgb8",
    "rms_norm",
    "rms_norm_modulate",
    "rms_norm_modulate_bf16",
    "scale",
    "scatter_rows",
    "snake",
    "swiglu",
    "swiglu_bf16",
    "transpose",
    "unpatchify",
];

/// What may be handed to a kernel as it is.
///
/// # Safety
///
/// The type is plain memory without padding that a kernel could mistake for something else.
pub(super) unsafe trait Parameter {}

// SAFETY: plain numbers.
unsafe impl Parameter for u32 {}
// SAFETY: plain numbers.
unsafe impl Parameter for u64 {}
// SAFETY: plain numbers.
unsafe impl Parameter for f32 {}
// SAFETY: `repr(C)`, of plain numbers.
unsafe impl Parameter for Rows {}

/// One parameter of a launch.
#[derive(Clone, Copy)]
pub(super) struct Argument<'a> {
    value: &'a dyn Sized_,
}

/// A parameter's place and size.
trait Sized_ {
    fn place(&self) -> *mut c_void;
    fn bytes(&self) -> usize;
}

impl<P: Parameter> Sized_ for P {
    fn place(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn bytes(&self) -> usize {
        size_of::<P>()
    }
}

/// Hands `value` to a kernel.
pub(super) fn argument<P: Parameter>(value: &P) -> Argument<'_> {
    Argument { value }
}

/// Blocks, threads of each, and shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) blocks: (u32, u32),
    pub(super) threads: (u32, u32),
    pub(super) shared_bytes: u32,
}

impl Grid {
    const THREADS: u32 = 256;

    /// Threads for `elements`, each of which visits several when there are very many.
    pub(super) fn over(elements: u64) -> Self {
        let blocks = elements.div_ceil(u64::from(Self::THREADS)).clamp(1, 1 << 18) as u32;
        Self { blocks: (blocks, 1), threads: (Self::THREADS, 1), shared_bytes: 0 }
    }

    /// A block for each of `rows` of `width` elements.
    pub(super) fn per_row(rows: u32, width: u32) -> Self {
        let threads = width.div_ceil(4).next_multiple_of(32).clamp(32, 512);
        Self { blocks: (rows, 1), threads: (threads, 1), shared_bytes: 0 }
    }

    /// A block for each of `rows`, a thread for each eight of its `width` elements, or for several.
    pub(super) fn per_group(rows: u32, width: u32) -> Self {
        let threads = (width / 8).next_multiple_of(32).clamp(32, 256);
        Self { blocks: (rows, 1), threads: (threads, 1), shared_bytes: 0 }
    }
}

struct Kernel {
    function: CUfunction,
    /// Sizes of its parameters, in order.
    parameters: Vec<usize>,
}

/// The loaded kernels of one GPU.
pub(super) struct Kernels {
    context: Arc<Context>,
    module: CUmodule,
    kernels: HashMap<&'static str, Kernel>,
}

// SAFETY: functions of a loaded module are handles that any thread may use while their context lives, which `context`
// keeps; the module is unloaded when nobody can launch them any more.
unsafe impl Send for Kernels {}
// SAFETY: as above; launching does not change them.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Loads the fatbin.
    ///
    /// Errors: [`CudaError::Kernels`] when it lacks a kernel or has no code for the GPU; [`CudaError::Lost`],
    /// [`CudaError::NoRoom`], [`CudaError::Driver`].
    pub(super) fn load(context: &Arc<Context>) -> Result<Self, CudaError> {
        context.bind()?;
        // SAFETY: the image is a whole fatbin and outlives the module.
        let module = unsafe { result::module::load_data(FATBIN.as_ptr().cast()) }.map_err(CudaError::loading)?;
        // Made at once, so that the module is unloaded should a kernel be missing.
        let mut loaded = Self { context: Arc::clone(context), module, kernels: HashMap::new() };
        for name in NAMES {
            let symbol = CString::new(name).expect("kernel names hold no zero byte");
            // SAFETY: the module has just been loaded.
            let function = unsafe { result::module::get_function(module, symbol) }.map_err(|error| match error.0 {
                CUresult::CUDA_ERROR_NOT_FOUND => CudaError::Kernels { problem: format!("{name} is missing") },
                _ => CudaError::driver("looking for a kernel")(error),
            })?;
            let dynamic = MOST_SHARED_BYTES as i32 - static_shared_bytes(function)?;
            // SAFETY: the function is valid; a kernel that needs less is not harmed by a higher bound.
            unsafe {
                result::function::set_function_attribute(
                    function,
                    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    dynamic,
                )
            }
            .map_err(CudaError::driver("preparing a kernel"))?;
            loaded.kernels.insert(name, Kernel { function, parameters: parameters(function)? });
        }
        Ok(loaded)
    }

    /// The SHA-256 of the machine code, as 64 hex digits.
    pub(super) fn checksum() -> &'static str {
        static CHECKSUM: OnceLock<String> = OnceLock::new();
        CHECKSUM.get_or_init(|| hex(&Sha256::digest(FATBIN)))
    }

    /// Queues a kernel.
    ///
    /// Errors: [`CudaError::Kernels`] when the arguments are not of the sizes that the kernel was compiled with;
    /// [`CudaError::Lost`], [`CudaError::NoRoom`], [`CudaError::Driver`].
    pub(super) fn launch(&self, name: &'static str, grid: Grid, arguments: &[Argument<'_>]) -> Result<(), CudaError> {
        let kernel = self.kernels.get(name).expect("only named kernels are launched");
        let sizes = arguments.iter().map(|argument| argument.value.bytes());
        if !kernel.parameters.iter().copied().eq(sizes) {
            return Err(CudaError::Kernels { problem: format!("{name} takes parameters of other sizes") });
        }
        self.context.bind()?;
        let mut places: Vec<*mut c_void> = arguments.iter().map(|argument| argument.value.place()).collect();
        let ((x, y), (width, height)) = (grid.blocks, grid.threads);
        // SAFETY: the function belongs to a module that is loaded as long as `self`; the arguments are as many and as large
        // as it was compiled for, and are copied by the call. What they point to is memory of this context and stream
        // (`Cuda::owns` looks at every operand before anything else does) that was checked to hold the shapes that go with
        // it, and that is freed in the order of the same stream.
        unsafe {
            let stream = self.context.stream();
            let (blocks, threads) = ((x, y, 1), (width, height, 1));
            result::launch_kernel(kernel.function, blocks, threads, grid.shared_bytes, stream, &mut places)
        }
        .map_err(CudaError::driver("launching a kernel"))
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        // What was queued still runs; a context that is lost runs nothing and has nothing to unload.
        let idle = self.context.bind().and_then(|()| self.context.wait());
        let unloaded = idle.and_then(|()| {
            // SAFETY: the module is unloaded once, and none of its kernels runs or can be launched any more.
            unsafe { result::module::unload(self.module) }.map_err(CudaError::driver("unloading the kernels"))
        });
        if let Err(error) = unloaded {
            tracing::debug!(%error, "the kernels were not unloaded");
        }
    }
}

fn static_shared_bytes(function: CUfunction) -> Result<i32, CudaError> {
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    // SAFETY: the function is valid.
    unsafe { result::function::get_function_attribute(function, attribute) }
        .map_err(CudaError::driver("measuring a kernel"))
}

/// Asks the driver for the sizes of a kernel's parameters.
fn parameters(function: CUfunction) -> Result<Vec<usize>, CudaError> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is valid, and the call writes two numbers.
        let status = unsafe { sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut size) };
        match status {
            CUresult::CUDA_SUCCESS => sizes.push(size),
            // There is no such parameter: the one before was the last.
            CUresult::CUDA_ERROR_INVALID_VALUE => return Ok(sizes),
            _ => return Err(CudaError::driver("measuring a kernel")(result::DriverError(status))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    fn kernels() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
    }

    #[test]
    fn the_fatbin_was_made_of_the_sources_and_by_the_script_that_are_there() {
        let mut named = BTreeSet::new();
        for line in include_str!("../../../kernels/kernels.sha256").lines() {
            let (expected, file) = line.split_once("  ").unwrap();
            let bytes = std::fs::read(kernels().join(file)).unwrap();
            assert_eq!(hex(&Sha256::digest(bytes)), expected, "{file} has changed: run scripts/build-kernels");
            named.insert(file.to_owned());
        }
        // How it is compiled counts as much as what; nothing of the folder is left out.
        assert!(named.remove("../../../scripts/build-kernels"), "{named:?}");
        let there =
            std::fs::read_dir(kernels()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = there.filter(|name| name != "kernels.sha256").collect();
        assert_eq!(named, there, "run scripts/build-kernels");
        assert_eq!(Kernels::checksum(), hex(&Sha256::digest(FATBIN)));
    }

    /// What the compiler says of every kernel and architecture: registers, and static shared memory.
    fn resources() -> Vec<(&'static str, &'static str, u32)> {
        let lines = include_str!("../../../kernels/kernels.resources").lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let &[architecture, kernel, _registers, shared] = &line.split_whitespace().collect::<Vec<_>>()[..]
                else {
                    panic!("{line}")
                };
                (architecture, kernel, shared.parse().unwrap())
            })
            .collect()
    }

    #[test]
    fn the_fatbin_has_every_kernel_that_is_launched_for_every_architecture_and_no_other() {
        let resources = resources();
        for architecture in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] {
            let there: Vec<&str> =
                resources.iter().filter(|(known, ..)| *known == architecture).map(|(_, kernel, _)| *kernel).collect();
            assert_eq!(there, NAMES, "{architecture}");
        }
        assert_eq!(resources.len(), 6 * NAMES.len());
    }

    #[test]
    fn every_kernel_leaves_room_in_the_shared_memory_of_every_generation() {
        for (architecture, kernel, shared) in resources() {
            // What is asked for at a launch comes on top, and was compiled to fit beside this.
            assert!(shared <= 48 << 10, "{kernel} on {architecture}: {shared}");
        }
    }

    #[test]
    fn grids_cover_what_they_are_for_and_stay_within_a_block() {
        assert_eq!(Grid::over(0).blocks, (1, 1));
        assert_eq!(Grid::over(257).blocks, (2, 1));
        assert_eq!(Grid::over(u64::MAX).blocks, (1 << 18, 1));
        for width in [1, 31, 33, 5376, 1 << 30] {
            let (threads, _) = Grid::per_row(1, width).threads;
            assert!(threads % 32 == 0 && (32..=512).contains(&threads));
        }
    }
}
