//! Media that strangers send, turned into pixels and samples: [`image`], [`video`] and [`audio`].
//!
//! Each has a cheap `inspect`, which reads headers only and refuses what is over a limit before memory is spent, and a
//! decoder that stays within what was inspected. What a file is, its content says; a [`Claim`] of its sender that
//! contradicts the content is an error. JPEG, PNG and WebP are decoded here; HEIC, video and sound by outside programs
//! that get the one demuxer that the content calls for and few codecs, one local file, and bounds on their time,
//! output and memory.
//!
//! Every [`Error`] about a file can be shown to whoever sent it; [`Error::is_of_machine`] tells those that cannot.

pub mod audio;
mod boxes;
mod claim;
mod error;
pub mod image;
mod log;
mod size;
pub(crate) mod sniff;
pub(crate) mod source;
pub(crate) mod streams;
pub mod video;

use std::time::Duration;

pub use clapboard_h3::prepare::ReferenceKind as Kind;

pub use claim::Claim;
pub use error::Error;
pub use sniff::Format;
pub use streams::PROBE_LIMIT;

/// The longest of the limits of what is done to a file at one go: [`PROBE_LIMIT`], [`image::HEIF_LIMIT`],
/// [`video::FRAME_LIMIT`] and [`audio::DECODE_LIMIT`]. Whoever takes standing still for a failure waits longer.
pub const LONGEST_STEP: Duration = audio::DECODE_LIMIT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_is_longer_than_the_longest() {
        // What a program is given for its last words, or asked after it has failed, comes on top.
        let more = Duration::from_secs(20);
        for limit in [PROBE_LIMIT, image::HEIF_LIMIT + more, video::FRAME_LIMIT + more, audio::DECODE_LIMIT] {
            assert!(limit <= LONGEST_STEP, "{limit:?}");
        }
    }
}
