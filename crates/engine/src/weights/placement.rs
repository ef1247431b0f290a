//! Which weights stay on the device.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Where weights are on the device, and when. It changes no bit of any result, only memory and time.
///
/// Source: the offload strategies of vLLM-Omni 0.30.0 (none, module and layer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Everything, always.
    #[default]
    Resident,
    /// Each network while it is computed with.
    Modules,
    /// Each network while it is computed with, and of the text encoder, the vision tower and the DiT two blocks at a time: one
    /// that is computed with, and one that comes.
    Layers {
        /// The DiT's leading blocks that stay as long as it denoises.
        resident: ResidentLayers,
    },
}

/// How many of the transformer's leading blocks stay on the device while it denoises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResidentLayers {
    /// As many as the budget holds after everything else.
    #[default]
    Auto,
    /// This many; more than there are count as all.
    Fixed(usize),
}

/// Says that a text is no number of blocks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resident layers must be a whole number or auto, got {text:?}")]
pub struct NoResidentLayers {
    text: String,
}

impl ResidentLayers {
    /// Returns how many of `blocks` stay where nobody has chosen for a request: none of them, unless a number is named.
    pub(crate) fn at_most(self, blocks: usize) -> usize {
        match self {
            Self::Auto => 0,
            Self::Fixed(layers) => layers.min(blocks),
        }
    }
}

impl FromStr for ResidentLayers {
    type Err = NoResidentLayers;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Fixed).map_err(|_| NoResidentLayers { text: text.to_owned() })
    }
}

impl fmt::Display for ResidentLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(layers) => layers.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_blocks_or_auto_is_read_and_nothing_else() {
        assert_eq!("auto".parse(), Ok(ResidentLayers::Auto));
        assert_eq!("12".parse(), Ok(ResidentLayers::Fixed(12)));
        for text in ["", "-1", "1.5", "all", "true"] {
            let error = text.parse::<ResidentLayers>().unwrap_err();
            assert_eq!(error.to_string(), format!("resident layers must be a whole number or auto, got {text:?}"));
        }
    }
}
