//! How often the sweeps run, and how much each does at once.

use std::time::Duration;

use clapboard_outbound::AllowedHost;

/// Intervals and limits of the sweeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How often hints are pushed again for all that can be claimed.
    pub refill_interval: Duration,
    /// How many hints are kept per queue.
    pub refill_window: u32,
    /// How often ended leases are looked for besides the moments when they end; never less often than every
    /// [`Options::LONGEST_REAPER_INTERVAL`].
    pub reaper_interval: Duration,
    /// How often jobs that did not begin in time are looked for besides the moments when their time passes.
    pub deadline_interval: Duration,
    /// How often results and records that were kept long enough are looked for besides the moments when their time passes.
    pub retention_interval: Duration,
    /// How often garbage is looked for besides the moments when it falls due.
    pub garbage_interval: Duration,
    /// How often all objects are compared with the rows.
    pub orphan_interval: Duration,
    /// How old an object has to be before no row need know it.
    pub orphan_age: Duration,
    /// How long the deletion of one object may take.
    pub deletion_timeout: Duration,
    /// How many things a sweep does in one transaction or call.
    pub batch: u32,
    /// How often webhooks that are due are looked for.
    pub webhook_interval: Duration,
    /// How long the receiver of a webhook may take to answer.
    pub webhook_timeout: Duration,
    /// How long the webhooks that are being sent get to end when the service stops: less than the five seconds that a
    /// process gets to close, and so less than `webhook_timeout`. Those that take longer are cut off and, since that is no
    /// fault of their receivers, sent again under the same id without counting.
    pub webhook_drain: Duration,
    /// How many webhooks are sent at once.
    pub webhook_concurrency: u32,
    /// How many of these one tenant may have: a part, so that tenants whose receivers hang leave room for others.
    pub webhook_concurrency_per_tenant: u32,
    /// How many of these one receiver may have.
    pub webhook_concurrency_per_receiver: u32,
    /// The hosts to which webhooks may go although they are not on the public internet, or without encryption.
    pub allow_http_webhook_hosts: Vec<AllowedHost>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            refill_interval: Duration::from_secs(5),
            refill_window: 1000,
            reaper_interval: Duration::from_millis(1500),
            deadline_interval: Duration::from_millis(1500),
            retention_interval: Duration::from_secs(60),
            garbage_interval: Duration::from_secs(60),
            orphan_interval: Duration::from_secs(6 * 3600),
            orphan_age: Duration::from_secs(24 * 3600),
            deletion_timeout: Duration::from_secs(30),
            batch: 100,
            webhook_interval: Duration::from_secs(1),
            webhook_timeout: Duration::from_secs(15),
            webhook_drain: Duration::from_secs(4),
            webhook_concurrency: 160,
            webhook_concurrency_per_tenant: 40,
            webhook_concurrency_per_receiver: 4,
            allow_http_webhook_hosts: Vec::new(),
        }
    }
}

impl Options {
    /// Checks the options.
    ///
    /// Errors: [`InvalidOptions`], naming the setting.
    pub fn validated(self) -> Result<Self, InvalidOptions> {
        let intervals = [
            ("refill", self.refill_interval),
            ("reaper", self.reaper_interval),
            ("deadline", self.deadline_interval),
            ("retention", self.retention_interval),
            ("garbage", self.garbage_interval),
            ("orphan", self.orphan_interval),
            ("webhook", self.webhook_interval),
        ];
        for (sweep, interval) in intervals {
            if interval < Self::LEAST_INTERVAL {
                return Err(InvalidOptions::IntervalTooShort { sweep, interval });
            }
        }
        if self.deletion_timeout < Self::LEAST_DELETION_TIMEOUT {
            return Err(InvalidOptions::DeletionTimeoutTooShort { timeout: self.deletion_timeout });
        }
        if self.webhook_timeout < Self::LEAST_WEBHOOK_TIMEOUT {
            return Err(InvalidOptions::WebhookTimeoutTooShort { timeout: self.webhook_timeout });
        }
        for (setting, value) in [
            ("refill window", self.refill_window),
            ("batch", self.batch),
            ("webhook concurrency", self.webhook_concurrency),
            ("webhook concurrency per tenant", self.webhook_concurrency_per_tenant),
            ("webhook concurrency per receiver", self.webhook_concurrency_per_receiver),
        ] {
            if value == 0 {
                return Err(InvalidOptions::Nothing { setting });
            }
        }
        Ok(self)
    }

    /// The shortest interval, and the least rest between two runs of a sweep that has nothing left to do.
    pub const LEAST_INTERVAL: Duration = Duration::from_millis(100);

    /// The shortest time that a deletion is given.
    pub const LEAST_DELETION_TIMEOUT: Duration = Duration::from_millis(100);

    /// The shortest time that the receiver of a webhook is given.
    pub const LEAST_WEBHOOK_TIMEOUT: Duration = Duration::from_millis(100);

    /// The longest interval of the reaper, whatever is asked for: no job waits much longer than this behind a lease that has
    /// ended, even while nobody can say when the next one ends.
    pub const LONGEST_REAPER_INTERVAL: Duration = Duration::from_millis(1500);
}

/// Why the scheduler cannot go by its options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    /// The sweep would never rest.
    #[error("the {sweep} interval of {interval:?} is shorter than the least of {:?}", Options::LEAST_INTERVAL)]
    IntervalTooShort {
        /// Which sweep.
        sweep: &'static str,
        /// Its interval.
        interval: Duration,
    },
    /// No object would ever be deleted.
    #[error("the deletion time-out of {timeout:?} is shorter than the least of {:?}", Options::LEAST_DELETION_TIMEOUT)]
    DeletionTimeoutTooShort {
        /// The time-out.
        timeout: Duration,
    },
    /// No webhook would ever be delivered.
    #[error("the webhook time-out of {timeout:?} is shorter than the least of {:?}", Options::LEAST_WEBHOOK_TIMEOUT)]
    WebhookTimeoutTooShort {
        /// The time-out.
        timeout: Duration,
    },
    /// The sweep would never do anything.
    #[error("the {setting} must be at least 1")]
    Nothing {
        /// Which setting.
        setting: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_nonsense_is_refused_with_a_sentence() {
        assert!(Options::default().validated().is_ok());
        let busy = Options { reaper_interval: Duration::ZERO, ..Options::default() };
        let message = busy.validated().unwrap_err().to_string();
        assert_eq!(message, "the reaper interval of 0ns is shorter than the least of 100ms");
        let hasty = Options { deletion_timeout: Duration::ZERO, ..Options::default() };
        let message = hasty.validated().unwrap_err().to_string();
        assert_eq!(message, "the deletion time-out of 0ns is shorter than the least of 100ms");
        let curt = Options { webhook_timeout: Duration::ZERO, ..Options::default() };
        let message = curt.validated().unwrap_err().to_string();
        assert_eq!(message, "the webhook time-out of 0ns is shorter than the least of 100ms");
        let idle = Options { batch: 0, ..Options::default() };
        assert_eq!(idle.validated().unwrap_err().to_string(), "the batch must be at least 1");
    }
}
