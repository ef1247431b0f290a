//! The media of a request, from its bytes to stored objects.
//!
//! Files of a form are written to the [`spool`] while they come. What the request's URLs lead to is brought there once the
//! request itself has passed its rules ([`gather`]); then every file is looked into ([`inspect`]), which gives the rules what they
//! still have to know, and in the end stored for the worker ([`store`]). Those of a remix are [copied](mod@copy) from its original. Whatever is in the spool is removed when the request
//! ends, however it ends.
//!
//! All of this is bounded, since a request with media holds disk, processors and memory: see [`capacity`].

mod capacity;
mod copy;
mod data_url;
mod gather;
mod inspect;
mod rooms;
mod spool;
mod store;

use std::sync::Arc;
use std::time::Duration;

use clapboard_h3::prepare::{ReferenceKind, ReferenceLimits};
use clapboard_h3::{GeometryProfile, ReferenceCounts};

use crate::fetch::Fetcher;
use crate::options::Options;
use capacity::Capacity;

pub(crate) use copy::copy;
pub(crate) use data_url::DataUrl;
pub(crate) use gather::{Gathered, Wants, gather};
pub(crate) use inspect::invalid_media;
pub(crate) use rooms::Rooms;
pub(crate) use spool::{Spool, Spooled};
pub(crate) use store::store;

/// The most files that a request may bring, by whatever way.
pub(crate) const MAX_FILES: usize = ReferenceCounts::MAX_TOTAL as usize;

/// What the requests of a process share that bring media or long texts.
pub(crate) struct Intake {
    pub(crate) spool: Spool,
    fetcher: Fetcher,
    capacity: Capacity,
    limits: Arc<ReferenceLimits>,
    /// How long the fetches of one request may take together.
    fetch_timeout: Duration,
    /// How long looking into the files of one request may take, together and with waiting.
    inspection_timeout: Duration,
}

impl Intake {
    /// Makes room as the options say, for media within the limits of a geometry.
    pub(crate) fn new(options: &Options, geometry: &GeometryProfile) -> Self {
        Self {
            spool: Spool::new(options.spool.clone()),
            fetcher: Fetcher::new(options.allowed_hosts()),
            capacity: Capacity::new(options),
            limits: Arc::new(ReferenceLimits::of(geometry)),
            fetch_timeout: options.input_fetch_timeout,
            inspection_timeout: options.inspection_timeout,
        }
    }

    /// Returns the most bytes that a file of a kind may have.
    fn most_bytes(&self, kind: ReferenceKind) -> u64 {
        match kind {
            ReferenceKind::Image => self.limits.image_bytes,
            ReferenceKind::Video => self.limits.video_bytes,
            ReferenceKind::Audio => self.limits.audio_bytes,
        }
    }

    /// Returns the most bytes that a file may have whose kind is not known yet.
    pub(crate) fn most_bytes_of_any(&self) -> u64 {
        let kinds = [ReferenceKind::Image, ReferenceKind::Video, ReferenceKind::Audio];
        kinds.map(|kind| self.most_bytes(kind)).into_iter().max().unwrap_or_default()
    }
}

/// Says that a file has more bytes than this, which is as many as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file has more than {0} bytes, which is as many as are accepted")]
pub(crate) struct TooLarge(pub(crate) u64);
