//! How fast things go, as far as a plan predicts times.

use serde::Serialize;

use crate::ops::DType;

/// Rates of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    /// From pinned host memory to the device, in 10^9 bytes a second.
    pub h2d_gb_per_s: f64,
    /// From a file that is in nobody's memory, in 10^9 bytes a second.
    pub file_gb_per_s: f64,
    /// The transformer in 16-bit types, in 10^12 operations a second.
    pub transformer_tflops: f64,
    /// The language model in 16-bit types, in 10^12 operations a second.
    pub text_tflops: f64,
    /// The video decoder in 16-bit types, in 10^12 operations a second.
    pub decode_tflops: f64,
    /// Anything in F32, in 10^12 operations a second.
    pub f32_tflops: f64,
}

impl Rates {
    /// What was measured on an NVIDIA H200: `docs/benchmarks.md`, stages dit-step (39,000 rows), text (200 rows), vae-decode and
    /// dit-block in F32; copies from pinned, registered or mapped and registered memory 55 GB/s, PCIe 5 with 16 lanes. A file
    /// that nobody has read was 1.2 to 3.6 GB/s on the machines at hand, and says more of their disks than of anybody else's.
    pub const H200: Self = Self {
        h2d_gb_per_s: 55.0,
        file_gb_per_s: 2.0,
        transformer_tflops: 589.0,
        text_tflops: 416.0,
        decode_tflops: 376.0,
        f32_tflops: 11.0,
    };

    /// The same machine with another transformer rate: every network in 16-bit types is as much faster or slower.
    #[must_use]
    pub fn with_transformer_tflops(self, tflops: f64) -> Self {
        let factor = tflops / self.transformer_tflops;
        Self {
            transformer_tflops: tflops,
            text_tflops: self.text_tflops * factor,
            decode_tflops: self.decode_tflops * factor,
            ..self
        }
    }

    /// Seconds for `tflop` of 10^12 operations at `rate`, or at that of F32.
    pub(super) fn compute_seconds(&self, tflop: f64, rate: f64, dtype: DType) -> f64 {
        tflop / if dtype == DType::F32 { self.f32_tflops } else { rate }
    }

    /// Seconds for `bytes` from pinned memory.
    pub(super) fn copy_seconds(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.h2d_gb_per_s * 1e9)
    }

    /// Seconds for `bytes` from a file.
    pub(super) fn read_seconds(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.file_gb_per_s * 1e9)
    }
}
