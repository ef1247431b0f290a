//! What one worker goes by.

use std::path::PathBuf;
use std::time::Duration;

use clapboard_jobs::{Phase, Policy, WorkerId};
use clapboard_media::decode::LONGEST_STEP;

/// How a worker keeps its leases, when it gives up, and where it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// This run of the process.
    pub worker: WorkerId,
    /// The machine's name, for operators.
    pub host: String,
    /// The program's version, for operators.
    pub version: String,
    /// The longest packed sequence that the engine can hold, in rows; none for any.
    pub max_rows: Option<u64>,
    /// A folder for unfinished files that no other process uses. What dead attempts left there is removed at start, but
    /// for finished videos whose claims still hold: those are stored.
    pub scratch: PathBuf,
    /// How long a lease lasts without a beat: what the store's policy says.
    pub lease: Duration,
    /// How often a running job's lease is renewed: also how soon a cancel is heard and progress is seen.
    pub beat_interval: Duration,
    /// How long before the end of the last renewed lease the engine is stopped when no beat gets through.
    pub fence_margin: Duration,
    /// How long each phase may go on without a sign of life.
    pub stall_limits: StallLimits,
    /// How often an idle worker asks the store itself for a job, however many hints come.
    pub poll_interval: Duration,
    /// How often the state of a running generation is stored, so that another attempt can go on from it; none for only
    /// when the worker drains.
    pub checkpoint_interval: Option<Duration>,
    /// The next job is claimed when the running one is predicted to need the engine for no longer than this; zero for
    /// only when the engine is free.
    pub prefetch_window: Duration,
    /// How long ffmpeg may take to finish a video after its last frame.
    pub encode_timeout: Duration,
    /// How long the media store may take for an input, and is tried where it is out of reach, before the job is handed back
    /// uncounted.
    pub input_fetch_deadline: Duration,
    /// How long an unreachable media store is tried before the attempt is given up.
    pub upload_deadline: Duration,
    /// How long a stored video waits for the pictures of it, before it completes without them.
    pub preview_timeout: Duration,
    /// What becomes of the running job when the worker drains.
    pub drain: DrainMode,
    /// How long a draining worker waits for the engine to stop, for the state to be stored and for finished videos to be
    /// uploaded, before it hands the jobs back all the same. [`DrainMode::Finish`] knows no such limit.
    pub drain_timeout: Duration,
    /// How long the worker claims nothing when this machine lacks what every job needs, such as room on its disk; the
    /// pause doubles, up to two minutes, until it is well again. The job it had waits as long for another worker.
    pub unwell_pause: Duration,
    /// How long the worker takes no jobs of a partition whose weights could not be loaded, before it looks whether they are
    /// there again; the pause doubles, up to ten minutes.
    pub reload_pause: Duration,
}

impl Options {
    /// The options of a worker on this machine whose store has the default policy.
    pub fn new(worker: WorkerId, scratch: PathBuf) -> Self {
        Self {
            worker,
            host: "localhost".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            max_rows: None,
            scratch,
            lease: Policy::default().lease,
            beat_interval: Duration::from_secs(2),
            fence_margin: Duration::from_secs(15),
            stall_limits: StallLimits::default(),
            poll_interval: Duration::from_secs(5),
            checkpoint_interval: Some(Duration::from_secs(60)),
            prefetch_window: Duration::from_secs(30),
            encode_timeout: Duration::from_secs(300),
            input_fetch_deadline: Duration::from_secs(1800),
            upload_deadline: Duration::from_secs(1800),
            preview_timeout: Duration::from_secs(60),
            drain: DrainMode::default(),
            drain_timeout: Duration::from_secs(30),
            unwell_pause: Duration::from_secs(5),
            reload_pause: Duration::from_secs(60),
        }
    }

    /// How often the prediction of when the engine will be free is looked at.
    pub(crate) fn look_interval(&self) -> Duration {
        (self.prefetch_window / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// Checks that the options fit each other.
    ///
    /// Errors: [`InvalidOptions`], naming the rule that is broken.
    pub fn validated(self) -> Result<Self, InvalidOptions> {
        let (lease, beat, margin) = (self.lease, self.beat_interval, self.fence_margin);
        let checkpoints = self.checkpoint_interval.is_some_and(|interval| interval.is_zero());
        let pauses = [beat, self.poll_interval, self.unwell_pause, self.reload_pause];
        if pauses.iter().any(Duration::is_zero) || checkpoints {
            return Err(InvalidOptions::Zero);
        }
        if lease <= beat * 2 {
            return Err(InvalidOptions::BeatTooSlow { beat, lease });
        }
        if lease <= beat + margin {
            return Err(InvalidOptions::MarginTooLarge { margin, beat, lease });
        }
        let (timeout, limit) = (self.encode_timeout, self.stall_limits.decode_video);
        if timeout >= limit {
            return Err(InvalidOptions::EncodeTooLong { timeout, limit });
        }
        for phase in Phase::ALL {
            let limit = self.stall_limits.of(phase);
            if limit <= beat {
                return Err(InvalidOptions::StallTooShort { phase, limit, beat });
            }
        }
        let limit = self.stall_limits.inputs;
        if limit <= LONGEST_STEP {
            return Err(InvalidOptions::InputsStallTooShort { limit });
        }
        Ok(self)
    }
}

/// What becomes of the running job when a worker drains. No further job is begun in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DrainMode {
    /// The engine stops within a block, its state is stored and the job is handed back uncounted.
    #[default]
    HandBack,
    /// The running job is completed.
    Finish,
}

/// How long each phase may go on without a sign of life before the engine counts as wedged.
///
/// A limit is for one part of the phase (a layer, a block, a tile), on the slowest machine that is meant to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StallLimits {
    /// Until the engine's first sign of life; of an engine that loads weights for a job, a part of that.
    pub prepare: Duration,
    /// A frame, a picture or a sound of a job's inputs. What stays longer fails its attempt and not the worker. Longer than
    /// the decoders bound themselves by: [`LONGEST_STEP`].
    pub inputs: Duration,
    /// A layer of the language model.
    pub text_encode: Duration,
    /// A block of the transformer.
    pub denoise: Duration,
    /// A part of the audio decoder.
    pub decode_audio: Duration,
    /// A tile of the video decoder, or room for a chunk of frames at the encoder.
    pub decode_video: Duration,
    /// The whole upload, or one try of it where it has to be repeated.
    pub upload: Duration,
}

