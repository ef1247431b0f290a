//! The engine behind a channel: one OS thread owns it, a cheap handle stands in front.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use clapboard_h3::prepare::PreparedReference;
use clapboard_h3::{GenerationSpec, ModelProfile, Partition};

use crate::control::Control;
use crate::engine::{Engine, EngineConfig};
use crate::generate::{GenerateError, GenerationReport, Request};
use crate::load::{LoadError, Loading, Mapped};
use crate::ops::cuda::{Fault, fault};
use crate::progress::Progress;
use crate::resume::{CheckpointSink, Continuation};
use crate::run::obey;
use crate::sink::FrameSink;
use crate::tap::NoTap;

/// One generation to run.
pub struct Generation {
    /// What to generate.
    pub spec: Arc<GenerationSpec>,
    /// The media of its inputs, in their order; shared, since they may be large and a generation may be started over.
    pub media: Arc<[PreparedReference]>,
    /// Says whether to go on.
    pub control: Arc<dyn Control>,
    /// Hears progress.
    pub progress: Arc<dyn Progress>,
    /// Takes frames and samples; dropped when the generation is over.
    pub sink: Box<dyn FrameSink>,
    /// The bytes of the [`DenoiseCheckpoint`](crate::DenoiseCheckpoint) to go on from; without them the generation
    /// begins at its noise.
    pub resume: Option<Arc<[u8]>>,
    /// Takes states to go on from later; dropped when the generation is over.
    pub checkpoints: Box<dyn CheckpointSink>,
}

/// Hears how a generation ended; called on the engine's thread.
pub type Done = Box<dyn FnOnce(Result<GenerationReport, GenerateError>) + Send>;

/// A loaded engine on a thread of its own. Generations run one after another; cloning shares the engine.
///
/// One partition is loaded at a time. A generation that needs another one of the served partitions has it loaded in the
/// place of the one before, ahead of its first event: no weight is in memory twice, and whoever serves several pays for
/// each change. Its control is obeyed and its [`Progress::loading`] told between the parts of that. A partition whose files
/// are not there takes the place of none.
///
/// The thread ends, and the engine with it, when the last handle is dropped and the running generation is over.
#[derive(Clone)]
pub struct EngineHandle {
    config: Arc<EngineConfig>,
    profile: Arc<ModelProfile>,
    fingerprints: Arc<[(Partition, String)]>,
    generations: Sender<(Generation, Done)>,
}

impl EngineHandle {
    /// Loads an engine on a new thread and waits until it is ready. Each partition is loaded once, the first one last: what
    /// is missing is found now, and not by a job.
    ///
    /// Errors: [`LoadError`] when the checkpoint cannot be loaded, or one profile cannot describe its partitions.
    pub fn start(config: EngineConfig) -> Result<Self, LoadError> {
        let profile = Arc::new(config.profile()?);
        let (config, served) = (Arc::new(config.clone()), config);
        let (loaded_sender, loaded) = channel();
        let (generations, queue) = channel::<(Generation, Done)>();
        let body = move || {
            let mut switch = match Switch::load(served) {
                Ok(switch) => switch,
                Err(error) => {
                    // The receiver waits below; if it is gone, so is whoever would care.
                    let _ = loaded_sender.send(Err(error));
                    return;
                }
            };
            let _ = loaded_sender.send(Ok(Arc::clone(&switch.fingerprints)));
            for (generation, done) in queue {
                let result = run(&mut switch, generation);
                // Whoever waits for the next generation must not be lost with a listener that panics.
                if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
                    tracing::error!("a listener panicked when it heard how its generation ended");
                }
            }
        };
        thread::Builder::new().name("engine".to_owned()).spawn(body).map_err(LoadError::Thread)?;
        let fingerprints = loaded.recv().map_err(|_| LoadError::Panicked)??;
        Ok(Self { config, profile, fingerprints, generations })
    }

    /// What the checkpoint serves, with all partitions that can be loaded.
    pub fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    /// Returns what the results of a partition depend on to the last bit, as 64 hex digits: see [`Engine::fingerprint`].
    /// None for a partition that is not served.
    pub fn fingerprint(&self, partition: Partition) -> Option<&str> {
        find(&self.fingerprints, partition)
    }

    /// Looks whether a partition can be mapped: whether its files are there and hold the tensors that the configs speak of.
    /// Reads headers, and changes nothing about the loaded one. Blocks.
    ///
    /// Errors: [`LoadError::Checkpoint`] naming what is missing or wrong.
    pub fn look_for(&self, partition: Partition) -> Result<(), LoadError> {
        Mapped::open(&self.config, partition).map(drop)
    }

    /// Runs a generation after those before it; `done` hears how it ended, exactly once.
    pub fn generate(&self, generation: Generation, done: Done) {
        if let Err(unsent) = self.generations.send((generation, done)) {
            let (_, done) = unsent.0;
            done(Err(GenerateError::Panicked { message: "the engine's thread has ended".to_owned() }));
        }
    }
}

