//! What can be measured.

use std::fmt;
use std::str::FromStr;

use crate::ops::DType;

/// A part of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// One block of the DiT.
    DitBlock,
    /// One forward of the whole DiT.
    DitStep,
    /// The text encoder.
    Text,
    /// Latents to frames.
    VaeDecode,
    /// Frames to latents.
    VaeEncode,
    /// Latents to sound.
    Audio,
}

/// A name that is no stage's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} names no stage: dit-block, dit-step, text, vae-decode, vae-encode or audio")]
pub struct NoSuchStage {
    /// The name.
    pub name: String,
}

impl Stage {
    /// All of them, in the order of a generation.
    pub const ALL: [Self; 6] =
        [Self::DitBlock, Self::DitStep, Self::Text, Self::VaeDecode, Self::VaeEncode, Self::Audio];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DitBlock => "dit-block",
            Self::DitStep => "dit-step",
            Self::Text => "text",
            Self::VaeDecode => "vae-decode",
            Self::VaeEncode => "vae-encode",
            Self::Audio => "audio",
        }
    }

    /// What its rows are: rows of a sequence, or frames of a film.
    pub fn counts(self) -> &'static str {
        match self {
            Self::DitBlock | Self::DitStep | Self::Text => "rows",
            Self::VaeDecode | Self::VaeEncode | Self::Audio => "frames",
        }
    }

    /// How many rows or frames a usual request has.
    pub fn usual_rows(self) -> usize {
        match self {
            Self::DitBlock | Self::DitStep => 39_000,
            Self::Text => 1_000,
            Self::VaeDecode | Self::VaeEncode | Self::Audio => 124,
        }
    }

    /// The types that it computes in, the release's first.
    pub fn dtypes(self) -> &'static [DType] {
        match self {
            Self::DitBlock | Self::DitStep | Self::Text => &[DType::Bf16, DType::F32],
            Self::VaeDecode => &[DType::F16, DType::Bf16, DType::F32],
            Self::VaeEncode | Self::Audio => &[DType::F32],
        }
    }
}

impl FromStr for Stage {
    type Err = NoSuchStage;

    fn from_str(name: &str) -> Result<Self, NoSuchStage> {
        let found = Self::ALL.into_iter().find(|stage| stage.as_str() == name);
        found.ok_or_else(|| NoSuchStage { name: name.to_owned() })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_called_what_they_say() {
        for stage in Stage::ALL {
            assert_eq!(stage.to_string().parse(), Ok(stage));
            assert!(NoSuchStage { name: String::new() }.to_string().contains(stage.as_str()));
        }
        assert!("dit".parse::<Stage>().is_err());
    }
}
