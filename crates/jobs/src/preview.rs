//! Pictures of a finished video.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::outcome::ResultObject;
use crate::state::UnknownName;

/// What kind of picture it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreviewKind {
    /// One frame, as WebP.
    Thumbnail,
    /// Frames from the whole video side by side, as JPEG.
    Spritesheet,
}

impl PreviewKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Thumbnail, Self::Spritesheet];

    /// Returns the name on the wire and in keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Thumbnail => "thumbnail",
            Self::Spritesheet => "spritesheet",
        }
    }

    /// Returns the ending of file names.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Thumbnail => "webp",
            Self::Spritesheet => "jpg",
        }
    }

    /// Returns the media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Thumbnail => "image/webp",
            Self::Spritesheet => "image/jpeg",
        }
    }
}

impl FromStr for PreviewKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownName {
            kind: "preview",
            text: text.to_owned(),
            expected: "thumbnail, spritesheet",
        })
    }
}

/// A stored picture of a video. It is kept as long as the video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// What kind of picture it is.
    pub kind: PreviewKind,
    /// Where it lies: always [`Lease::preview_key`](crate::Lease::preview_key) of the claim that made it.
    #[serde(flatten)]
    pub object: ResultObject,
}
