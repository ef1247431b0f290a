//! An engine that computes nothing: it says when it was started and hands over black frames and silence.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clapboard_engine::{
    Done, FrameSink, GenerateError, Generation, GenerationReport, MediaChunk, MediaFormat, Phase, ProgressEvent,
};
use clapboard_h3::{GenerationSpec, ModelProfile, Partition};
use clapboard_worker::Generator;
use tokio::sync::Notify;

const SAMPLE_RATE: usize = 32_000;

/// Notes the moment at which each seed's generation was started.
pub(super) struct NoopEngine {
    profile: ModelProfile,
    started: Mutex<HashMap<u64, Instant>>,
    starts: Notify,
}

impl NoopEngine {
    pub(super) fn new() -> Self {
        let profile = ModelProfile::released("no-op", vec![Partition::Fl2va]);
        Self { profile, started: Mutex::default(), starts: Notify::new() }
    }

    /// Waits for the start of the generation of a seed.
    pub(super) async fn started(&self, seed: u64) -> Instant {
        loop {
            let rung = self.starts.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            if let Some(at) = self.started.lock().unwrap_or_else(PoisonError::into_inner).get(&seed) {
                return *at;
            }
            rung.await;
        }
    }
}

impl Generator for NoopEngine {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn fingerprint(&self, partition: Partition) -> Option<&str> {
        self.profile.partitions.contains(&partition).then_some("no-op")
    }

    fn generate(&self, generation: Generation, done: Done) {
        let at = Instant::now();
        self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(generation.spec.seed, at);
        self.starts.notify_waiters();
        std::thread::spawn(move || done(run(generation)));
    }
}

fn run(generation: Generation) -> Result<GenerationReport, GenerateError> {
    let Generation { spec, progress, mut sink, .. } = generation;
    progress.report(ProgressEvent::Phase(Phase::DecodeVideo));
    sink.begin(&MediaFormat { canvas: spec.canvas, num_frames: spec.num_frames, sample_rate: SAMPLE_RATE })?;
    hand_over(&mut *sink, MediaChunk::Samples(silence(&spec)))?;
    let frame = vec![0; spec.canvas.width() as usize * spec.canvas.height() as usize * 3];
    for _ in 0..spec.num_frames.get() {
        hand_over(&mut *sink, MediaChunk::Frames(frame.clone()))?;
    }
    Ok(GenerationReport { phase_seconds: Vec::new(), rows: 0, forwards: 0, resumed_at: None })
}

fn hand_over(sink: &mut dyn FrameSink, chunk: MediaChunk) -> Result<(), GenerateError> {
    let mut offered = Some(chunk);
    while let Some(chunk) = offered {
        offered = sink.offer(chunk, Duration::from_secs(1))?;
    }
    Ok(())
}

fn silence(spec: &GenerationSpec) -> Vec<f32> {
    let samples = spec.num_frames.get() as usize * SAMPLE_RATE / 24;
    vec![0.0; samples * 2]
}
