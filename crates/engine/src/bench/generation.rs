//! A whole generation over drawn weights of released shapes, and the memory that it takes.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clapboard_h3::{GenerationSpec, Partition, VideoRequest};
use sha2::{Digest, Sha256};

use super::error::BenchError;
use super::machine::Machine;
use crate::checkpoint::tiny::write_sparse_released;
use crate::checkpoint::{Checkpoint, Component, ComponentId, Inventory, Layout};
use crate::components::Components;
use crate::control::{Command, Control};
use crate::device::Backend;
use crate::engine::EngineConfig;
use crate::generate::{Networks, Request};
use crate::hex::hex;
use crate::host_memory;
use crate::load::{LoadError, Loading, Mapped};
use crate::progress::{Phase, Progress, ProgressEvent};
use crate::resume::{Continuation, NoCheckpoints};
use crate::run::Run;
use crate::sink::{FrameSink, MediaChunk, MediaFormat, SinkError};
use crate::tap::NoTap;

/// The film to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationOptions {
    /// Its frames' sides, as `1344x768`.
    pub size: String,
    /// Its frames.
    pub frames: u32,
    /// Sigma points; the transformer runs once less.
    pub points: u32,
    /// What weights and noise are drawn from.
    pub seed: u64,
}

/// What a generation took.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationMeasurement {
    /// What computed.
    pub device: String,
    /// Rows of the sequence.
    pub rows: usize,
    /// Seconds of each phase.
    pub phase_seconds: Vec<(Phase, f64)>,
    /// Seconds of each step; the first with what begins the request.
    pub step_seconds: Vec<f64>,
    /// Bytes of the device that were not free, other processes' among them, at the most in each phase: looked at before every
    /// layer, block and tile. None where the device has no memory of its own.
    pub taken_bytes: Vec<(Phase, u64)>,
    /// The same before any weight was brought.
    pub taken_before_bytes: Option<u64>,
    /// Bytes of the device's memory pool in use at the most, as the engine counts them.
    pub pool_bytes: Option<u64>,
    /// Private memory of the process on the host at the most, drawn weights among it.
    pub private_bytes: u64,
    /// SHA-256 of samples and frames.
    pub digest: String,
}

/// Makes one film over drawn weights. Blocks of the transformer have bytes of their own, but for their AdaLN projections;
/// the text encoder's layers share theirs. A checkpoint without data, of which only configs are read, is written to `folder`.
///
/// Errors: [`BenchError`] for a film that cannot be, weights that have no room, and what fails.
pub fn run_generation(
    config: &EngineConfig,
    options: &GenerationOptions,
    folder: &Path,
) -> Result<GenerationMeasurement, BenchError> {
    let (layout, partition) = (Layout::Original, Partition::Fl2va);
    write_sparse_released(layout, folder)?;
    let checkpoint = Checkpoint::open(folder).map_err(LoadError::from)?;
    let components = drawn(&checkpoint, layout, options.seed)?;
    let mapped = Mapped { checkpoint, components, partition };
    match Backend::open(config.device, config.attention, config.host_bounds())? {
        Backend::Cpu(ops) => run_on(&ops, config, options, &mapped),
        Backend::Cuda(ops) => run_on(&*ops, config, options, &mapped),
    }
}

/// Draws the weights of a checkpoint's configs.
fn drawn(checkpoint: &Checkpoint, layout: Layout, seed: u64) -> Result<Components, BenchError> {
    let draw = |id: ComponentId, distinct: fn(&str) -> bool| {
        let inventory: Inventory = checkpoint.inventory(id)?;
        Component::drawn_apart(&inventory, layout, seed, |_| true, distinct).map(Arc::new)
    };
    let of_blocks = |name: &str| name.starts_with("blocks.") && !name.contains("adaln");
    let none = |_: &str| false;
    let draw = |id, distinct| draw(id, distinct).map_err(LoadError::from);
    Ok(Components {
        text_encoder: draw(ComponentId::TextEncoder, none)?,
        dit: draw(ComponentId::Dit(Partition::Fl2va), of_blocks)?,
        video_vae: draw(ComponentId::VideoVae, none)?,
        audio_vae: draw(ComponentId::AudioVae, none)?,
    })
}

fn run_on<O: Machine + 'static>(
    ops: &O,
    config: &EngineConfig,
    options: &GenerationOptions,
    mapped: &Mapped,
) -> Result<GenerationMeasurement, BenchError>
where
    O::Buffer: 'static,
{
    let spec = spec(options, &mapped.checkpoint)?;
    let taken_before_bytes = ops.taken()?;
    let watch = Watch::new(ops);
    let loading = Loading { placement: config.placement, control: &watch, progress: &watch };
    let networks = Networks::load(ops, mapped, config, ops.free()?, loading)?;
    ops.forget_peak()?;
    let mut sink = Hashed(Sha256::new());
    let mut run = Run { control: &watch, progress: &watch, tap: &mut NoTap };
    let from_noise = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    let report = networks.generate(ops, Request::from(&spec), "drawn", &mut sink, from_noise, &mut run);
    let report = report.map_err(|error| BenchError::Generate(Box::new(error)))?;
    let pool_bytes = ops.peak()?;
    let seen = watch.into_seen();
    Ok(GenerationMeasurement {
        device: ops.describe(),
        rows: report.rows,
        phase_seconds: report.phase_seconds,
        step_seconds: seen.steps.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect(),
        taken_bytes: seen.taken,
        taken_before_bytes,
        pool_bytes,
        private_bytes: seen.private,
        digest: hex(&sink.0.finalize()),
    })
}