impl StallLimits {
    /// The same limit for every phase.
    pub const fn all(limit: Duration) -> Self {
        Self {
            prepare: limit,
            inputs: limit,
            text_encode: limit,
            denoise: limit,
            decode_audio: limit,
            decode_video: limit,
            upload: limit,
        }
    }

    /// The limit of a phase.
    pub const fn of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Prepare => self.prepare,
            Phase::TextEncode => self.text_encode,
            Phase::Denoise => self.denoise,
            Phase::DecodeAudio => self.decode_audio,
            Phase::DecodeVideo => self.decode_video,
            Phase::Upload => self.upload,
        }
    }
}

impl Default for StallLimits {
    /// Ten minutes for every phase: on two CPU cores one block of a large video takes minutes.
    fn default() -> Self {
        Self::all(Duration::from_secs(600))
    }
}

/// Why a worker cannot go by its options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// A loop would never rest.
    #[error(
        "the beat interval, the poll interval, the unwell pause, the reload pause and the checkpoint interval must not be zero"
    )]
    Zero,
    /// One lost beat would lose the lease.
    #[error("a beat every {beat:?} is too slow for a lease of {lease:?}: two must fit into it")]
    BeatTooSlow {
        /// The interval.
        beat: Duration,
        /// The lease.
        lease: Duration,
    },
    /// The engine would be stopped although every beat gets through.
    #[error("a fence margin of {margin:?} and a beat every {beat:?} do not fit into a lease of {lease:?}")]
    MarginTooLarge {
        /// The margin.
        margin: Duration,
        /// The interval.
        beat: Duration,
        /// The lease.
        lease: Duration,
    },
    /// An encoder that is allowed to go on would count as a wedged engine.
    #[error("an encode time-out of {timeout:?} is not shorter than the stall limit of {limit:?} for decode_video")]
    EncodeTooLong {
        /// The time-out.
        timeout: Duration,
        /// The limit.
        limit: Duration,
    },
    /// A decoder that is allowed to go on would count as one that hangs.
    #[error("the stall limit of {limit:?} for inputs is not longer than the {LONGEST_STEP:?} that decoding may take")]
    InputsStallTooShort {
        /// The limit.
        limit: Duration,
    },
    /// Liveness is looked at with every beat, so less could not be told.
    #[error("the stall limit of {limit:?} for {phase} is not longer than the beat interval of {beat:?}")]
    StallTooShort {
        /// The phase.
        phase: Phase,
        /// Its limit.
        limit: Duration,
        /// The interval.
        beat: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new(WorkerId::new(), PathBuf::from("scratch"))
    }

    #[test]
    fn the_defaults_fit_each_other() {
        assert!(options().validated().is_ok());
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused_with_a_sentence() {
        let refused = |options: Options| options.validated().unwrap_err().to_string();
        let slow = Options { beat_interval: Duration::from_secs(30), ..options() };
        assert_eq!(refused(slow), "a beat every 30s is too slow for a lease of 60s: two must fit into it");
        let wide = Options { fence_margin: Duration::from_secs(58), ..options() };
        assert_eq!(refused(wide), "a fence margin of 58s and a beat every 2s do not fit into a lease of 60s");
        let mut impatient = options();
        impatient.stall_limits.denoise = Duration::from_secs(1);
        assert_eq!(refused(impatient), "the stall limit of 1s for denoise is not longer than the beat interval of 2s");
        let patient = Options { encode_timeout: Duration::from_secs(600), ..options() };
        assert_eq!(
            refused(patient),
            "an encode time-out of 600s is not shorter than the stall limit of 600s for decode_video"
        );
        let mut hasty = options();
        hasty.stall_limits.inputs = LONGEST_STEP;
        assert_eq!(
            refused(hasty.clone()),
            "the stall limit of 120s for inputs is not longer than the 120s that decoding may take"
        );
        hasty.stall_limits.inputs += Duration::from_millis(1);
        assert!(hasty.validated().is_ok());
        let busy = Options { poll_interval: Duration::ZERO, ..options() };
        assert_eq!(busy.validated(), Err(InvalidOptions::Zero));
        let eager = Options { reload_pause: Duration::ZERO, ..options() };
        assert_eq!(eager.validated(), Err(InvalidOptions::Zero));
        let restless = Options { checkpoint_interval: Some(Duration::ZERO), ..options() };
        assert_eq!(restless.validated(), Err(InvalidOptions::Zero));
    }
}
