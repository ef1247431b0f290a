//! The two published ways of running the same weights.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The one stored choice that fixes noise draws, second-keyframe fit, reference order and decoder precision together.
///
/// Equal seeds give different results under the two, so a job keeps the recipe it was accepted with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recipe {
    /// The release's serving recipe: every noise draw restarts a generator at the seed; both keyframes are stretched;
    /// references go images, videos, sounds; the video decoder's linear layers may run in F16.
    #[default]
    Release,
    /// The recipe of diffusers: one generator for all draws in order; the second keyframe is cropped to cover;
    /// references keep the order of the request; the video decoder runs in F32.
    Diffusers,
}

impl Recipe {
    /// Holds both recipes.
    pub const ALL: [Self; 2] = [Self::Release, Self::Diffusers];

    /// Returns the name that settings and specs use: `release` or `diffusers`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Diffusers => "diffusers",
        }
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Recipe {
    type Err = UnknownRecipe;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|recipe| recipe.as_str() == name).ok_or_else(|| UnknownRecipe(name.to_owned()))
    }
}

/// Says that a name belongs to no recipe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("recipe must be one of release, diffusers, got {0:?}")]
pub struct UnknownRecipe(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_recipe_is_the_default() {
        assert_eq!(Recipe::default(), Recipe::Release);
    }

    #[test]
    fn names_round_trip() {
        for recipe in Recipe::ALL {
            assert_eq!(recipe.to_string().parse::<Recipe>().unwrap(), recipe);
        }
        assert_eq!(
            "vllm".parse::<Recipe>().unwrap_err().to_string(),
            "recipe must be one of release, diffusers, got \"vllm\""
        );
    }
}
