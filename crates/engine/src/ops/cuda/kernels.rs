//! The kernels of the embedded fatbin, and launching them.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUresult};

use super::context::Context;
use super::error::CudaError;
use super::rows::Rows;

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
}

impl Grid {
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
    kernels: HashMap<&'static str, Kernel>,
}

// SAFETY: functions of a loaded module are handles that any thread may use while their context lives, which `context`
// keeps; the module is never unloaded.
unsafe impl Send for Kernels {}
// SAFETY: as above; launching does not change them.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Loads the fatbin.
    ///
    /// Errors: [`CudaError::Kernels`] when it lacks a kernel or has no code for the GPU, [`CudaError::Driver`].
    pub(super) fn load(context: &Arc<Context>) -> Result<Self, CudaError> {
        context.bind()?;
        // SAFETY: the image is a whole fatbin and outlives the module.
        let module = unsafe { result::module::load_data(FATBIN.as_ptr().cast()) }
            .map_err(|error| CudaError::Kernels { problem: format!("they do not load: {:?}", error.0) })?;
        let mut kernels = HashMap::new();
        for name in NAMES {
            let problem = |what: &str| CudaError::Kernels { problem: format!("{name} {what}") };
            let symbol = CString::new(name).expect("kernel names hold no zero byte");
            // SAFETY: the module has just been loaded.
            let function = unsafe { result::module::get_function(module, symbol) }
                .map_err(|error| problem(&format!("is missing: {:?}", error.0)))?;
            // SAFETY: the function is valid; a kernel that needs less is not harmed by a higher bound.
            unsafe {
                result::function::set_function_attribute(
                    function,
                    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    MOST_SHARED_BYTES as i32 - static_shared_bytes(function),
                )
            }
            .map_err(CudaError::driver("preparing a kernel"))?;
            kernels.insert(name, Kernel { function, parameters: parameters(function) });
        }
        Ok(Self { context: Arc::clone(context), kernels })
    }

    /// Queues a kernel.
    ///
    /// Panics: When the arguments are not of the sizes that the kernel was compiled with.
    ///
    /// Errors: [`CudaError::Lost`], [`CudaError::Driver`].
    pub(super) fn launch(&self, name: &'static str, grid: Grid, arguments: &[Argument<'_>]) -> Result<(), CudaError> {
        let kernel = self.kernels.get(name).expect("only named kernels are launched");
        let sizes = arguments.iter().map(|argument| argument.value.bytes());
        assert!(kernel.parameters.iter().copied().eq(sizes), "{name} is launched with arguments of other sizes");
        self.context.bind()?;
        let mut places: Vec<*mut c_void> = arguments.iter().map(|argument| argument.value.place()).collect();
        let ((x, y), (width, height)) = (grid.blocks, grid.threads);
        // SAFETY: the function belongs to a module that stays loaded; the arguments are as many and as large as it was
        // compiled for, and are copied by the call. What they point to is memory of this context that was checked to
        // hold the shapes that go with it, and that is freed in the order of the same stream.
        unsafe {
            let stream = self.context.stream();
            let (blocks, threads) = ((x, y, 1), (width, height, 1));
            result::launch_kernel(kernel.function, blocks, threads, grid.shared_bytes, stream, &mut places)
        }
        .map_err(CudaError::driver("launching a kernel"))
    }
}

fn static_shared_bytes(function: CUfunction) -> i32 {
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    // SAFETY: the function is valid.
    unsafe { result::function::get_function_attribute(function, attribute) }.unwrap_or(0)
}

/// Asks the driver for the sizes of a kernel's parameters.
fn parameters(function: CUfunction) -> Vec<usize> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is valid, and the call writes two numbers.
        let status = unsafe { sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut size) };
        if status != CUresult::CUDA_SUCCESS {
            return sizes;
        }
        sizes.push(size);
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::hex::hex;

    /// The sources and the fatbin, with the checksums that the build script took of them.
    fn checksums() -> Vec<(String, String)> {
        let line = |line: &str| line.split_once("  ").map(|(sum, file)| (file.to_owned(), sum.to_owned()));
        include_str!("../../../kernels/kernels.sha256").lines().filter_map(line).collect()
    }

    #[test]
    fn the_fatbin_was_made_of_the_sources_that_are_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let mut named = Vec::new();
        for (file, expected) in checksums() {
            let bytes = std::fs::read(folder.join(&file)).unwrap();
            assert_eq!(hex(&Sha256::digest(bytes)), expected, "{file} has changed: run scripts/build-kernels");
            named.push(file);
        }
        let mut there: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".cu") || name.ends_with(".cuh") || name.ends_with(".fatbin"))
            .collect();
        named.sort();
        there.sort();
        assert_eq!(named, there, "run scripts/build-kernels");
    }

    #[test]
    fn every_kernel_that_is_launched_is_in_the_sources() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let sources: String = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "cuh"))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        for name in NAMES {
            assert!(
                sources.contains(&format!(" {name}("))
                    || sources.contains(&format!("({name},"))
                    || sources.contains(&format!("\n{name}(")),
                "{name}"
            );
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
