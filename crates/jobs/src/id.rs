//! The identities of the queue, each its own type.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Says why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct InvalidId {
    /// What was given.
    pub text: String,
    /// What it should have been.
    pub expected: &'static str,
}

/// Reads a UUID in 32 lower-case hex digits behind a prefix; upper-case digits and hyphens are refused, so that one thing
/// has one spelling.
pub(crate) fn prefixed(text: &str, prefix: &str, expected: &'static str) -> Result<Uuid, InvalidId> {
    let invalid = || InvalidId { text: text.to_owned(), expected };
    let digits = text.strip_prefix(prefix).ok_or_else(invalid)?;
    let canonical = digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !canonical {
        return Err(invalid());
    }
    Uuid::try_parse(digits).map_err(|_| invalid())
}

/// Names a job: a UUID v7, shown as `video_gen_` and 32 hex digits.
///
/// Version 7 begins with the time of creation, so the ids of one process sort as they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(Uuid);

impl JobId {
    /// What every id begins with.
    pub const PREFIX: &'static str = "video_gen_";

    /// Makes a new id.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Wraps the UUID that a store has kept.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Returns the UUID inside, which is what a store keeps.
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl Default for JobId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0.simple())
    }
}

impl FromStr for JobId {
    type Err = InvalidId;

    /// Reads exactly the shape that `Display` writes.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        prefixed(text, Self::PREFIX, "a job id (video_gen_ and 32 hex digits)").map(Self)
    }
}

impl TryFrom<String> for JobId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.to_string()
    }
}

/// Counts the claims of one job; it only ever grows, whatever happens to the attempt number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Tells two claims apart even if a restored store has handed out the same fence twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClaimToken(pub Uuid);

impl ClaimToken {
    /// Draws a random token.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Returns the first eight hex digits, which go into the keys of the claim's objects.
    pub fn short(self) -> String {
        let mut text = self.0.simple().to_string();
        text.truncate(8);
        text
    }
}

/// Names one run of a worker process: made new at every start, so it is never that of a dead one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub Uuid);

impl WorkerId {
    /// Makes the id of a process that has just started.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for WorkerId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names whom a job belongs to: 1 to 64 of `a-z A-Z 0-9 _ -`, so that it may stand in an object's key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(String);

impl Tenant {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Tenant {
    /// The tenant of a service that knows no keys.
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Tenant {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if (1..=64).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { text: text.to_owned(), expected: "a tenant (1 to 64 of a-z, A-Z, 0-9, _ and -)" })
        }
    }
}

impl TryFrom<String> for Tenant {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_is_read_back_as_it_was_shown() {
        let id = JobId::new();
        let shown = id.to_string();
        assert_eq!(shown.len(), "video_gen_".len() + 32);
        assert_eq!(shown.parse::<JobId>().unwrap(), id);
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("{shown:?}"));
    }

    #[test]
    fn only_one_spelling_of_a_job_id_is_accepted() {
        let id = JobId::from_uuid(Uuid::from_u128(0x0194_abcd_ef01_7abc_8def_0123_4567_89ab));
        let shown = "video_gen_0194abcdef017abc8def0123456789ab";
        assert_eq!(shown.parse::<JobId>().unwrap(), id);
        for wrong in [
            "",
            "video_gen_",
            "0194abcdef017abc8def0123456789ab",
            "video_gen_0194ABCDEF017ABC8DEF0123456789AB",
            "video_gen_0194abcd-ef01-7abc-8def-0123456789ab",
            "video_gen_0194abcdef017abc8def0123456789a",
            "video_gen_0194abcdef017abc8def0123456789abc",
            "video_0194abcdef017abc8def0123456789ab",
        ] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn ids_made_later_sort_later() {
        let ids: Vec<JobId> = (0..1000).map(|_| JobId::new()).collect();
        assert!(ids.is_sorted());
    }

    #[test]
    fn a_tenant_cannot_hold_what_would_break_a_key() {
        for wrong in ["", "a/b", "..", "a b", "ä", &"x".repeat(65)] {
            assert!(wrong.parse::<Tenant>().is_err(), "{wrong:?} was accepted");
        }
        assert_eq!("team_a-1".parse::<Tenant>().unwrap().as_str(), "team_a-1");
    }
}
