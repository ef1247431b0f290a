//! What the API keys grant.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clapboard_jobs::{Grant, KeyHash, Store, StoreError};
use sha2::{Digest, Sha256};

/// How many keys are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// The keys, by way of a short memory: a client that polls does not cost the store a look-up each time.
///
/// Only keys that exist are remembered, so that a new key works at once and wrong ones cannot push out good ones.
#[derive(Clone)]
pub(crate) struct Keys {
    store: Arc<dyn Store>,
    remembered: Arc<Mutex<Memory>>,
}

/// A key that somebody has brought, as which it is asked for again.
#[derive(Clone)]
pub(super) struct Pass {
    keys: Keys,
    hash: KeyHash,
}

impl Pass {
    /// Returns what the key grants now; none when it is not known or is revoked.
    ///
    /// Errors: [`StoreError`].
    pub(super) async fn grant(&self) -> Result<Option<Arc<Grant>>, StoreError> {
        self.keys.grant(self.hash).await
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass(..)")
    }
}

impl Keys {
    /// Remembers nothing yet, and what it hears for as long as `life`: a key that is revoked works for as long still.
    pub(crate) fn of(store: Arc<dyn Store>, life: Duration) -> Self {
        Self { store, remembered: Arc::new(Mutex::new(Memory::new(life))) }
    }

    /// Takes a key as it was brought.
    pub(super) fn pass(&self, key: &[u8]) -> Pass {
        // Stores and memory know the hash alone, so comparing takes a time that says nothing about any key.
        Pass { keys: self.clone(), hash: KeyHash(Sha256::digest(key).into()) }
    }

    async fn grant(&self, hash: KeyHash) -> Result<Option<Arc<Grant>>, StoreError> {
        let asked = Instant::now();
        if let Some(grant) = self.memory(|memory| memory.recall(&hash, asked)) {
            return Ok(Some(grant));
        }
        let Some(grant) = self.store.grant_of(&hash).await?.map(Arc::new) else { return Ok(None) };
        // From the time of the question: what was taken away while the answer came is forgotten in time.
        self.memory(|memory| memory.keep(hash, Arc::clone(&grant), asked));
        Ok(Some(grant))
    }

    fn memory<T>(&self, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(&mut self.remembered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the keys grant that were asked for lately, and when each was.
struct Memory {
    life: Duration,
    grants: HashMap<KeyHash, (Arc<Grant>, Instant)>,
}

impl Memory {
    fn new(life: Duration) -> Self {
        Self { life, grants: HashMap::new() }
    }

    fn recall(&self, hash: &KeyHash, now: Instant) -> Option<Arc<Grant>> {
        let (grant, asked) = self.grants.get(hash)?;
        is_fresh(*asked, now, self.life).then(|| Arc::clone(grant))
    }

    fn keep(&mut self, hash: KeyHash, grant: Arc<Grant>, asked: Instant) {
        let life = self.life;
        if self.grants.len() >= MAX_REMEMBERED {
            self.grants.retain(|_, (_, before)| is_fresh(*before, asked, life));
        }
        if self.grants.len() >= MAX_REMEMBERED {
            // Each is asked for again, once.
            self.grants.clear();
        }
        self.grants.insert(hash, (grant, asked));
    }
}

fn is_fresh(asked: Instant, now: Instant, life: Duration) -> bool {
    now.saturating_duration_since(asked) < life
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clapboard_jobs::{ApiKeyId, Tenant};

    use super::*;

    const MEMORY: Duration = Duration::from_secs(10);

    fn grant() -> Arc<Grant> {
        Arc::new(Grant { key: ApiKeyId::new(), tenant: Tenant::default(), scopes: BTreeSet::new(), rate: None })
    }

    fn hash(number: usize) -> KeyHash {
        KeyHash(Sha256::digest(number.to_le_bytes()).into())
    }

    #[test]
    fn a_key_is_forgotten_in_time() {
        let (mut memory, asked) = (Memory::new(MEMORY), Instant::now());
        let granted = grant();
        memory.keep(hash(1), Arc::clone(&granted), asked);
        assert_eq!(memory.recall(&hash(1), asked + MEMORY - Duration::from_millis(1)), Some(granted));
        assert_eq!(memory.recall(&hash(1), asked + MEMORY), None);
        assert_eq!(memory.recall(&hash(2), asked), None);
    }

    #[test]
    fn the_memory_is_bounded_and_drops_the_old_first() {
        let (mut memory, asked, granted) = (Memory::new(MEMORY), Instant::now(), grant());
        for number in 0..MAX_REMEMBERED - 1 {
            memory.keep(hash(number), Arc::clone(&granted), asked);
        }
        let later = asked + MEMORY;
        memory.keep(hash(MAX_REMEMBERED), Arc::clone(&granted), later);
        memory.keep(hash(MAX_REMEMBERED + 1), Arc::clone(&granted), later);
        assert_eq!(memory.grants.len(), 2);
        for number in 0..3 * MAX_REMEMBERED {
            memory.keep(hash(number), Arc::clone(&granted), later);
            assert!(memory.grants.len() <= MAX_REMEMBERED);
        }
    }
}
