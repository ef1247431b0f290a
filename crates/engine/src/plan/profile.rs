//! Cards with the numbers of their published recipes.

use std::str::FromStr;

use clapboard_h3::{Canvas, FrameCount};

use super::rates::Rates;
use crate::weights::ResidentLayers;

/// One card, and what its recipe runs on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// The card's memory.
    pub hbm_bytes: u64,
    /// The recipe's resident blocks; auto where no recipe names a number.
    pub resident_layers: ResidentLayers,
    /// The recipe's width and height.
    size: [u32; 2],
    /// The recipe's frames.
    frames: u32,
    /// The recipe's sigma points.
    pub points: u32,
    /// The card's rates.
    pub rates: Rates,
}

/// Why a text names no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It names a recipe for several cards.
    #[error("profile {name} needs {gpus} GPUs, and one is planned for: rtx5090 or rtx4090")]
    MoreGpus {
        /// The profile.
        name: String,
        /// Its cards.
        gpus: usize,
    },
    /// It names none.
    #[error("profile must be one of rtx5090, rtx4090, got {0:?}")]
    Unknown(String),
}

impl Profile {
    /// One RTX 5090 with 32 GiB: the recipe has 12 resident blocks, 1344x768, 124 frames, 50 sigma points. On another card it
    /// peaked at 26.50 GiB, with AdaLN projections in every block and feed-forward layers in one piece.
    ///
    /// The transformer's rate is what two of them made of a published run at the least (50 forwards and the decode in 8 min 38 s).
    pub const RTX5090: Self = Self {
        name: "rtx5090",
        hbm_bytes: 32 << 30,
        resident_layers: ResidentLayers::Fixed(12),
        size: [1344, 768],
        frames: 124,
        points: 50,
        rates: Rates { h2d_gb_per_s: 55.0, ..scaled(170.0) },
    };

    /// One RTX 4090, which tells of 24,564 MiB, over PCIe 4: no recipe covers it alone, so that the resident blocks are left to the
    /// budget. Shape and sigma points are those of the recipe for two; the rate is what those made of a published run at the
    /// least (1024x576, 60 forwards in 7 min 9 s).
    pub const RTX4090: Self = Self {
        name: "rtx4090",
        hbm_bytes: 24_564 << 20,
        resident_layers: ResidentLayers::Auto,
        size: [1024, 576],
        frames: 124,
        points: 50,
        rates: Rates { h2d_gb_per_s: 25.0, ..scaled(107.0) },
    };

    /// The recipe's canvas.
    pub fn canvas(&self) -> Canvas {
        Canvas::new(self.size[0], self.size[1]).expect("recipes have sides that are multiples of 32")
    }

    /// The recipe's frames.
    pub fn num_frames(&self) -> FrameCount {
        FrameCount::snap_up(self.frames)
    }
}

/// The H200's rates, scaled to another rate of the transformer.
const fn scaled(transformer_tflops: f64) -> Rates {
    let factor = transformer_tflops / Rates::H200.transformer_tflops;
    Rates {
        transformer_tflops,
        text_tflops: Rates::H200.text_tflops * factor,
        decode_tflops: Rates::H200.decode_tflops * factor,
        ..Rates::H200
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let gpus = match name {
            "rtx5090" => return Ok(Self::RTX5090),
            "rtx4090" => return Ok(Self::RTX4090),
            "rtx5090x2" | "rtx4090x2" => 2,
            "rtx4090x4" => 4,
            _ => return Err(ProfileError::Unknown(name.to_owned())),
        };
        Err(ProfileError::MoreGpus { name: name.to_owned(), gpus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_card_is_planned_for_and_recipes_of_more_are_refused_by_their_number() {
        for (name, profile) in [("rtx5090", Profile::RTX5090), ("rtx4090", Profile::RTX4090)] {
            assert_eq!(name.parse(), Ok(profile));
            assert_eq!(profile.num_frames().get(), 124);
            assert!(profile.canvas().pixels() > 500_000);
        }
        for (name, gpus) in [("rtx5090x2", 2), ("rtx4090x2", 2), ("rtx4090x4", 4)] {
            let error = name.parse::<Profile>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("profile {name} needs {gpus} GPUs")), "{error}");
        }
        let error = "rtx3090".parse::<Profile>().unwrap_err();
        assert_eq!(error.to_string(), "profile must be one of rtx5090, rtx4090, got \"rtx3090\"");
    }
}
