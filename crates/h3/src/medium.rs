//! A medium that came with a request, as far as its headers tell.

use crate::prepare::ReferenceKind;

/// What the headers of a sent file say.
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
        /// Frames per second, on average.
        fps: f64,
        /// How long its pictures last, in seconds.
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
    /// What its headers say.
    pub facts: MediumFacts,
}
