//! A medium that came with a request, as far as was found out before the run.

use crate::prepare::ReferenceKind;

/// What was found out about a sent file: sides and durations of pictures, sounds and soundtracks are those of the decoded
/// medium, the rate and duration of a video's frames are what its headers say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MediumFacts {
    /// A picture.
    Image {
        /// The width in pixels, upright.
        width: u32,
        /// The height in pixels, upright.
        height: u32,
    },
    /// A video.
    Video {
        /// The width in pixels, upright.
        width: u32,
        /// The height in pixels, upright.
        height: u32,
        /// Frames per second on average, by the headers.
        fps: f64,
        /// How long its frames last by the headers, in seconds.
        seconds: f64,
        /// How long its soundtrack lasts from the first picture on, in seconds; none without one.
        sound_seconds: Option<f64>,
    },
    /// A standalone sound.
    Audio {
        /// How long it lasts, in seconds.
        seconds: f64,
    },
}

impl MediumFacts {
    /// Returns what kind of medium it is.
    pub fn kind(&self) -> ReferenceKind {
        match self {
            Self::Image { .. } => ReferenceKind::Image,
            Self::Video { .. } => ReferenceKind::Video,
            Self::Audio { .. } => ReferenceKind::Audio,
        }
    }
}

/// A medium that came with a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Medium {
    /// The request's field that carried it, such as `image_reference[1].image_url`.
    pub field: String,
    /// The name of the object that holds its bytes, as [`Input::object`](crate::Input::object).
    pub object: String,
    /// Size of its file, in bytes.
    pub size_bytes: u64,
    /// What was found out about it.
    pub facts: MediumFacts,
}
