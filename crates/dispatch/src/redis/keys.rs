//! What stands in Redis: the names of keys and members.

use clapboard_jobs::{Hint, JobId, Queue};

/// Names the keys of one service.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    /// Returns the key of a queue's sorted set.
    pub(super) fn hints(&self, queue: Queue) -> String {
        format!("{}:hints:{queue}", self.prefix)
    }
}

/// Returns the member for a job: 32 hex digits, which sort as the ids do.
pub(super) fn member(job: JobId) -> String {
    job.as_uuid().simple().to_string()
}

/// Returns the shortest text that reads as exactly this rank.
pub(super) fn score(rank: f64) -> String {
    format!("{rank:e}")
}

/// Reads a member and its score back; none for a member that was never written by us.
pub(super) fn hint(queue: Queue, member: &[u8], rank: f64) -> Option<Hint> {
    let digits = std::str::from_utf8(member).ok()?;
    let job = format!("{}{digits}", JobId::PREFIX).parse().ok()?;
    Some(Hint { queue, rank, job })
}

#[cfg(test)]
mod tests {
    use clapboard_jobs::CapacityClass;

    use super::*;

    const QUEUE: Queue = Queue::of(clapboard_h3::Partition::Fl2va, CapacityClass::SMALLEST);

    #[test]
    fn a_hint_is_read_back_as_it_was_written() {
        for rank in [0.0, -1.0, 0.1 + 0.2, 1e300, 5e-324, 123_456_789.123_456_79, f64::MAX] {
            let written = Hint { queue: QUEUE, rank, job: JobId::new() };
            let read = hint(QUEUE, member(written.job).as_bytes(), score(rank).parse().unwrap());
            assert_eq!(read, Some(written));
        }
    }

    #[test]
    fn only_ids_are_read() {
        let id = member(JobId::new());
        for wrong in ["", "x", &id[1..], &id.to_uppercase(), &format!("{id}0")] {
            assert_eq!(hint(QUEUE, wrong.as_bytes(), 0.0), None, "{wrong:?}");
        }
        assert_eq!(hint(QUEUE, &[0xff; 32], 0.0), None);
    }

    #[test]
    fn every_key_begins_with_the_prefix() {
        assert_eq!(Keys::new("a:b".to_owned()).hints(QUEUE), "a:b:hints:fl2va:8k");
    }
}
