//! Why a file was not prepared.

use clapboard_h3::InputShape;
use clapboard_h3::prepare::{ClipError, FitError, MediaError, PreparedReference};

use crate::decode;

/// Why a file was not prepared for a run.
///
/// Messages name no path and no program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The file cannot be decoded.
    #[error(transparent)]
    Decode(#[from] decode::Error),
    /// The frames of a video make no clip.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// A picture leads to no size.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// Pixels or samples are not what their sizes say.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The headers of the file had announced something else.
    #[error("the file holds {found}, which is not within what was announced: {announced}")]
    Shape {
        /// What the run was accepted with.
        announced: InputShape,
        /// What the file came to.
        found: InputShape,
    },
}

impl ReferenceError {
    /// Tells whether the fault lies with this machine and not with the file.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Self::Decode(error) if error.is_of_machine())
    }

    /// Tells whether nothing is wrong but that whoever wanted the result has given it up.
    pub fn is_aborted(&self) -> bool {
        matches!(self, Self::Decode(decode::Error::Aborted))
    }

    /// Checks that `prepared` is what was announced.
    pub(super) fn check(announced: InputShape, prepared: PreparedReference) -> Result<PreparedReference, Self> {
        let found = prepared.shape();
        if announced.admits(&found) { Ok(prepared) } else { Err(Self::Shape { announced, found }) }
    }
}
