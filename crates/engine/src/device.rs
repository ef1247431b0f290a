//! Which device computes, and opening it.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::ops::cpu::Cpu;
use crate::ops::cuda::{AttentionChoice, Cuda, CudaError, device_count, memory_of};

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The first GPU where there is one, otherwise the processor.
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

impl Device {
    /// Returns the memory that it has of its own, in bytes.
    ///
    /// Errors: [`CudaError`] for a GPU that is not there.
    pub(crate) fn memory_bytes(self) -> Result<Option<u64>, CudaError> {
        match self {
            Device::Cuda(ordinal) => memory_of(ordinal).map(Some),
            Device::Auto if has_gpu()? => memory_of(0).map(Some),
            Device::Auto | Device::Cpu => Ok(None),
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

/// Host memory that a backend may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostBounds {
    /// Attention scores that the processor holds at a time, in bytes.
    pub(crate) attention_bytes: usize,
    /// Weights that stream again and again, which a GPU copies from where they lie, in bytes.
    pub(crate) masters_bytes: usize,
}

/// A device that has been opened.
pub(crate) enum Backend {
    /// The processor.
    Cpu(Cpu),
    /// A GPU.
    Cuda(Box<Cuda>),
}

impl Backend {
    /// Opens `device`.
    ///
    /// Errors: [`CudaError`] naming what is missing or broken: of [`Device::Auto`] too where there is a GPU, since a model
    /// of this size is of no use on a processor that was not meant to run it.
    pub(crate) fn open(device: Device, attention: AttentionChoice, bounds: HostBounds) -> Result<Self, CudaError> {
        let open = |ordinal| Cuda::open(ordinal, attention, bounds.masters_bytes);
        let cuda = |ordinal| open(ordinal).map(|cuda| Backend::Cuda(Box::new(cuda)));
        match device {
            Device::Cuda(ordinal) => cuda(ordinal),
            Device::Auto if has_gpu()? => cuda(0).map_err(|error| CudaError::Unusable(Box::new(error))),
            Device::Auto | Device::Cpu => Ok(Backend::Cpu(Cpu::new(bounds.attention_bytes))),
        }
    }

    /// Says what computes, for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Backend::Cpu(_) => "the processor".to_owned(),
            Backend::Cuda(cuda) => format!("cuda:{}, {}", cuda.gpu().ordinal, cuda.describe()),
        }
    }
}

/// Tells whether this machine has a GPU, the same for as long as the process lives: what is opened later must not compute
/// elsewhere.
///
/// Errors: [`CudaError::NoAnswer`] when there is a driver that cannot tell; the next call asks again.
fn has_gpu() -> Result<bool, CudaError> {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    if let Some(answer) = ANSWER.get() {
        return Ok(*answer);
    }
    let answer = device_count()? > 0;
    let answer = *ANSWER.get_or_init(|| answer);
    if !answer {
        tracing::info!("there is no GPU: computing on the processor");
    }
    Ok(answer)
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
        if device_count().unwrap() > 0 {
            return;
        }
        let opened = |device| {
            Backend::open(device, AttentionChoice::Auto, HostBounds { attention_bytes: 1 << 20, masters_bytes: 0 })
        };
        for _ in 0..2 {
            let auto = opened(Device::Auto).unwrap();
            assert!(matches!(auto, Backend::Cpu(_)));
            assert_eq!(auto.describe(), "the processor");
        }
        let error = opened(Device::Cuda(0)).err().unwrap();
        assert!(matches!(error, CudaError::NoDriver | CudaError::NoDevice { .. }), "{error}");
    }
}