fn find(fingerprints: &[(Partition, String)], partition: Partition) -> Option<&str> {
    fingerprints.iter().find(|(known, _)| *known == partition).map(|(_, fingerprint)| fingerprint.as_str())
}

/// The partitions that are served, one of them loaded.
struct Switch {
    config: EngineConfig,
    /// The partition that was loaded at the start.
    first: Partition,
    fingerprints: Arc<[(Partition, String)]>,
    /// The loaded partition; none after one could be mapped and not loaded.
    engine: Option<(Partition, Engine)>,
}

impl Switch {
    /// Loads every partition once, and keeps the first.
    fn load(config: EngineConfig) -> Result<Self, LoadError> {
        let partitions = config.distinct_partitions()?;
        let first = partitions[0];
        let mut fingerprints = Vec::new();
        let mut engine = None;
        for &partition in partitions.iter().rev() {
            // Not beside each other.
            drop(engine.take());
            let (_, loaded) = engine.insert((partition, Engine::load_partition(&config, partition)?));
            fingerprints.push((partition, loaded.fingerprint().to_owned()));
        }
        Ok(Self { config, first, fingerprints: fingerprints.into(), engine })
    }

    /// Returns the engine for a job of `partition`, which is loaded where another one is. A partition that is not served
    /// changes nothing: the engine itself refuses what it cannot run.
    fn engine_for(
        &mut self,
        partition: Partition,
        control: &dyn Control,
        progress: &dyn Progress,
    ) -> Result<&mut Engine, GenerateError> {
        let loaded = self.engine.as_ref().map(|(loaded, _)| *loaded);
        let served = find(&self.fingerprints, partition).is_some();
        let wanted = if served { partition } else { loaded.unwrap_or(self.first) };
        if loaded != Some(wanted) {
            // A job that nobody wants any more is not worth a change.
            obey(control)?;
            let failed = |error| match error {
                LoadError::Stopped(stop) => GenerateError::Stopped(stop),
                // Not this partition's affair: no other one can be computed either.
                error if fault(&error) == Some(Fault::Lost) => GenerateError::DeviceLost(Box::new(error)),
                error => GenerateError::Load { partition: wanted, source: Box::new(error) },
            };
            let loading = Loading { placement: self.config.placement, control, progress };
            // While the other one is still there: files that are missing cost its jobs nothing.
            let mapped = loading.then(Mapped::open(&self.config, wanted)).map_err(failed)?;
            drop(self.engine.take());
            tracing::info!(partition = %wanted, "loading another partition");
            self.engine = Some((wanted, self.load_again(&mapped, loading).map_err(failed)?));
        }
        let (_, engine) = self.engine.as_mut().expect("it was there or has just been loaded");
        Ok(engine)
    }

    fn load_again(&self, mapped: &Mapped, loading: Loading<'_>) -> Result<Engine, LoadError> {
        let engine = Engine::load_mapped(&self.config, mapped, loading)?;
        let partition = mapped.partition;
        if find(&self.fingerprints, partition) == Some(engine.fingerprint()) {
            Ok(engine)
        } else {
            Err(LoadError::Changed { partition })
        }
    }
}

/// Runs one generation; a panic inside becomes its error, so that a broken request does not take the thread along.
fn run(switch: &mut Switch, generation: Generation) -> Result<GenerationReport, GenerateError> {
    let Generation { spec, media, control, progress, mut sink, resume, mut checkpoints } = generation;
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let engine = switch.engine_for(spec.partition, &*control, &*progress)?;
        let from = Continuation { resume: resume.as_deref(), checkpoints: &mut *checkpoints };
        engine.generate(Request { spec: &spec, media: &media }, &*control, &*progress, &mut *sink, from, &mut NoTap)
    }));
    attempt.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned());
        Err(GenerateError::Panicked { message })
    })
}
