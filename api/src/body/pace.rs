//! How long a body may take to come: texts within a time, files as long as they keep coming and come fast enough.
//!
//! Only waiting for the client counts, and not for room or for a disk of ours.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::options::Options;

/// The time that is left for a body.
#[derive(Debug)]
pub(super) struct Pace {
    /// How long it may take in all.
    whole: Duration,
    /// How long it may stand still.
    stall: Duration,
    /// How long it has taken.
    spent: Duration,
    /// How fast its files must come, once they do.
    files: Option<Files>,
}

/// How fast files must come, on average.
#[derive(Debug)]
struct Files {
    least_bytes_per_s: u64,
    /// How long the body had taken when they began.
    began: Duration,
    bytes: u64,
}

/// What is over when a step takes too long.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Whole,
    Stall,
    Rate(u64),
}

impl Pace {
    /// Begins with the time that texts have.
    pub(super) fn of_texts(options: &Options) -> Self {
        let whole = options.body_timeout;
        Self { whole, stall: whole, spent: Duration::ZERO, files: None }
    }

    /// Goes on with the time that files have, unless it does already.
    pub(super) fn go_on_with_files(&mut self, options: &Options) {
        if self.files.is_none() {
            self.whole = options.upload_timeout;
            self.stall = options.upload_stall_timeout;
            let least_bytes_per_s = options.upload_least_bytes_per_s;
            self.files = Some(Files { least_bytes_per_s, began: self.spent, bytes: 0 });
        }
    }

    /// Counts bytes that have come.
    pub(super) fn count(&mut self, bytes: usize) {
        if let Some(files) = &mut self.files {
            files.bytes = files.bytes.saturating_add(bytes as u64);
        }
    }

    /// Waits for a step of reading.
    ///
    /// Errors: `request_timeout`.
    pub(super) async fn in_time<T>(&mut self, step: impl Future<Output = T>) -> Result<T, ApiError> {
        let (limit, left) = self.nearest();
        let began = Instant::now();
        let done = timeout(left, step).await;
        self.spent += began.elapsed();
        done.map_err(|_| {
            let message = match limit {
                Limit::Whole => format!("the body did not come within {} s", self.whole.as_secs_f64()),
                Limit::Stall => format!("nothing of the body came for {} s", self.stall.as_secs_f64()),
                Limit::Rate(least) => format!("the files came with less than {least} bytes a second"),
            };
            ApiError::new(ErrorCode::RequestTimeout, message)
        })
    }

    /// Returns the limit that comes first, and the time until then.
    fn nearest(&self) -> (Limit, Duration) {
        let whole = (Limit::Whole, self.whole.saturating_sub(self.spent));
        let rate = self.files.as_ref().filter(|files| files.least_bytes_per_s > 0).map(|files| {
            // A stall at the beginning is none at that average.
            let earned = files.bytes / files.least_bytes_per_s;
            let until = files.began.saturating_add(self.stall).saturating_add(Duration::from_secs(earned));
            (Limit::Rate(files.least_bytes_per_s), until.saturating_sub(self.spent))
        });
        let limits = [Some(whole), Some((Limit::Stall, self.stall)), rate];
        limits.into_iter().flatten().min_by_key(|(_, left)| *left).unwrap_or(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    fn pace_of_files() -> Pace {
        let options = Options {
            body_timeout: Duration::from_secs(30),
            upload_timeout: Duration::from_secs(900),
            upload_stall_timeout: STALL,
            upload_least_bytes_per_s: 1000,
            ..Options::default()
        };
        let mut pace = Pace::of_texts(&options);
        pace.spent = Duration::from_secs(10);
        pace.go_on_with_files(&options);
        pace
    }

    #[test]
    fn a_file_that_drips_is_too_slow_and_one_that_comes_well_has_all_its_time() {
        let mut pace = pace_of_files();
        assert!(matches!(pace.nearest(), (_, STALL)));
        pace.spent += Duration::from_secs(29);
        pace.count(1);
        assert!(matches!(pace.nearest(), (Limit::Rate(1000), left) if left == Duration::from_secs(1)));
        pace.count(1_000_000);
        assert!(matches!(pace.nearest(), (Limit::Stall, STALL)));
        pace.count(100_000_000);
        pace.spent = Duration::from_secs(895);
        assert!(matches!(pace.nearest(), (Limit::Whole, left) if left == Duration::from_secs(5)));
    }

    #[tokio::test]
    async fn only_waiting_for_the_client_counts() {
        let options = Options { body_timeout: Duration::from_millis(50), ..Options::default() };
        let mut pace = Pace::of_texts(&options);
        tokio::time::sleep(Duration::from_millis(100)).await; // for room
        pace.in_time(std::future::ready(())).await.unwrap();
        let refused = pace.in_time(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (ErrorCode::RequestTimeout, "the body did not come within 0.05 s")
        );
    }
}
