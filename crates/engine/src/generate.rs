//! One generation from prompt to frames and samples.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_h3::packing::{LayoutError, PackedLayout};
use clapboard_h3::prepare::PreparedReference;
use clapboard_h3::{GenerationSpec, Partition, SpecError, Task};

use crate::audio_vae::{self, AudioDecoder};
use crate::checkpoint::DitConfig;
use crate::conditions::{ConditionEncoders, ConditionPlan};
use crate::control::Control;
use crate::denoise::{FirstRows, Latents, denoise, row_shapes, target_grid};
use crate::dit::{AdalnCache, Dit, DitOptions};
use crate::engine::EngineConfig;
use crate::load::{LoadError, Loading, Mapped};
use crate::ops::cuda::{Fault, fault};
use crate::ops::{OpError, Ops, Tensor};
use crate::parallel::Alone;
use crate::progress::{Phase, ProgressEvent, ShareProgress};
use crate::residency::Residency;
use crate::resume::{Continuation, Identity, Keeper, ResumeError, SavedRows};
use crate::run::{Run, RunError, Stop, obey};
use crate::sink::{FrameSink, MediaChunk, MediaFormat, SinkError};
use crate::staging::Staging;
use crate::text::{self, PresentError, Presented, Presenter, TextEncoder};
use crate::video_vae::{self, TileGeometry, VideoDecoder, VideoLatents};
use crate::vision::{VisionEmbeds, VisionError, VisionTower};
use crate::weights::Staged;

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
    /// The partition that the task needs could not be loaded in place of another. Nothing was run; the next
    /// generation tries again.
    #[error("could not load partition {partition}")]
    Load {
        /// The partition.
        partition: Partition,
        /// What is missing or wrong.
        #[source]
        source: Box<LoadError>,
    },
    /// The specification contradicts itself.
    #[error("the specification cannot be run")]
    Spec(#[source] SpecError),
    /// The prompt cannot be presented to the text encoder.
    #[error("the prompt cannot be used")]
    Prompt(#[source] text::Error),
    /// A picture or video cannot be presented to the text encoder.
    #[error("a picture or video cannot be used")]
    Vision(#[source] VisionError),
    /// The media are not those of the specification.
    #[error("the media do not fit the specification: {0}")]
    Media(String),
    /// The request does not make a sequence.
    #[error("the request does not make a sequence")]
    Layout(#[source] LayoutError),
    /// It cannot go on from the checkpoint that it was given. Nothing was run: it can be started over without.
    #[error("the generation cannot go on from its checkpoint")]
    Resume(#[source] ResumeError),
    /// A network failed.
    #[error("a network failed")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The GPU was lost: this process can use it no more, whatever it is asked. The request is not to blame as far as
    /// anybody knows.
    #[error("the GPU was lost")]
    DeviceLost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The GPU has no room for the request beside what else uses it.
    #[error("the GPU has no room for the generation")]
    OutOfMemory(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The GPU's driver or a library of it failed at something that it can do.
    #[error("the GPU or one of its libraries failed")]
    Device(#[source] Box<dyn std::error::Error + Send + Sync>),
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
            other => network(other),
        }
    }
}

impl From<PresentError> for GenerateError {
    fn from(error: PresentError) -> Self {
        match error {
            PresentError::Text(error) => GenerateError::Prompt(error),
            PresentError::Vision(error) => GenerateError::Vision(error),
        }
    }
}

/// What to generate, and from what.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Everything but the media.
    pub spec: &'a GenerationSpec,
    /// The media of the specification's inputs, in their order.
    pub media: &'a [PreparedReference],
}

impl<'a> From<&'a GenerationSpec> for Request<'a> {
    fn from(spec: &'a GenerationSpec) -> Self {
        Self { spec, media: &[] }
    }
}

/// What a finished generation tells about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationReport {
    /// Seconds spent in each phase, in order.
    pub phase_seconds: Vec<(Phase, f64)>,
    /// Rows of the packed sequence.
    pub rows: usize,
    /// Forwards of the DiT in all, those before [`resumed_at`](Self::resumed_at) among them.
    pub forwards: usize,
    /// The steps that were done already in the checkpoint that it went on from; nothing without one.
    pub resumed_at: Option<usize>,
}

/// The networks of one partition.
pub(crate) struct Networks<O: Ops> {
    staging: Staging,
    /// Where a budget decides what stays.
    residency: Option<Residency>,
    presenter: Presenter,
    dit_config: DitConfig,
    sample_rate: usize,
    vision: Staged<O, VisionTower<O>>,
    encoders: ConditionEncoders<O>,
    text_encoder: Staged<O, TextEncoder<O>>,
    dit: Staged<O, Dit<O>>,
    video_decoder: Staged<O, VideoDecoder<O>>,
    audio_decoder: Staged<O, AudioDecoder<O>>,
}

impl<O: Ops + 'static> Networks<O>
where
    O::Buffer: 'static,
{
    /// Makes the networks, as long as they are wanted. `free_bytes` of the device were free when it was opened, if it has memory
    /// of its own.
    pub(crate) fn load(
        ops: &O,
        mapped: &Mapped,
        config: &EngineConfig,
        free_bytes: Option<u64>,
        loading: Loading<'_>,
    ) -> Result<Self, LoadError> {
        let Mapped { checkpoint, components, partition } = mapped;
        let (dtype, decode) = (config.dtype.dtype(), config.decode);
        let feed_forward_bytes = config.memory.feed_forward_bytes;
        let (text, vae) = (checkpoint.text_encoder(), checkpoint.video_vae());
        let tiles = TileGeometry { size: vae.tile_size, min_overlap: vae.tile_overlap_min };
        let dit_config = checkpoint.dit(*partition)?.clone();

        let (stored, sizes) = (Arc::clone(&components.text_encoder), text.vision.clone());
        let vision = move |ops: &O, loading: Loading<'_>| {
            VisionTower::load(ops, &stored, sizes.clone(), dtype, feed_forward_bytes, loading)
        };
        let (stored, sizes) = (Arc::clone(&components.text_encoder), text.text.clone());
        let text_encoder = move |ops: &O, loading: Loading<'_>| {
            TextEncoder::load(ops, &stored, sizes.clone(), dtype, feed_forward_bytes, loading, Box::new(Alone))
        };
        let (stored, sizes) = (Arc::clone(&components.dit), dit_config.clone());
        let modulations = Arc::new(AdalnCache::new(config.adaln_cache_bytes));
        let options = DitOptions { dtype, memory: config.memory, modulations };
        let dit = move |ops: &O, loading: Loading<'_>| {
            Dit::load(ops, &stored, sizes.clone(), options.clone(), loading, Box::new(Alone))
        };
        let (stored, sizes) = (Arc::clone(&components.video_vae), vae.clone());
        let video_decoder =
            move |ops: &O, _: Loading<'_>| VideoDecoder::load(ops, &stored, sizes.clone(), decode, tiles);
        let (stored, sizes) = (Arc::clone(&components.audio_vae), checkpoint.audio_vae().clone());
        let sample_rate = sizes.sampling_rate;
        let audio_decoder = move |ops: &O, _: Loading<'_>| AudioDecoder::load(ops, &stored, sizes.clone());
        Ok(Self {
            staging: Staging { partition: *partition, placement: loading.placement },
            residency: Residency::of(mapped, config, free_bytes)?,
            presenter: loading.then(Presenter::load(checkpoint))?,
            dit_config,
            sample_rate,
            vision: Staged::load(ops, loading, vision)?,
            encoders: ConditionEncoders::load(ops, checkpoint, components, tiles, loading)?,
            text_encoder: Staged::load(ops, loading, text_encoder)?,
            dit: Staged::load(ops, loading, dit)?,
            video_decoder: Staged::load(ops, loading, video_decoder)?,
            audio_decoder: Staged::load(ops, loading, audio_decoder)?,
        })
    }

    pub(crate) fn generate(
        &self,
        ops: &O,
        request: Request<'_>,
        fingerprint: &str,
        sink: &mut dyn FrameSink,
        continuation: Continuation<'_>,
        run: &mut Run<'_>,
    ) -> Result<GenerationReport, GenerateError> {
        let Request { spec, media } = request;
        if spec.partition != self.staging.partition {
            return Err(GenerateError::Task { task: spec.task, loaded: self.staging.partition });
        }
        spec.check().map_err(GenerateError::Spec)?;
        let (total, shapes) = (spec.forwards(), row_shapes(spec, &self.dit_config));
        let conditions = self.encoders.plan(spec, media)?;
        let identity = Identity::of(spec, media, fingerprint);
        let saved = continuation.resume.map(|bytes| SavedRows::decode(bytes, shapes, &identity, total));
        let saved = saved.transpose().map_err(GenerateError::Resume)?;
        let resumed_at = saved.as_ref().map(|rows| rows.step);
        let mut keeper = Keeper::new(identity, shapes, resumed_at, continuation.checkpoints);
        let mut clock = PhaseClock::default();

        clock.enter(Phase::TextEncode, run);
        // Before anything is computed: it bounds every buffer that follows.
        let (presented, layout) = self.lay_out(request, &conditions)?;
        let placement = match &self.residency {
            Some(residency) => residency.placement(spec, &layout)?,
            None => self.staging.placement,
        };
        let rows = match saved {
            // Only a step reads prompt and conditions.
            Some(done) if done.step == total => {
                clock.enter(Phase::Denoise, run);
                run.progress.report(ProgressEvent::Step { done: total, total });
                done
            }
            saved => {
                let prompt_embeds = self.read(ops, &presented, run)?;
                drop(presented);
                if !media.is_empty() {
                    clock.enter(Phase::EncodeInputs, run);
                }
                let encoded = self.encoders.encode(ops, media, self.staging, run)?;
                clock.enter(Phase::Denoise, run);
                if let Some(done) = resumed_at {
                    run.progress.report(ProgressEvent::Step { done, total });
                }
                let (video, audio) = (spec.video_sigmas.timesteps(), spec.audio_sigmas.timesteps());
                let first = FirstRows::draw(spec, &self.dit_config, encoded, saved, run)?;
                let dit = self.staging.placed(placement).enter(&self.dit, ops, run)?;
                let request = dit.begin(ops, &layout, prompt_embeds.view(), &video, &audio, run)?;
                drop(prompt_embeds);
                denoise(ops, &dit, spec, request, first, &mut keeper, run)?
            }
        };
        let latents = Latents::of(spec, &self.dit_config, &rows, run).map_err(RunError::from)?;
        require_finite("video latents", &latents.video)?;
        require_finite("audio latents", &latents.audio)?;

        self.decode(ops, spec, &latents, sink, &mut clock, run).inspect_err(|error| {
            if matches!(error, GenerateError::Stopped(Stop::Checkpointed)) && keeper.lacks(total) {
                keeper.keep(&rows);
            }
        })?;
        let phase_seconds = clock.finish();
        Ok(GenerationReport { phase_seconds, rows: layout.rows(), forwards: total, resumed_at })
    }

    /// Plans a request's conditions, presents it to the text encoder and lays out its sequence.
    pub(crate) fn arrange(&self, request: Request<'_>) -> Result<(Presented, PackedLayout), GenerateError> {
        let conditions = self.encoders.plan(request.spec, request.media)?;
        self.lay_out(request, &conditions)
    }

    fn lay_out(
        &self,
        request: Request<'_>,
        conditions: &ConditionPlan,
    ) -> Result<(Presented, PackedLayout), GenerateError> {
        let Request { spec, media } = request;
        let presented = self.presenter.present(&spec.prompt, media)?;
        let layout = PackedLayout::new(presented.presentation.tags(), conditions.as_conditions(), spec.target())
            .map_err(GenerateError::Layout)?;
        Ok((presented, layout))
    }

    /// Reads pictures, videos and prompt: `[text_rows, text_dim]`.
    fn read(&self, ops: &O, presented: &Presented, run: &mut Run<'_>) -> Result<Tensor<O::Buffer>, GenerateError> {
        let total = if presented.vision.is_empty() { 1 } else { 2 };
        let share = |index| ShareProgress { progress: run.progress, index, total };
        let (first, last) = (share(0), share(total - 1));
        let vision = if presented.vision.is_empty() {
            VisionEmbeds::none()
        } else {
            let vision = self.staging.enter(&self.vision, ops, run)?;
            vision.encode(ops, &presented.vision, &mut run.sharing(&first))?
        };
        let text_encoder = self.staging.enter(&self.text_encoder, ops, run)?;
        Ok(text_encoder.encode(ops, &presented.presentation, &vision, &mut run.sharing(&last))?)
    }

    fn decode(
        &self,
        ops: &O,
        spec: &GenerationSpec,
        latents: &Latents,
        sink: &mut dyn FrameSink,
        clock: &mut PhaseClock,
        run: &mut Run<'_>,
    ) -> Result<(), GenerateError> {
        clock.enter(Phase::DecodeAudio, run);
        sink.begin(&MediaFormat { canvas: spec.canvas, num_frames: spec.num_frames, sample_rate: self.sample_rate })?;
        let audio_decoder = self.staging.enter(&self.audio_decoder, ops, run)?;
        let sound = audio_decoder.decode(ops, &latents.audio, run).map_err(|error| match error {
            audio_vae::DecodeError::Run(error) => error.into(),
            other => network(other),
        })?;
        drop(audio_decoder);
        require_finite("audio samples", &sound.planes)?;
        hand_over(sink, MediaChunk::Samples(sound.interleaved()), run.control)?;

        clock.enter(Phase::DecodeVideo, run);
        self.decode_video(ops, spec, &latents.video, sink, run)
    }

    fn decode_video(
        &self,
        ops: &O,
        spec: &GenerationSpec,
        latents: &[f32],
        sink: &mut dyn FrameSink,
        run: &mut Run<'_>,
    ) -> Result<(), GenerateError> {
        let grid = target_grid(spec, self.dit_config.in_channels);
        let latents = VideoLatents { values: latents, frames: grid.frames, height: grid.height, width: grid.width };
        let control = run.control;
        let emit = &mut |frames| hand_over(sink, MediaChunk::Frames(frames), control);
        let video_decoder = self.staging.enter(&self.video_decoder, ops, run)?;
        video_decoder.decode(ops, latents, run, emit).map_err(|error| match error {
            video_vae::DecodeError::Run(RunError::Op(OpError::NotFinite { .. })) => {
                GenerateError::NotFinite { what: "frames" }
            }
            video_vae::DecodeError::Run(error) => error.into(),
            video_vae::DecodeError::Emit(error) => error,
            other => network(other),
        })
    }
}

