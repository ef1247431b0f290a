//! One generation from prompt to frames and samples.

use std::time::{Duration, Instant};

use clapboard_h3::packing::{Conditions, LayoutError, PackedLayout};
use clapboard_h3::{GenerationSpec, ModelProfile, Partition, SpecError, Task};

use crate::audio_vae::{self, AudioDecoder};
use crate::checkpoint::{Checkpoint, ComponentId};
use crate::control::Control;
use crate::denoise::{denoise, target_grid};
use crate::dit::Dit;
use crate::engine::EngineConfig;
use crate::load::LoadError;
use crate::ops::{OpError, Ops};
use crate::parallel::Alone;
use crate::progress::{Phase, ProgressEvent};
use crate::run::{Run, RunError, Stop, obey};
use crate::sink::{FrameSink, MediaChunk, MediaFormat, SinkError};
use crate::text::{self, Presentation, TextEncoder, Tokenizer};
use crate::video_vae::{self, TileGeometry, VideoDecoder, VideoLatents};

/// How long a full sink is waited for before the control is looked at again.
const SINK_PATIENCE: Duration = Duration::from_millis(100);

/// Why a generation did not end.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// It was stopped from outside.
    #[error("the generation was stopped: {0:?}")]
    Stopped(Stop),
    /// This engine does not run the task, or not on the partition that it has loaded.
    #[error("this engine has loaded {loaded} and cannot run {task}")]
    Task {
        /// The task asked for.
        task: Task,
        /// The partition that is loaded.
        loaded: Partition,
    },
    /// The specification contradicts itself.
    #[error("the specification cannot be run")]
    Spec(#[source] SpecError),
    /// The prompt cannot be presented to the text encoder.
    #[error("the prompt cannot be used")]
    Prompt(#[source] text::Error),
    /// The request does not make a sequence.
    #[error("the request does not make a sequence")]
    Layout(#[source] LayoutError),
    /// A network failed.
    #[error("a network failed")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A network ran to its end and made values that are no numbers; they would pass for black frames or noise.
    #[error("the {what} hold values that are not finite")]
    NotFinite {
        /// What holds them.
        what: &'static str,
    },
    /// The sink did not take the result.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The engine panicked.
    #[error("the engine panicked: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
}

impl From<RunError> for GenerateError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Stopped(stop) => GenerateError::Stopped(stop),
            other => GenerateError::Network(Box::new(other)),
        }
    }
}

/// What a finished generation tells about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationReport {
    /// Seconds spent in each phase, in order.
    pub phase_seconds: Vec<(Phase, f64)>,
    /// Rows of the packed sequence.
    pub rows: usize,
    /// Forwards of the DiT.
    pub forwards: usize,
}

/// The networks of one partition.
pub(crate) struct Networks<O: Ops> {
    partition: Partition,
    tokenizer: Tokenizer,
    text_encoder: TextEncoder<O>,
    dit: Dit<O>,
    video_decoder: VideoDecoder<O>,
    audio_decoder: AudioDecoder<O>,
}

