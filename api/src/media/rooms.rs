//! The room that one request holds.

use std::sync::Arc;

use clapboard_jobs::{Store, Tenant};

use super::Intake;
use super::capacity::Held;
use crate::app::Shared;
use crate::error::ApiError;

/// How long the texts of a body may be before it counts as a large one.
const LONG_TEXT_BYTES: usize = 1 << 20;

/// The room that one request holds, given back when this is dropped.
pub(crate) struct Rooms {
    pub(super) intake: Arc<Intake>,
    store: Arc<dyn Store>,
    pub(super) tenant: Tenant,
    upload: Option<Held>,
    text: Option<Held>,
}

impl Rooms {
    /// Begins with none.
    pub(crate) fn new(shared: &Shared, tenant: Tenant) -> Self {
        let Shared { app, intake, .. } = shared;
        Self { intake: Arc::clone(intake), store: Arc::clone(&app.store), tenant, upload: None, text: None }
    }

    /// Waits for room for media, unless there is; none is given for a job that would not be made.
    ///
    /// Errors: `queue_full`; `no_capacity` when there is none for too long, or the job store is away.
    pub(crate) async fn hold_upload(&mut self) -> Result<(), ApiError> {
        if self.upload.is_none() {
            self.store.check_room(&self.tenant).await?;
            self.upload = Some(self.intake.capacity.upload(&self.tenant).await?);
        }
        Ok(())
    }

    /// Waits for room for texts of so many bytes, unless there is or they are short. Long ones hold media, so that a place
    /// for those is taken before.
    ///
    /// Errors: those of [`Rooms::hold_upload`].
    pub(crate) async fn hold_text(&mut self, bytes: usize) -> Result<(), ApiError> {
        if self.text.is_none() && bytes > LONG_TEXT_BYTES {
            self.hold_upload().await?;
            self.text = Some(self.intake.capacity.text(&self.tenant).await?);
        }
        Ok(())
    }

    /// Gives back the room for long texts, which are gone.
    pub(super) fn let_text_go(&mut self) {
        self.text = None;
    }
}
