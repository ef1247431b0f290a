//! The settings of a dispatcher in Redis.

use std::fmt;
use std::time::Duration;

use redis::{Client, RedisError};

use crate::room;

/// The longest prefix.
const LONGEST_PREFIX: usize = 64;
/// The largest window: about 100 MiB of a server for each queue.
const LARGEST_WINDOW: usize = 1_000_000;

/// How to reach Redis, and what to keep there.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://` or, with TLS, `rediss://`, then `[user:password@]host[:port][/database]`. It may hold a password and
    /// is never shown.
    pub url: String,
    /// What every key begins with; services that share a server need different ones.
    pub prefix: String,
    /// How many hints a queue keeps, from 1 to 1,000,000.
    pub window: usize,
    /// How long one exchange with the server may take; more than nothing.
    pub timeout: Duration,
}

impl RedisOptions {
    /// What keys begin with where nothing else is said.
    pub const PREFIX: &'static str = "clapboard";
    /// How many hints a queue keeps where nothing else is said.
    pub const WINDOW: usize = 10_000;
    /// How long an exchange may take where nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_millis(100);

    /// Returns the usual settings for the server at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), prefix: Self::PREFIX.to_owned(), window: Self::WINDOW, timeout: Self::TIMEOUT }
    }

    /// Returns how many hints a refill may push to one queue: what hints at new jobs leave of its window.
    pub const fn largest_refill(&self) -> usize {
        self.window - room::for_new_jobs(self.window)
    }

    /// Checks every setting; nothing is connected.
    ///
    /// # Errors
    ///
    /// Fails if a setting breaks its rule.
    pub fn validate(&self) -> Result<(), OpenError> {
        self.client().map(|_| ())
    }

    /// Checks every setting, and makes of them what connects.
    pub(super) fn client(&self) -> Result<Client, OpenError> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"_-.:".contains(&b);
        if !(1..=LONGEST_PREFIX).contains(&self.prefix.len()) || !self.prefix.bytes().all(legal) {
            let rule = "must be 1 to 64 of a-z, A-Z, 0-9, _, -, . and :";
            return Err(OpenError::Setting { setting: "prefix", rule, given: format!("{:?}", self.prefix) });
        }
        if !(1..=LARGEST_WINDOW).contains(&self.window) {
            let given = self.window.to_string();
            return Err(OpenError::Setting { setting: "window", rule: "must be from 1 to 1000000", given });
        }
        if self.timeout.is_zero() {
            let given = format!("{:?}", self.timeout);
            return Err(OpenError::Setting { setting: "timeout", rule: "must be more than nothing", given });
        }
        if self.url.contains('#') {
            return Err(OpenError::Fragment);
        }
        // A no is that somebody has chosen a provider before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::open(self.url.as_str()).map_err(OpenError::Url)
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("window", &self.window)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Why the settings cannot be used. The URL is never shown, because it may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL has another form.
    #[error("the url of redis must be redis://[user:password@]host[:port][/database], or rediss:// for tls")]
    Url(#[source] RedisError),
    /// The URL has a part that would switch the check of certificates off.
    #[error("the url of redis must not have a part after '#'; one in a password is written %23")]
    Fragment,
    /// Another setting breaks its rule.
    #[error("the {setting} of redis {rule}, not {given}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it must be.
        rule: &'static str,
        /// What was given.
        given: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut RedisOptions)) -> String {
        let mut options = RedisOptions::new("redis://localhost");
        change(&mut options);
        options.client().unwrap_err().to_string()
    }

    #[test]
    fn every_setting_has_its_rule() {
        assert!(RedisOptions::new("rediss://user:secret@example.org:6380/3").client().is_ok());
        for wrong in ["", "a b", "ä", "{a}", &"x".repeat(65)] {
            assert!(refused(|options| options.prefix = wrong.to_owned()).contains("the prefix of redis"), "{wrong:?}");
        }
        for wrong in [0, 1_000_001, usize::MAX] {
            let expected = format!("window of redis must be from 1 to 1000000, not {wrong}");
            assert!(refused(|options| options.window = wrong).contains(&expected), "{wrong}");
        }
        assert!(refused(|options| options.timeout = Duration::ZERO).contains("timeout"));
        assert!(refused(|options| options.url.push_str("/#insecure")).contains('#'));
    }

    #[test]
    fn a_bad_url_is_refused_without_showing_it() {
        for wrong in ["", "localhost", "http://:secret@localhost", "redis://:secret@localhost:x", "redis://:secret@"] {
            let error = RedisOptions::new(wrong).client().unwrap_err();
            let shown = format!("{error} {error:?} {:?}", RedisOptions::new(wrong));
            assert!(matches!(error, OpenError::Url(_)), "{wrong:?}");
            assert!(!shown.contains("secret"), "{shown}");
        }
        let options = RedisOptions::new("redis://:secret@localhost/not-a-number");
        let error = options.client().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}
