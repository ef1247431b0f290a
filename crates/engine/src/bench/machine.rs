//! What a device tells of its work.

use std::time::Instant;

use super::error::BenchError;
use crate::ops::Ops;
use crate::ops::cpu::Cpu;
use crate::ops::cuda::Cuda;

/// A device that is measured.
pub(crate) trait Machine: Ops {
    /// What it is and computes with.
    fn describe(&self) -> String;

    /// What the vendor calls it.
    fn model(&self) -> Option<&str>;

    /// The seconds that `work` takes, by the device's own clock.
    fn timed(&self, work: &mut dyn FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError>;

    /// Bytes in use at the most since [`Machine::forget_peak`]; none where nobody counts.
    fn peak(&self) -> Result<Option<u64>, BenchError>;

    /// Starts counting anew.
    fn forget_peak(&self) -> Result<(), BenchError>;

    /// Bytes of its memory that nobody has; none for a device without memory of its own.
    fn free(&self) -> Result<Option<u64>, BenchError>;

    /// Bytes of its memory that somebody has, of this process or another.
    fn taken(&self) -> Result<Option<u64>, BenchError>;
}

impl Machine for Cpu {
    fn describe(&self) -> String {
        format!("processor, {}", std::env::consts::ARCH)
    }

    fn model(&self) -> Option<&str> {
        None
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
        let start = Instant::now();
        work()?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn peak(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }

    fn forget_peak(&self) -> Result<(), BenchError> {
        Ok(())
    }

    fn free(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }

    fn taken(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }
}

impl Machine for Cuda {
    fn describe(&self) -> String {
        format!("cuda:{}, {}, driver {}", self.gpu().ordinal, Cuda::describe(self), self.gpu().driver_version)
    }

    fn model(&self) -> Option<&str> {
        Some(&self.gpu().name)
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
        Cuda::timed(self, work)
    }

    fn peak(&self) -> Result<Option<u64>, BenchError> {
        Ok(self.peak_memory()?)
    }

    fn forget_peak(&self) -> Result<(), BenchError> {
        Ok(self.forget_peak_memory()?)
    }

    fn free(&self) -> Result<Option<u64>, BenchError> {
        Ok(Some(self.free_memory()?))
    }

    fn taken(&self) -> Result<Option<u64>, BenchError> {
        Ok(Some((self.gpu().memory_bytes as u64).saturating_sub(self.free_memory()?)))
    }
}
