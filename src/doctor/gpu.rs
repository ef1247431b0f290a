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
        Device::Auto if device_count() == 0 => return Finding::ok(ABOUT, "none: workers compute on the processor"),
        Device::Auto => 0,
        Device::Cuda(ordinal) => ordinal,
    };
    match Cuda::open(ordinal, attention) {
        Ok(cuda) => {
            let gpu = cuda.gpu();
            let gib = gpu.memory_bytes as f64 / f64::from(1 << 30);
            Finding::ok(
                ABOUT,
                format!("cuda:{ordinal}, {}, {gib:.0} GiB, driver {}", cuda.describe(), gpu.driver_version),
            )
        }
        Err(error) if device == Device::Auto => {
            Finding::warn(ABOUT, format!("{}; workers compute on the processor", Causes(&error)))
        }
        Err(error) => Finding::fail(ABOUT, format!("{}", Causes(&error))),
    }
}
