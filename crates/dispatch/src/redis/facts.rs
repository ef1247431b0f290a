//! What operators want to know of the server.

use std::time::{Duration, Instant};

use clapboard_jobs::DispatchError;
use redis::pipe;

use super::failure::Failure;
use super::{RedisDispatch, Shared};

/// What a server says of itself, and how fast it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisFacts {
    /// Its version, or that of the Redis it speaks as; none where it says neither.
    pub version: Option<String>,
    /// What it throws away when its memory is full, such as `noeviction`; none where it does not say.
    pub maxmemory_policy: Option<String>,
    /// How long one exchange takes on a connection that is there already.
    pub round_trip: Duration,
}

impl RedisFacts {
    /// Returns whether hints may be thrown away to make room. They never expire, so policies that look only at keys which
    /// do (`volatile-lru` and the like) leave them alone.
    pub fn may_evict_hints(&self) -> bool {
        self.maxmemory_policy.as_ref().is_some_and(|policy| policy.starts_with("allkeys-"))
    }

    /// Returns whether the server is known to be older than the first that will do, Redis 6.0.
    pub fn is_too_old(&self) -> bool {
        let major = self.version.as_ref().and_then(|version| version.split('.').next());
        major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major < 6)
    }
}

impl RedisDispatch {
    /// Asks the server about itself; nothing in it is changed.
    ///
    /// # Errors
    ///
    /// Fails if the server does not answer within the timeout, or does not let this user ask (`INFO`, `PING`).
    pub async fn facts(&self) -> Result<RedisFacts, DispatchError> {
        self.shared.facts().await.map_err(|failure| failure.while_doing("asking the server about itself"))
    }
}

impl Shared {
    async fn facts(&self) -> Result<RedisFacts, Failure> {
        let mut questions = pipe();
        // One section each: servers before 7.0 know no more.
        questions.cmd("INFO").arg("server").cmd("INFO").arg("memory");
        let (server, memory): (String, String) = self.pushes.query(&questions).await?;
        let begun = Instant::now();
        let () = self.pushes.query(pipe().cmd("PING").ignore()).await?;
        Ok(RedisFacts {
            version: field(&server, "redis_version"),
            maxmemory_policy: field(&memory, "maxmemory_policy"),
            round_trip: begun.elapsed(),
        })
    }
}

/// Returns what an answer to `INFO` says under a name.
fn field(info: &str, name: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: &str, policy: &str) -> RedisFacts {
        let said = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        RedisFacts { version: said(version), maxmemory_policy: said(policy), round_trip: Duration::ZERO }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nempty:\r\n";
        assert_eq!(field(info, "maxmemory").as_deref(), Some("0"));
        assert_eq!(field(info, "maxmemory_policy").as_deref(), Some("noeviction"));
        assert_eq!(field(info, "empty").as_deref(), Some(""));
        assert_eq!(field(info, "max"), None);
    }

    #[test]
    fn only_policies_that_look_at_all_keys_throw_hints_away() {
        for (policy, evicts) in [
            ("noeviction", false),
            ("volatile-lru", false),
            ("allkeys-lru", true),
            ("allkeys-random", true),
            ("", false),
        ] {
            assert_eq!(facts("7.0.15", policy).may_evict_hints(), evicts, "{policy}");
        }
    }

    #[test]
    fn only_a_version_that_is_known_can_be_too_old() {
        for (version, too_old) in
            [("5.0.14", true), ("6.0.0", false), ("7.2.4", false), ("255.255.255", false), ("", false), ("v?", false)]
        {
            assert_eq!(facts(version, "noeviction").is_too_old(), too_old, "{version}");
        }
    }
}
