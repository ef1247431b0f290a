//! The GPU, its driver and its libraries.

use clapboard_engine::Device;
use clapboard_engine::ops::cuda::{Cuda, device_count};
use clapboard_jobs::Causes;

use super::finding::Finding;
use crate::settings::device::DeviceArgs;

/// Opens the GPU as a worker would. Having none is as it should be: processors compute the same, and APIs and schedulers
/// compute nothing.
pub(super) fn examine(args: &DeviceArgs) -> Finding {
    const ABOUT: &str = "gpu";
    let (device, attention) = args.prepared();
    let ordinal = match device {
        Device::Cpu => return Finding::ok(ABOUT, "not examined: workers are told to compute on the processor"),
        Device::Auto => match device_count() {
            Ok(0) => return Finding::ok(ABOUT, "none: workers compute on the processor"),
            Ok(_) => 0,
            Err(error) => return Finding::fail(ABOUT, format!("{}", Causes(&error))),
        },
        Device::Cuda(ordinal) => ordinal,
    };
    match Cuda::open(ordinal, attention, 0) {
        Ok(cuda) => {
            let gpu = cuda.gpu();
            let gib = gpu.memory_bytes as f64 / f64::from(1 << 30);
            Finding::ok(ABOUT, format!("cuda:{ordinal}, {}, {gib:.0} GiB", cuda.describe()))
        }
        Err(error) => Finding::fail(ABOUT, format!("{}", Causes(&error))),
    }
}
