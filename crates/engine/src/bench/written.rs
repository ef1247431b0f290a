//! One run of a stage as tensors in a file, for another implementation to be compared with.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::BenchError;
use super::inputs::{TIMESTEPS, sequence};
use super::measure::BenchOptions;
use super::sizes::Sizes;
use super::stage::Stage;
use super::stages::ready;
use crate::checkpoint::Layout;
use crate::device::Backend;
use crate::dit::StepTimesteps;
use crate::ops::{OpError, Ops};
use crate::tap::Tap;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenStage {
    /// Tensors of the file.
    pub tensors: usize,
}

/// What the networks show, by name: all but the text encoder's later layers, which are many and large.
#[derive(Default)]
struct Kept(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Tap for Kept {
    fn see(
        &mut self,
        name: &str,
        shape: &[usize],
        read: &dyn Fn() -> Result<Vec<f32>, OpError>,
    ) -> Result<(), OpError> {
        let later = name.strip_prefix("te.hidden_after_layer_").is_some_and(|layer| layer != "0");
        if !later {
            self.0.insert(name.to_owned(), (shape.to_vec(), read()?));
        }
        Ok(())
    }
}

/// Runs a stage of released shape once and writes what is seen inside and what comes out to the safetensors file `path`, as
/// F32. Weights are those of the diffusers layout; they and the inputs are drawn from the options' seed, and whoever compares
/// draws the same.
///
/// Errors: [`BenchError`].
pub fn write(options: &BenchOptions, path: &Path) -> Result<WrittenStage, BenchError> {
    match Backend::open(options.device, options.attention, options.host_bounds())? {
        Backend::Cpu(ops) => write_on(&ops, &Sizes::released(), options, path),
        Backend::Cuda(ops) => write_on(&*ops, &Sizes::released(), options, path),
    }
}

fn write_on<O: Ops + 'static>(
    ops: &O,
    sizes: &Sizes,
    options: &BenchOptions,
    path: &Path,
) -> Result<WrittenStage, BenchError>
where
    O::Buffer: 'static,
{
    options.check()?;
    let mut kept = Kept::default();
    ready(ops, sizes, options, Layout::Diffusers, &mut kept)?(ops, &mut kept)?;
    if let Stage::DitBlock | Stage::DitStep = options.stage {
        let [video, audio] = TIMESTEPS;
        let step = StepTimesteps::schedule(&sequence(options.stage, options.rows)?, &[video], &[audio]).remove(0);
        let picks = step.modulation_rows.iter().map(|row| *row as f32).collect();
        kept.0.insert("modulation_rows".to_owned(), (vec![options.rows], picks));
    }
    save(path, &kept.0).map_err(|source| BenchError::Write { path: path.to_owned(), source })?;
    Ok(WrittenStage { tensors: kept.0.len() })
}

fn save(path: &Path, tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) -> std::io::Result<()> {
    let bytes: Vec<Vec<u8>> =
        tensors.values().map(|(_, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect()).collect();
    let views = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, (shape, _)), bytes)| {
            let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes);
            Ok((name, view.map_err(std::io::Error::other)?))
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    safetensors::serialize_to_file(views, None, path).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::engine::MemoryBounds;
    use crate::ops::DType;
    use crate::ops::cpu::Cpu;
    use crate::ops::cuda::AttentionChoice;
    use crate::residency::MemoryBudgets;
    use crate::weights::Placement;

    #[test]
    fn a_block_is_written_with_what_it_reads_and_what_comes_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("block.safetensors");
        let options = BenchOptions {
            stage: Stage::DitBlock,
            rows: 19,
            size: (16, 16),
            dtype: DType::F32,
            device: Device::Cpu,
            attention: AttentionChoice::Auto,
            memory: MemoryBounds::default(),
            placement: Placement::Resident,
            budgets: MemoryBudgets::default(),
            repeats: 1,
            seed: 3,
        };
        let written = write_on(&Cpu::new(1 << 20), &Sizes::tiny(), &options, &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.len(), written.tensors);
        for name in ["dit.block0_out", "dit.block0_attn_out", "dit.block0_ff_out"] {
            assert_eq!(file.tensor(name).unwrap().shape(), [19, 32], "{name}");
        }
        assert_eq!(file.tensor("dit.rope_cos").unwrap().shape(), [19, 12]);
        assert_eq!(file.tensor("modulation_rows").unwrap().shape(), [19]);
        assert_eq!(file.tensor("dit.temb").unwrap().shape()[1], 16);
        let missing = folder.path().join("absent").join("block.safetensors");
        let error = write_on(&Cpu::new(1 << 20), &Sizes::tiny(), &options, &missing).unwrap_err();
        assert!(matches!(error, BenchError::Write { .. }), "{error}");
    }
}
