//! The order in which references enter the sequence.

use std::fmt;

use crate::recipe::Recipe;

/// The kinds of reference, in the release's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    /// A picture.
    Image,
    /// A video, with its soundtrack if it has one.
    Video,
    /// A standalone sound.
    Audio,
}

impl ReferenceKind {
    /// Returns the request's field that refusals name when they are about all references of the kind.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::Image => "image_reference",
            Self::Video => "video_reference",
            Self::Audio => "audio_reference",
        }
    }
}

impl fmt::Display for ReferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "sound",
        })
    }
}

/// Returns the indices of a request's references in packed order.
///
/// [`Recipe::Release`] puts pictures first, then videos, then sounds, each in the request's order;
/// [`Recipe::Diffusers`] keeps the request's order.
pub fn packed_order(kinds: &[ReferenceKind], recipe: Recipe) -> Vec<usize> {
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    if recipe == Recipe::Release {
        order.sort_by_key(|index| kinds[*index]);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_release_sorts_by_kind() {
        let kinds = [ReferenceKind::Audio, ReferenceKind::Image, ReferenceKind::Video, ReferenceKind::Image];
        assert_eq!(packed_order(&kinds, Recipe::Release), [1, 3, 2, 0]);
        assert_eq!(packed_order(&kinds, Recipe::Diffusers), [0, 1, 2, 3]);
    }
}
