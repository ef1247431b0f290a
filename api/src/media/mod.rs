//! The media of a request, from its bytes to stored objects.
//!
//! Files of a form are written to the [`spool`] while they come. What the request's URLs lead to is brought there once the
//! request itself has passed its rules ([`gather`]); then every file is looked into ([`inspect`]), which gives the rules what they
//! still have to know, and in the end stored for the worker ([`store`]). Whatever is in the spool is removed when the request
//! ends, however it ends.
//!
//! All of this is bounded, since a request with media holds disk, processors and memory: see [`Intake`].

mod data_url;
mod gather;
mod inspect;
mod spool;
mod store;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::app::Options;
use crate::error::ApiError;
use crate::fetch::Fetcher;

pub(crate) use data_url::DataUrl;
pub(crate) use gather::{Gathered, Wants, gather};
pub(crate) use spool::{Spool, Spooled};
pub(crate) use store::store;

/// The most files that a request may bring, by whatever way.
pub(crate) const MAX_FILES: usize = 12;
/// The most bytes of a file that a form brings; what its kind may have is looked at once the kind is known.
pub(crate) const MAX_FILE_BYTES: u64 = 50 << 20;

/// The most files that are looked into at once, however many processors there are: a picture as large as it may be takes half
/// a gibibyte.
const MAX_INSPECTIONS: usize = 8;
/// How long the texts of a body may be before it counts as a large one.
pub(crate) const LONG_TEXT_BYTES: usize = 1 << 20;

/// The room that one request holds, given back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// For media.
    pub(crate) upload: Option<OwnedSemaphorePermit>,
    /// For long texts.
    pub(crate) large: Option<OwnedSemaphorePermit>,
}

impl Rooms {
    /// Waits for room for media, unless there is.
    ///
    /// Errors: `no_capacity` when there is none for too long.
    pub(crate) async fn hold_upload(&mut self, intake: &Intake) -> Result<(), ApiError> {
        if self.upload.is_none() {
            let message = "as many requests with media are being read as may";
            self.upload = Some(intake.permit(&intake.uploads, message).await?);
        }
        Ok(())
    }

    /// Waits for room for texts of so many bytes, unless there is or they are short.
    ///
    /// Errors: `no_capacity` when there is none for too long.
    pub(crate) async fn hold_text(&mut self, intake: &Intake, bytes: usize) -> Result<(), ApiError> {
        if self.large.is_none() && bytes > LONG_TEXT_BYTES {
            let message = "as many large bodies are being read as may";
            self.large = Some(intake.permit(&intake.large_bodies, message).await?);
        }
        Ok(())
    }
}

/// What the requests of a process share that bring media or long texts.
pub(crate) struct Intake {
    pub(crate) spool: Spool,
    pub(crate) fetcher: Fetcher,
    /// One permit for each request that has media, from the first of them until they are stored.
    uploads: Arc<Semaphore>,
    /// One permit for each body whose texts are long, until they have been read.
    large_bodies: Arc<Semaphore>,
    /// One permit for each file that is being looked into.
    inspections: Arc<Semaphore>,
    wait: Duration,
    /// How long the fetches of one request may take together.
    fetch_timeout: Duration,
}

impl Intake {
    /// Makes room as the options say; as many files are looked into at once as there are processors, and
    /// [`MAX_INSPECTIONS`] at most.
    pub(crate) fn new(options: &Options) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS)));
        Self {
            spool: Spool::new(options.spool.clone()),
            fetcher: Fetcher::new(&options.allow_url_hosts),
            uploads: permits(options.max_uploads),
            large_bodies: permits(options.max_large_bodies),
            inspections: permits(std::thread::available_parallelism().map_or(1, usize::from).min(MAX_INSPECTIONS)),
            wait: options.capacity_wait,
            fetch_timeout: options.input_fetch_timeout,
        }
    }

    async fn permit(&self, of: &Arc<Semaphore>, message: &str) -> Result<OwnedSemaphorePermit, ApiError> {
        match timeout(self.wait, Arc::clone(of).acquire_owned()).await {
            Ok(permit) => Ok(permit.expect("nobody closes the semaphore")),
            Err(_) => Err(ApiError::away(message)),
        }
    }
}
