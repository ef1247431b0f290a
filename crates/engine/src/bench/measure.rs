//! Measuring a stage.

use super::error::BenchError;
use super::machine::Machine;
use super::metered::Metered;
use super::sizes::Sizes;
use super::stage::Stage;
use super::stages::ready;
use super::work::Work;
use crate::checkpoint::Layout;
use crate::device::{Backend, Device, HostBounds};
use crate::engine::MemoryBounds;
use crate::ops::DType;
use crate::ops::cuda::AttentionChoice;
use crate::residency::MemoryBudgets;
use crate::tap::NoTap;
use crate::weights::Placement;

/// What to measure, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchOptions {
    /// The stage.
    pub stage: Stage,
    /// Rows of its sequence, or frames of its film: [`Stage::counts`].
    pub rows: usize,
    /// Columns and rows of the film's frames.
    pub size: (usize, usize),
    /// What it computes in: one of [`Stage::dtypes`].
    pub dtype: DType,
    /// What computes.
    pub device: Device,
    /// Which attention computes in 16-bit types on a GPU.
    pub attention: AttentionChoice,
    /// Bounds of buffers.
    pub memory: MemoryBounds,
    /// Which weights of the transformer and the text encoder stay on the device.
    pub placement: Placement,
    /// Memory that weights may take where they stream.
    pub budgets: MemoryBudgets,
    /// How many times it is measured, after it ran twice.
    pub repeats: usize,
    /// What weights and inputs are drawn from.
    pub seed: u64,
}

impl BenchOptions {
    pub(super) fn host_bounds(&self) -> HostBounds {
        HostBounds { attention_bytes: self.memory.attention_bytes, masters_bytes: self.budgets.masters_bytes(0) }
    }

    /// Errors: [`BenchError::Dtype`] for a type that the stage does not compute in.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let &Self { stage, dtype, .. } = self;
        if stage.dtypes().contains(&dtype) { Ok(()) } else { Err(BenchError::Dtype { stage, dtype }) }
    }
}

/// What a stage took.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// What computed.
    pub device: String,
    /// Seconds of each run, the shortest first.
    pub seconds: Vec<f64>,
    /// What one run computes and moves.
    pub work: Work,
    /// Whether the device's roofline is known.
    pub has_roofline: bool,
    /// Bytes of the device's memory in use at the most, weights included; none where nobody counts.
    pub peak_bytes: Option<u64>,
}

impl Measurement {
    /// The middle one of the measured times.
    pub fn median_seconds(&self) -> f64 {
        self.seconds[self.seconds.len() / 2]
    }

    /// Floating-point operations a second.
    pub fn flops_per_second(&self) -> f64 {
        self.work.flops / self.median_seconds()
    }

    /// Bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.work.bytes / self.median_seconds()
    }

    /// The shortest possible time over the measured one; none for a device that nobody has measured.
    pub fn roofline_share(&self) -> Option<f64> {
        self.has_roofline.then(|| self.work.floor_seconds / self.median_seconds())
    }
}

/// Measures a stage over released shapes.
///
/// Errors: [`BenchError`] for sizes or types that the stage cannot have, a device that cannot be used, and what fails.
pub fn run(options: &BenchOptions) -> Result<Measurement, BenchError> {
    match Backend::open(options.device, options.attention, options.host_bounds())? {
        Backend::Cpu(ops) => run_on(ops, &Sizes::released(), options),
        Backend::Cuda(ops) => run_on(*ops, &Sizes::released(), options),
    }
}

