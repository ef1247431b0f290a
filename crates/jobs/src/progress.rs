//! How far a running job has come.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::state::UnknownName;

/// What a worker is doing with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Inputs are fetched and the engine is made ready.
    Prepare,
    /// The prompt goes through the text encoder.
    TextEncode,
    /// Noise becomes latents, step by step.
    Denoise,
    /// Latents become samples.
    DecodeAudio,
    /// Latents become frames, which are encoded as they come.
    DecodeVideo,
    /// The finished file goes into the media store.
    Upload,
}

impl Phase {
    /// Every phase, in the order of a run.
    pub const ALL: [Self; 6] =
        [Self::Prepare, Self::TextEncode, Self::Denoise, Self::DecodeAudio, Self::DecodeVideo, Self::Upload];

    /// Returns the name that stores keep.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::TextEncode => "text_encode",
            Self::Denoise => "denoise",
            Self::DecodeAudio => "decode_audio",
            Self::DecodeVideo => "decode_video",
            Self::Upload => "upload",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Phase {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text).ok_or_else(|| UnknownName {
            kind: "phase",
            text: text.to_owned(),
            expected: "prepare, text_encode, denoise, decode_audio, decode_video, upload",
        })
    }
}

/// What a worker says about its progress with every beat.
///
/// The store keeps the phase and step as they come and lets `percent` only grow within an attempt, to at most
/// [`Progress::MAX_PERCENT_UNSTORED`]: 100 belongs to a job whose result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What the worker is doing.
    pub phase: Phase,
    /// How many steps of this phase are done.
    pub step: u32,
    /// How many steps this phase has.
    pub total_steps: u32,
    /// How much of the whole job is done, 0 to 100.
    pub percent: u8,
}

impl Progress {
    /// The most that a job without a stored result can show.
    pub const MAX_PERCENT_UNSTORED: u8 = 99;

    /// What a job shows whose attempt has just begun.
    pub const START: Self = Self { phase: Phase::Prepare, step: 0, total_steps: 0, percent: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_read_back_by_name() {
        for phase in Phase::ALL {
            assert_eq!(phase.as_str().parse::<Phase>().unwrap(), phase);
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
        assert!("encode".parse::<Phase>().is_err());
    }
}
