//! Which device computes, and opening it.

use std::fmt;
use std::str::FromStr;

use crate::ops::cpu::Cpu;
use crate::ops::cuda::{AttentionChoice, Cuda, CudaError, device_count};

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The first GPU where one can be used, otherwise the processor.
    Auto,
    /// The processor.
    #[default]
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
}

/// A name that is no device's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} names no device: auto, cpu, cuda or cuda:N")]
pub struct NoSuchDevice {
    /// The name.
    pub name: String,
}

impl FromStr for Device {
    type Err = NoSuchDevice;

    fn from_str(name: &str) -> Result<Self, NoSuchDevice> {
        match name {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(0)),
            _ => name
                .strip_prefix("cuda:")
                .filter(|ordinal| ordinal.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|ordinal| ordinal.parse().ok())
                .map(Device::Cuda)
                .ok_or_else(|| NoSuchDevice { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// A device that has been opened.
pub(crate) enum Backend {
    /// The processor.
    Cpu(Cpu),
    /// A GPU.
    Cuda(Box<Cuda>),
}

impl Backend {
    /// Opens `device`. On the CPU, attention holds at most `attention_bytes` of scores.
    ///
    /// Errors: [`CudaError`] naming what is missing, when a GPU was asked for by its number.
    pub(crate) fn open(device: Device, attention: AttentionChoice, attention_bytes: usize) -> Result<Self, CudaError> {
        let cuda = |ordinal| Cuda::open(ordinal, attention).map(|cuda| Backend::Cuda(Box::new(cuda)));
        let cpu = Backend::Cpu(Cpu::new(attention_bytes));
        match device {
            Device::Cpu => Ok(cpu),
            Device::Cuda(ordinal) => cuda(ordinal),
            Device::Auto if device_count() == 0 => Ok(cpu),
            Device::Auto => cuda(0).or_else(|error| {
                tracing::warn!(%error, "there is a GPU that cannot be used: computing on the processor");
                Ok(cpu)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_called_what_they_say() {
        for device in [Device::Auto, Device::Cpu, Device::Cuda(0), Device::Cuda(11)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for name in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:1x", "CPU"] {
            let error = Device::from_str(name).unwrap_err();
            assert_eq!(error.to_string(), format!("{name:?} names no device: auto, cpu, cuda or cuda:N"));
        }
    }

    #[test]
    fn without_a_gpu_auto_computes_on_the_processor_and_a_named_gpu_is_refused() {
        if device_count() > 0 {
            return;
        }
        let opened = |device| Backend::open(device, AttentionChoice::Auto, 1 << 20);
        assert!(matches!(opened(Device::Auto), Ok(Backend::Cpu(_))));
        let error = opened(Device::Cuda(0)).err().unwrap();
        assert!(matches!(error, CudaError::NoDriver | CudaError::NoDevice { .. }), "{error}");
    }
}
