//! What a running generation tells about itself.

use std::fmt;

/// The phases of one generation, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The language model reads the prompt.
    TextEncode,
    /// The DiT denoises the latents.
    Denoise,
    /// The audio VAE decodes samples.
    DecodeAudio,
    /// The video VAE decodes frames.
    DecodeVideo,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Phase; 4] = [Phase::TextEncode, Phase::Denoise, Phase::DecodeAudio, Phase::DecodeVideo];

    /// Returns the name in logs, timings and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::TextEncode => "text_encode",
            Phase::Denoise => "denoise",
            Phase::DecodeAudio => "decode_audio",
            Phase::DecodeVideo => "decode_video",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One sign of life. Every event means that the engine moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressEvent {
    /// A phase began.
    Phase(Phase),
    /// A part of the current phase is done: a language-model layer, a DiT block, an upsampling stage, a decoder tile.
    Part {
        /// Parts done in this phase.
        done: usize,
        /// Parts of this phase.
        total: usize,
    },
    /// A denoising step is done.
    Step {
        /// Steps done.
        done: usize,
        /// Steps of the schedule: its forwards.
        total: usize,
    },
}

/// Hears progress. Called from the engine's thread: has to be cheap and must not block.
pub trait Progress: Send + Sync {
    /// Takes note of one event.
    fn report(&self, event: ProgressEvent);
}

/// Listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn report(&self, _event: ProgressEvent) {}
}
