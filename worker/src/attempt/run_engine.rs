//! The part of an attempt that has the engine.

use std::path::Path;
use std::sync::Arc;

use clapboard_engine::{GenerateError, Generation, GenerationReport, Stop};
use clapboard_h3::GenerationSpec;
use clapboard_h3::prepare::PreparedReference;
use clapboard_jobs::{Causes, Fingerprint};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::attempt::Attempt;
use crate::attempt::classify::AttemptError;
use crate::resume::start::Start;
use crate::resume::states::{StateKeeper, StateSink, StateSlot};
use crate::video::sink::MuxSink;
use crate::video::upload::wedged;

/// What the engine is to do.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) spec: Arc<GenerationSpec>,
    /// The media of its inputs, in their order.
    pub(crate) media: Arc<[PreparedReference]>,
    /// What the engine's results depend on.
    pub(crate) fingerprint: Fingerprint,
}

impl Attempt {
    /// Runs the engine from where the attempt starts, or from the beginning where the engine cannot go on from there.
    pub(crate) async fn run_engine(
        &self,
        work: Work,
        start: Start,
        sink: &MuxSink,
        folder: &Path,
    ) -> Result<GenerationReport, AttemptError> {
        let resumes = start.state.is_some();
        match self.generate(work.clone(), start, sink, folder).await {
            Err(AttemptError::Generate(GenerateError::Resume(error))) if resumes => {
                tracing::warn!(error = %Causes(&error), "the engine refuses the stored state, starting over");
                self.generate(work, Start::NOISE, sink, folder).await
            }
            ended => ended,
        }
    }

    /// Runs the engine, and stores its states beside it. Only when the job is to go on elsewhere is the last state waited
    /// for.
    async fn generate(
        &self,
        work: Work,
        start: Start,
        sink: &MuxSink,
        folder: &Path,
    ) -> Result<GenerationReport, AttemptError> {
        let (parts, options) = (&self.shared.parts, &self.shared.options);
        let slot = Arc::new(StateSlot::default());
        let keeper = StateKeeper {
            store: Arc::clone(&parts.store),
            blob: Arc::clone(&parts.blob),
            lease: self.lease.clone(),
            folder: folder.to_owned(),
            fingerprint: work.fingerprint,
            patience: options.stall_limits.upload,
            watch: Arc::clone(&self.watch),
        };
        let generation = Generation {
            spec: work.spec,
            media: work.media,
            control: Arc::clone(&self.watch) as _,
            progress: Arc::clone(&self.watch) as _,
            sink: Box::new(sink.clone()),
            resume: start.state,
            checkpoints: Box::new(StateSink::new(Arc::clone(&slot), options.checkpoint_interval, start.known)),
        };
        let unwanted = CancellationToken::new();
        let generating = async {
            let result = self.hear(generation).await;
            slot.close();
            if !matches!(&result, Err(AttemptError::Generate(GenerateError::Stopped(Stop::Checkpointed)))) {
                unwanted.cancel();
            }
            result
        };
        let storing = async {
            tokio::select! {
                () = keeper.run(&slot) => {}
                () = unwanted.cancelled() => {}
                () = self.watch.abandoned.cancelled() => {}
                () = self.watch.overdue.cancelled() => {}
                () = self.watch.wedged.cancelled() => {}
            }
        };
        let (result, ()) = tokio::join!(generating, storing);
        result
    }

    /// Hands the generation to the engine and hears how it ended.
    async fn hear(&self, generation: Generation) -> Result<GenerationReport, AttemptError> {
        let (sender, done) = oneshot::channel();
        // Nobody listens any more when the attempt was given up.
        self.shared.parts.generator.generate(generation, Box::new(move |result| drop(sender.send(result))));
        tokio::select! {
            biased;
            done = done => done.unwrap_or_else(|_| Err(unanswered())).map_err(AttemptError::Generate),
            () = self.watch.wedged.cancelled() => Err(wedged(&self.watch)),
            () = self.watch.overdue.cancelled() => Err(AttemptError::Stopped),
        }
    }
}

/// The error of an engine that dropped a generation without a word.
fn unanswered() -> GenerateError {
    GenerateError::Panicked { message: "the engine did not say how the generation ended".to_owned() }
}
