//! The video: from frames and samples to a file, and from there into the media store.

pub(crate) mod previews;
pub(crate) mod sink;
pub(crate) mod upload;
