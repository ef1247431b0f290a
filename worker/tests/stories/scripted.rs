//! An engine that follows a script: through the real control, progress and sink, without networks.

use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use clapboard_engine::{
    Command, DenoiseCheckpoint, Done, GenerateError, Generation, GenerationReport, MediaChunk, MediaFormat, Phase,
    ProgressEvent, Stop,
};
use clapboard_h3::{ModelProfile, Partition};
use clapboard_worker::Generator;

pub(crate) type Played = Result<GenerationReport, GenerateError>;

/// Runs the script on a new thread for each generation.
pub(crate) struct Scripted {
    profile: ModelProfile,
    fingerprint: &'static str,
    script: Arc<dyn Fn(&mut Play) -> Played + Send + Sync>,
}

impl Scripted {
    /// Makes an engine that sounds, then denoises until it is told to stop, and opens `stopped` once it has.
    pub(crate) fn endless(stopped: &Gate) -> Arc<Self> {
        let stopped = stopped.clone();
        Self::new(move |play| {
            play.sound()?;
            let error = play.denoise_for_ever();
            stopped.open();
            Err(error)
        })
    }

    pub(crate) fn new(script: impl Fn(&mut Play) -> Played + Send + Sync + 'static) -> Arc<Self> {
        Self::of_fingerprint("scripted", script)
    }

    pub(crate) fn of_fingerprint(
        fingerprint: &'static str,
        script: impl Fn(&mut Play) -> Played + Send + Sync + 'static,
    ) -> Arc<Self> {
        let profile = ModelProfile::released("scripted", Partition::ALL.to_vec());
        Arc::new(Self { profile, fingerprint, script: Arc::new(script) })
    }

    pub(crate) fn of_partitions(
        partitions: Vec<Partition>,
        script: impl Fn(&mut Play) -> Played + Send + Sync + 'static,
    ) -> Arc<Self> {
        let profile = ModelProfile::released("scripted", partitions);
        Arc::new(Self { profile, fingerprint: "scripted", script: Arc::new(script) })
    }

    /// Makes an engine that comes close to the end of a run, waits there for the gate, and does all that it is asked.
    pub(crate) fn close_to_the_end(gate: &Gate) -> Arc<Self> {
        let gate = gate.clone();
        Self::new(move |play| {
            play.denoise_parts(1..=90, 100)?;
            while !gate.is_open() {
                play.check()?;
                thread::sleep(Duration::from_millis(1));
            }
            play.media()?;
            Ok(play.report())
        })
    }

    /// Does all that it is asked.
    pub(crate) fn honest() -> Arc<Self> {
        Self::new(|play| {
            play.denoise()?;
            play.media()?;
            Ok(play.report())
        })
    }
}

impl Generator for Scripted {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn fingerprint(&self, partition: Partition) -> Option<&str> {
        self.profile.partitions.contains(&partition).then_some(self.fingerprint)
    }

    fn generate(&self, generation: Generation, done: Done) {
        let script = Arc::clone(&self.script);
        // A script that panics drops `done` uncalled.
        thread::spawn(move || {
            let mut play = Play { generation };
            let played = script(&mut play);
            drop(play);
            done(played);
        });
    }
}

/// One generation, acted.
pub(crate) struct Play {
    pub(crate) generation: Generation,
}

impl Play {
    pub(crate) fn phase(&self, phase: Phase) {
        self.generation.progress.report(ProgressEvent::Phase(phase));
    }

    pub(crate) fn check(&self) -> Result<(), GenerateError> {
        match self.generation.control.command() {
            Command::Run => Ok(()),
            Command::Cancel => Err(GenerateError::Stopped(Stop::Cancelled)),
            Command::CheckpointAndStop => Err(GenerateError::Stopped(Stop::Checkpointed)),
        }
    }

    /// Reads the prompt and goes through the steps.
    pub(crate) fn denoise(&self) -> Result<(), GenerateError> {
        self.phase(Phase::TextEncode);
        self.check()?;
        self.phase(Phase::Denoise);
        let total = self.generation.spec.forwards();
        for done in 1..=total {
            self.check()?;
            self.generation.progress.report(ProgressEvent::Step { done, total });
        }
        Ok(())
    }

