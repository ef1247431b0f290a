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
    /// The file had been announced as something else.
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

    /// Tells whether decoding ran out of time, for which nobody is surely to blame: [`decode::Error::is_hung`].
    pub fn is_hung(&self) -> bool {
        matches!(self, Self::Decode(error) if error.is_hung())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_ran_out_of_time_is_neither_the_files_fault_nor_the_machines() {
        let limit = Duration::from_secs(1);
        let hung = ReferenceError::from(decode::Error::Hung { what: decode::Kind::Video, limit });
        assert!(hung.is_hung() && !hung.is_of_machine() && !hung.is_aborted());
        assert!(!ReferenceError::from(decode::Error::Empty).is_hung());
    }
}
