//! The engine behind a channel: one OS thread owns it, a cheap handle stands in front.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use clapboard_h3::prepare::PreparedReference;
use clapboard_h3::{GenerationSpec, ModelProfile};

use crate::control::Control;
use crate::engine::{Engine, EngineConfig};
use crate::generate::{GenerateError, GenerationReport, Request};
use crate::load::LoadError;
use crate::progress::Progress;
use crate::resume::{CheckpointSink, Continuation};
use crate::sink::FrameSink;
use crate::tap::NoTap;

/// One generation to run.
pub struct Generation {
    /// What to generate.
    pub spec: Arc<GenerationSpec>,
    /// The media of its inputs, in their order.
    pub media: Vec<PreparedReference>,
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
/// The thread ends, and the engine with it, when the last handle is dropped and the running generation is over.
#[derive(Clone)]
pub struct EngineHandle {
    profile: Arc<ModelProfile>,
    fingerprint: Arc<str>,
    generations: Sender<(Generation, Done)>,
}

impl EngineHandle {
    /// Loads an engine on a new thread and waits until it is ready.
    ///
    /// Errors: [`LoadError`] when the checkpoint cannot be loaded.
    pub fn start(config: EngineConfig) -> Result<Self, LoadError> {
        let (loaded_sender, loaded) = channel();
        let (generations, queue) = channel::<(Generation, Done)>();
        let body = move || {
            let mut engine = match Engine::load(&config) {
                Ok(engine) => engine,
                Err(error) => {
                    // The receiver waits below; if it is gone, so is whoever would care.
                    let _ = loaded_sender.send(Err(error));
                    return;
                }
            };
            let _ = loaded_sender.send(Ok((engine.profile().clone(), engine.fingerprint().into())));
            for (generation, done) in queue {
                let result = run(&mut engine, generation);
                // Whoever waits for the next generation must not be lost with a listener that panics.
                if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
                    tracing::error!("a listener panicked when it heard how its generation ended");
                }
            }
        };
        thread::Builder::new().name("engine".to_owned()).spawn(body).map_err(LoadError::Thread)?;
        let (profile, fingerprint) = loaded.recv().map_err(|_| LoadError::Panicked)??;
        Ok(Self { profile: Arc::new(profile), fingerprint, generations })
    }

    /// What the loaded checkpoint serves.
    pub fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    /// Returns what the engine's results depend on to the last bit, as 64 hex digits: see [`Engine::fingerprint`].
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Runs a generation after those before it; `done` hears how it ended, exactly once.
    pub fn generate(&self, generation: Generation, done: Done) {
        if let Err(unsent) = self.generations.send((generation, done)) {
            let (_, done) = unsent.0;
            done(Err(GenerateError::Panicked { message: "the engine's thread has ended".to_owned() }));
        }
    }
}

/// Runs one generation; a panic inside becomes its error, so that a broken request does not take the thread along.
fn run(engine: &mut Engine, generation: Generation) -> Result<GenerationReport, GenerateError> {
    let Generation { spec, media, control, progress, mut sink, resume, mut checkpoints } = generation;
    let attempt = catch_unwind(AssertUnwindSafe(|| {
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