    /// Goes through blocks at a steady pace.
    pub(crate) fn denoise_parts(&self, parts: RangeInclusive<usize>, total: usize) -> Result<(), GenerateError> {
        self.phase(Phase::TextEncode);
        self.phase(Phase::Denoise);
        for done in parts {
            self.check()?;
            thread::sleep(Duration::from_millis(1));
            self.generation.progress.report(ProgressEvent::Part { done, total });
        }
        Ok(())
    }

    /// Hands over a state, as an engine does after a step.
    pub(crate) fn keep(&mut self, step: usize, bytes: &[u8]) {
        self.generation.checkpoints.keep(DenoiseCheckpoint { step, bytes: bytes.to_vec() });
    }

    /// Goes on with blocks until it is told to stop.
    pub(crate) fn denoise_for_ever(&self) -> GenerateError {
        self.phase(Phase::TextEncode);
        self.phase(Phase::Denoise);
        loop {
            if let Err(stopped) = self.check() {
                return stopped;
            }
            self.generation.progress.report(ProgressEvent::Part { done: 1, total: 1000 });
            // One block of work.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Fails as an engine does that cannot run the job at all.
    pub(crate) fn refuse(&self) -> GenerateError {
        GenerateError::Network(Box::new(std::io::Error::other("as the script says")))
    }

    /// Opens the sink and hands over a tone that lasts as long as the video.
    pub(crate) fn sound(&mut self) -> Result<(), GenerateError> {
        self.phase(Phase::DecodeAudio);
        self.begin()?;
        let samples = 2 * self.generation.spec.num_frames.audio_samples() as usize;
        let tone = (0..samples).map(|index| (index as f32 / 20.0).sin() / 2.0).collect();
        self.offer(MediaChunk::Samples(tone))
    }

    pub(crate) fn begin(&mut self) -> Result<(), GenerateError> {
        let spec = &self.generation.spec;
        let format = MediaFormat { canvas: spec.canvas, num_frames: spec.num_frames, sample_rate: 32_000 };
        Ok(self.generation.sink.begin(&format)?)
    }

    /// Hands over sound and all frames, grey that brightens.
    pub(crate) fn media(&mut self) -> Result<(), GenerateError> {
        self.sound()?;
        self.phase(Phase::DecodeVideo);
        let (canvas, frames) = (self.generation.spec.canvas, self.generation.spec.num_frames.get());
        let frame_bytes = 3 * usize::try_from(canvas.pixels()).expect("a canvas fits memory");
        for done in 1..=frames as usize {
            let grey = u8::try_from(10 * done % 256).expect("a remainder of 256 is a byte");
            self.offer(MediaChunk::Frames(vec![grey; frame_bytes]))?;
            self.generation.progress.report(ProgressEvent::Part { done, total: frames as usize });
        }
        Ok(())
    }

    pub(crate) fn offer(&mut self, chunk: MediaChunk) -> Result<(), GenerateError> {
        let mut offered = Some(chunk);
        while let Some(chunk) = offered {
            self.check()?;
            offered = self.generation.sink.offer(chunk, Duration::from_millis(100))?;
        }
        Ok(())
    }

    pub(crate) fn report(&self) -> GenerationReport {
        GenerationReport {
            phase_seconds: Phase::ALL.map(|phase| (phase, 0.25)).to_vec(),
            rows: 100,
            forwards: self.generation.spec.forwards(),
            resumed_at: None,
        }
    }
}

/// A door that a script waits at until the story opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    pub(crate) fn wait(&self) {
        let closed = self.0.1.wait_while(self.0.0.lock().unwrap(), |open| !*open).unwrap();
        drop(closed);
    }
}

/// Opens the gate when the story is over, so that no thread waits for ever when it fails.
impl Drop for Opener {
    fn drop(&mut self) {
        self.0.open();
    }
}

pub(crate) struct Opener(pub(crate) Gate);