pub(crate) fn require_finite(what: &'static str, values: &[f32]) -> Result<(), GenerateError> {
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

/// Classes the error of a network: whether it is the network's own, or that of what computes it.
pub(crate) fn network(error: impl std::error::Error + Send + Sync + 'static) -> GenerateError {
    match fault(&error) {
        Some(Fault::Lost) => GenerateError::DeviceLost(Box::new(error)),
        Some(Fault::OutOfMemory) => GenerateError::OutOfMemory(Box::new(error)),
        Some(Fault::Failed) => GenerateError::Device(Box::new(error)),
        None => GenerateError::Network(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::cuda::CudaError;

    #[test]
    fn the_error_of_a_gpu_is_not_taken_for_one_of_a_network() {
        let failed = |error: CudaError| {
            GenerateError::from(RunError::from(OpError::Backend { op: "linear", source: Box::new(error) }))
        };
        let status = || "CUDA_ERROR_ILLEGAL_ADDRESS".to_owned();
        let lost = failed(CudaError::Lost { doing: "multiplying", status: status() });
        assert!(matches!(lost, GenerateError::DeviceLost(_)), "{lost}");
        let full = failed(CudaError::OutOfMemory { bytes: 9, free: 1, total: 2 });
        assert!(matches!(full, GenerateError::OutOfMemory(_)), "{full}");
        let refused = failed(CudaError::Driver { doing: "launching a kernel", status: status() });
        assert!(matches!(refused, GenerateError::Device(_)), "{refused}");
        let shape = OpError::Shape { op: "linear", name: "x", expected: vec![1], actual: vec![2] };
        assert!(matches!(RunError::from(shape).into(), GenerateError::Network(_)));
    }
}