impl<O: Ops> Networks<O>
where
    O::Buffer: 'static,
{
    pub(crate) fn load(ops: &O, config: &EngineConfig) -> Result<(Self, ModelProfile), LoadError> {
        let checkpoint = Checkpoint::open(&config.checkpoint)?;
        let partition = config.partition;
        let dtype = config.dtype.dtype();
        let component = |id| checkpoint.checked_component(id);
        let feed_forward_bytes = config.memory.feed_forward_bytes;
        let networks = Self {
            partition,
            tokenizer: Tokenizer::load(&checkpoint.tokenizer_path()?, &checkpoint.text_encoder().text)?,
            text_encoder: TextEncoder::load(
                ops,
                &component(ComponentId::TextEncoder)?,
                checkpoint.text_encoder().text.clone(),
                dtype,
                feed_forward_bytes,
                Box::new(Alone),
            )?,
            dit: Dit::load(
                ops,
                &component(ComponentId::Dit(partition))?,
                checkpoint.dit(partition)?.clone(),
                dtype,
                feed_forward_bytes,
                Box::new(Alone),
            )?,
            video_decoder: VideoDecoder::load(
                ops,
                &component(ComponentId::VideoVae)?,
                checkpoint.video_vae().clone(),
                config.decode,
                TileGeometry {
                    size: checkpoint.video_vae().tile_size,
                    min_overlap: checkpoint.video_vae().tile_overlap_min,
                },
            )?,
            audio_decoder: AudioDecoder::load(ops, &component(ComponentId::AudioVae)?, checkpoint.audio_vae().clone())?,
        };
        Ok((networks, checkpoint.profile(&[partition])?))
    }

    pub(crate) fn generate(
        &self,
        ops: &O,
        spec: &GenerationSpec,
        sink: &mut dyn FrameSink,
        run: &mut Run<'_>,
    ) -> Result<GenerationReport, GenerateError> {
        if spec.task != Task::T2va || spec.partition != self.partition {
            return Err(GenerateError::Task { task: spec.task, loaded: self.partition });
        }
        spec.check().map_err(GenerateError::Spec)?;
        let mut clock = PhaseClock::default();

        clock.enter(Phase::TextEncode, run);
        let presentation = Presentation::t2va(&self.tokenizer, &spec.prompt).map_err(GenerateError::Prompt)?;
        // Laid out before anything is computed: it bounds every buffer that follows.
        let layout =
            PackedLayout::new(presentation.tags(), Conditions::None, spec.target()).map_err(GenerateError::Layout)?;
        let prompt_embeds = self.text_encoder.encode(ops, &presentation, run)?;

        clock.enter(Phase::Denoise, run);
        let (video, audio) = (spec.video_sigmas.timesteps(), spec.audio_sigmas.timesteps());
        let request = self.dit.begin(ops, &layout, prompt_embeds.view(), &video, &audio, run)?;
        drop(prompt_embeds);
        let latents = denoise(ops, &self.dit, spec, &layout, request, run)?;
        require_finite("video latents", &latents.video)?;
        require_finite("audio latents", &latents.audio)?;

        clock.enter(Phase::DecodeAudio, run);
        sink.begin(&MediaFormat {
            canvas: spec.canvas,
            num_frames: spec.num_frames,
            sample_rate: self.audio_decoder.config().sampling_rate,
        })?;
        let sound = self.audio_decoder.decode(ops, &latents.audio, run).map_err(|error| match error {
            audio_vae::DecodeError::Run(error) => error.into(),
            other => network(other),
        })?;
        require_finite("audio samples", &sound.planes)?;
        hand_over(sink, MediaChunk::Samples(sound.interleaved()), run.control)?;

        clock.enter(Phase::DecodeVideo, run);
        self.decode_video(ops, spec, &latents.video, sink, run)?;
        Ok(GenerationReport { phase_seconds: clock.finish(), rows: layout.rows(), forwards: spec.forwards() })
    }

    fn decode_video(
        &self,
        ops: &O,
        spec: &GenerationSpec,
        latents: &[f32],
        sink: &mut dyn FrameSink,
        run: &mut Run<'_>,
    ) -> Result<(), GenerateError> {
        let grid = target_grid(spec, self.dit.config().in_channels);
        let latents = VideoLatents { values: latents, frames: grid.frames, height: grid.height, width: grid.width };
        let control = run.control;
        let emit = &mut |frames| hand_over(sink, MediaChunk::Frames(frames), control);
        self.video_decoder.decode(ops, latents, run, emit).map_err(|error| match error {
            video_vae::DecodeError::Run(RunError::Op(OpError::NotFinite { .. })) => {
                GenerateError::NotFinite { what: "frames" }
            }
            video_vae::DecodeError::Run(error) => error.into(),
            video_vae::DecodeError::Emit(error) => error,
            other => network(other),
        })
    }
}

fn require_finite(what: &'static str, values: &[f32]) -> Result<(), GenerateError> {
    if values.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(GenerateError::NotFinite { what }) }
}

/// Seconds per phase.
#[derive(Default)]
struct PhaseClock {
    finished: Vec<(Phase, f64)>,
    current: Option<(Phase, Instant)>,
}

impl PhaseClock {
    fn enter(&mut self, phase: Phase, run: &Run<'_>) {
        self.leave();
        run.progress.report(ProgressEvent::Phase(phase));
        self.current = Some((phase, Instant::now()));
    }

    fn leave(&mut self) {
        if let Some((phase, since)) = self.current.take() {
            self.finished.push((phase, since.elapsed().as_secs_f64()));
        }
    }

    fn finish(mut self) -> Vec<(Phase, f64)> {
        self.leave();
        self.finished
    }
}

/// Offers a chunk until the sink takes it, obeying the control in between.
fn hand_over(sink: &mut dyn FrameSink, chunk: MediaChunk, control: &dyn Control) -> Result<(), GenerateError> {
    let mut offered = Some(chunk);
    while let Some(chunk) = offered {
        obey(control)?;
        offered = sink.offer(chunk, SINK_PATIENCE)?;
    }
    Ok(())
}

fn network(error: impl std::error::Error + Send + Sync + 'static) -> GenerateError {
    GenerateError::Network(Box::new(error))
}
