//! How long a form may take to come: texts within a time, files as long as they keep coming.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::app::Options;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// The time that is left for a form.
#[derive(Debug)]
pub(super) struct Pace {
    /// When all of it has to be there.
    deadline: Instant,
    /// How long it may stand still.
    stall: Duration,
    /// How long it may take, as refusals tell it.
    whole: Duration,
}

impl Pace {
    /// Begins with the time that texts have.
    pub(super) fn of_texts(options: &Options) -> Self {
        let whole = options.body_timeout;
        Self { deadline: Instant::now() + whole, stall: whole, whole }
    }

    /// Goes on with the time that files have.
    pub(super) fn go_on_with_files(&mut self, options: &Options) {
        self.deadline = (self.deadline - self.whole) + options.upload_timeout;
        self.stall = options.upload_stall_timeout;
        self.whole = options.upload_timeout;
    }

    /// Waits for a step of reading.
    ///
    /// Errors: `request_timeout`.
    pub(super) async fn in_time<T>(&self, step: impl Future<Output = T>) -> Result<T, ApiError> {
        let stalled = Instant::now() + self.stall;
        timeout_at(stalled.min(self.deadline), step).await.map_err(|_| {
            let message = if stalled < self.deadline {
                format!("nothing of the body came for {} s", self.stall.as_secs())
            } else {
                format!("the body did not come within {} s", self.whole.as_secs())
            };
            ApiError::new(ErrorCode::RequestTimeout, message)
        })
    }
}