fn run_on<O: Machine + 'static>(ops: O, sizes: &Sizes, options: &BenchOptions) -> Result<Measurement, BenchError>
where
    O::Buffer: 'static,
{
    options.check()?;
    let repeats = options.repeats;
    if repeats == 0 {
        return Err(BenchError::NoRepeats);
    }
    let ops = Metered::new(ops);
    let mut ready = ready(&ops, sizes, options, Layout::Original, &mut NoTap)?;
    let mut once = || ready(&ops, &mut NoTap);
    // Plans, casts of weights and the pool's memory are made by the first run.
    let work = ops.counted(&mut once)?;
    ops.ops.forget_peak()?;
    ops.ops.timed(&mut once)?;
    let mut seconds = (0..repeats).map(|_| ops.ops.timed(&mut once)).collect::<Result<Vec<f64>, BenchError>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(Measurement {
        device: ops.ops.describe(),
        seconds,
        work,
        has_roofline: ops.roofline().is_some(),
        peak_bytes: ops.ops.peak()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::cpu::Cpu;

    fn options(stage: Stage, dtype: DType) -> BenchOptions {
        BenchOptions {
            stage,
            rows: if stage.counts() == "rows" { 40 } else { 22 },
            size: (32, 32),
            dtype,
            device: Device::Cpu,
            attention: AttentionChoice::Auto,
            memory: MemoryBounds::default(),
            placement: Placement::Resident,
            budgets: MemoryBudgets::default(),
            repeats: 3,
            seed: 1,
        }
    }

    fn measured(options: &BenchOptions) -> Result<Measurement, BenchError> {
        run_on(Cpu::new(1 << 24), &Sizes::tiny(), options)
    }

    #[test]
    fn every_stage_runs_in_every_type_that_it_has() {
        for stage in Stage::ALL {
            for &dtype in stage.dtypes() {
                let measurement = measured(&options(stage, dtype)).unwrap();
                assert_eq!(measurement.seconds.len(), 3, "{stage}");
                assert!(measurement.seconds.is_sorted() && measurement.seconds[0] > 0.0, "{stage}");
                assert!(measurement.work.flops > 0.0 && measurement.work.bytes > 0.0, "{stage}");
                assert_eq!(measurement.roofline_share(), None, "{stage}: nobody has measured this processor");
            }
        }
    }

    #[test]
    fn a_block_is_counted_as_its_products_and_attention() {
        let config = Sizes::tiny().dit;
        let work = measured(&options(Stage::DitBlock, DType::F32)).unwrap().work;
        let (rows, hidden, inner, ffn) =
            (40.0, config.hidden_size as f64, config.inner_dim() as f64, config.ffn_dim as f64);
        let products = rows * (hidden * 3.0 * inner + inner * hidden + 3.0 * hidden * ffn);
        let attention = 4.0 * rows * rows * inner;
        assert_eq!(work.flops, 2.0 * products + attention, "AdaLN is a request's, not a block's");
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let error = measured(&options(Stage::Audio, DType::Bf16)).unwrap_err().to_string();
        assert_eq!(error, "audio does not compute in BF16: it does in F32");
        let none = BenchOptions { repeats: 0, ..options(Stage::Text, DType::F32) };
        assert!(matches!(measured(&none), Err(BenchError::NoRepeats)));
        let odd = BenchOptions { size: (40, 32), ..options(Stage::VaeDecode, DType::F32) };
        assert_eq!(measured(&odd).unwrap_err().to_string(), "40 x 32 pixels are not multiples of 16 of at least 16");
        let long = BenchOptions { rows: usize::MAX, ..options(Stage::VaeDecode, DType::F32) };
        assert!(matches!(measured(&long), Err(BenchError::Rows { .. })));
    }

    #[test]
    fn the_share_of_the_roofline_is_the_floor_over_the_median() {
        let work = Work { flops: 8.0, bytes: 4.0, floor_seconds: 1.0, ..Work::default() };
        let measurement = Measurement {
            device: String::new(),
            seconds: vec![1.5, 2.0, 9.0],
            work,
            has_roofline: true,
            peak_bytes: None,
        };
        assert_eq!(measurement.roofline_share(), Some(0.5));
        assert_eq!((measurement.flops_per_second(), measurement.bytes_per_second()), (4.0, 2.0));
    }
}