fn spec(options: &GenerationOptions, checkpoint: &Checkpoint) -> Result<GenerationSpec, BenchError> {
    let profile = checkpoint.profile(&[Partition::Fl2va]).map_err(LoadError::from)?;
    let request = VideoRequest {
        prompt: Some("A fox crosses a frozen lake at dawn while snow begins to fall.".to_owned()),
        size: Some(options.size.clone()),
        num_frames: Some(i64::from(options.frames)),
        num_inference_steps: Some(i64::from(options.points)),
        ..VideoRequest::default()
    };
    request.resolve(&profile, options.seed).map_err(|invalid| BenchError::Film(invalid.to_string()))
}

/// Looks at memory and time wherever the engine asks or tells something.
struct Watch<'a, O> {
    ops: &'a O,
    seen: Mutex<Seen>,
}

struct Seen {
    phase: Option<Phase>,
    taken: Vec<(Phase, u64)>,
    private: u64,
    /// When the phase that denoises began, and each of its steps ended.
    steps: Vec<Duration>,
    begun: Instant,
}

impl<'a, O: Machine> Watch<'a, O> {
    fn new(ops: &'a O) -> Self {
        let seen = Seen { phase: None, taken: Vec::new(), private: 0, steps: Vec::new(), begun: Instant::now() };
        Self { ops, seen: Mutex::new(seen) }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let taken = match self.ops.taken() {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(%error, "the device does not tell what is free");
                None
            }
        };
        let mut seen = self.seen();
        if let (Some(phase), Some(taken)) = (seen.phase, taken) {
            match seen.taken.iter_mut().find(|(known, _)| *known == phase) {
                Some((_, most)) => *most = taken.max(*most),
                None => seen.taken.push((phase, taken)),
            }
        }
    }

    fn into_seen(self) -> Seen {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Machine> Control for Watch<'_, O> {
    fn command(&self) -> Command {
        self.look();
        Command::Run
    }
}

impl<O: Machine> Progress for Watch<'_, O> {
    fn report(&self, event: ProgressEvent) {
        self.look();
        let mut seen = self.seen();
        seen.private = seen.private.max(host_memory::private().unwrap_or(0));
        match event {
            ProgressEvent::Phase(phase) => {
                seen.phase = Some(phase);
                if phase == Phase::Denoise {
                    let now = seen.begun.elapsed();
                    seen.steps.push(now);
                }
            }
            ProgressEvent::Step { .. } => {
                let now = seen.begun.elapsed();
                seen.steps.push(now);
            }
            ProgressEvent::Part { .. } => {}
        }
    }
}

/// Takes samples and frames and keeps their digest.
struct Hashed(Sha256);

impl FrameSink for Hashed {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        match chunk {
            MediaChunk::Samples(samples) => samples.iter().for_each(|sample| self.0.update(sample.to_le_bytes())),
            MediaChunk::Frames(frames) => self.0.update(&frames),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::tiny::write_tiny;
    use crate::ops::cpu::Cpu;
    use crate::text::Presenter;
    use crate::weights::{Placement, ResidentLayers};

    fn measured(folder: &Path, placement: Placement, options: &GenerationOptions) -> GenerationMeasurement {
        let checkpoint = Checkpoint::open(folder).unwrap();
        let components = drawn(&checkpoint, Layout::Original, options.seed).unwrap();
        let mapped = Mapped { checkpoint, components, partition: Partition::Fl2va };
        let config = EngineConfig { placement, ..EngineConfig::new(folder, Partition::Fl2va) };
        run_on(&Cpu::new(1 << 24), &config, options, &mapped).unwrap()
    }

    #[test]
    fn a_checkpoint_without_data_presents_the_prompt_of_a_released_film() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("released");
        write_sparse_released(Layout::Original, &folder).unwrap();
        let checkpoint = Checkpoint::open(&folder).unwrap();
        let options = GenerationOptions { size: "1344x768".to_owned(), frames: 124, points: 4, seed: 0 };
        let spec = spec(&options, &checkpoint).unwrap();
        assert_eq!(spec.forwards(), 3);
        let presented = Presenter::load(&checkpoint).unwrap().present(&spec.prompt, &[]).unwrap();
        assert!(presented.presentation.ids().len() > 10);
    }

    #[test]
    fn a_film_of_drawn_weights_is_the_same_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("tiny");
        write_tiny(3, Layout::Original, &folder).unwrap();
        let options = GenerationOptions { size: "64x32".to_owned(), frames: 22, points: 3, seed: 4 };
        let resident = measured(&folder, Placement::Resident, &options);
        assert_eq!(resident.step_seconds.len(), 2);
        assert!(resident.phase_seconds.iter().any(|(phase, _)| *phase == Phase::DecodeVideo));
        assert!(resident.private_bytes > 0 && resident.taken_bytes.is_empty());
        for layers in [ResidentLayers::Auto, ResidentLayers::Fixed(1)] {
            let streamed = measured(&folder, Placement::Layers { resident: layers }, &options);
            assert_eq!(streamed.digest, resident.digest);
        }
        let another = GenerationOptions { seed: 5, ..options };
        assert_ne!(measured(&folder, Placement::Resident, &another).digest, resident.digest);
    }
}
