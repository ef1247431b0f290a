//! Which tenants the API keys stand for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clapboard_jobs::{KeyHash, Store, StoreError, Tenant};
use sha2::{Digest, Sha256};

/// How long a key is taken to stand for the tenant that the store has named. A key that is taken away works for as long still.
const MEMORY: Duration = Duration::from_secs(10);
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

impl Keys {
    /// Remembers nothing yet.
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        Self { store, remembered: Arc::default() }
    }

    /// Returns whom a key stands for.
    ///
    /// Errors: [`StoreError`].
    pub(crate) async fn tenant(&self, key: &[u8]) -> Result<Option<Tenant>, StoreError> {
        // Stores and memory know the hash alone, so comparing takes a time that says nothing about any key.
        let hash = KeyHash(Sha256::digest(key).into());
        let asked = Instant::now();
        if let Some(tenant) = self.memory(|memory| memory.recall(&hash, asked)) {
            return Ok(Some(tenant));
        }
        let tenant = self.store.tenant_of_key(&hash).await?;
        if let Some(tenant) = &tenant {
            // From the time of the question: what was taken away while the answer came is forgotten in time.
            self.memory(|memory| memory.keep(hash, tenant.clone(), asked));
        }
        Ok(tenant)
    }

    fn memory<T>(&self, with: impl FnOnce(&mut Memory) -> T) -> T {
        with(&mut self.remembered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The tenants of the keys that were asked for lately, and when each was.
#[derive(Default)]
struct Memory(HashMap<KeyHash, (Tenant, Instant)>);

impl Memory {
    fn recall(&self, hash: &KeyHash, now: Instant) -> Option<Tenant> {
        let (tenant, asked) = self.0.get(hash)?;
        is_fresh(*asked, now).then(|| tenant.clone())
    }

    fn keep(&mut self, hash: KeyHash, tenant: Tenant, asked: Instant) {
        if self.0.len() >= MAX_REMEMBERED {
            self.0.retain(|_, (_, before)| is_fresh(*before, asked));
        }
        if self.0.len() >= MAX_REMEMBERED {
            // Each is asked for again, once.
            self.0.clear();
        }
        self.0.insert(hash, (tenant, asked));
    }
}

fn is_fresh(asked: Instant, now: Instant) -> bool {
    now.saturating_duration_since(asked) < MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: usize) -> KeyHash {
        KeyHash(Sha256::digest(number.to_le_bytes()).into())
    }

    #[test]
    fn a_key_is_forgotten_in_time() {
        let (mut memory, asked) = (Memory::default(), Instant::now());
        memory.keep(hash(1), Tenant::default(), asked);
        assert_eq!(memory.recall(&hash(1), asked + MEMORY - Duration::from_millis(1)), Some(Tenant::default()));
        assert_eq!(memory.recall(&hash(1), asked + MEMORY), None);
        assert_eq!(memory.recall(&hash(2), asked), None);
    }

    #[test]
    fn the_memory_is_bounded_and_drops_the_old_first() {
        let (mut memory, asked) = (Memory::default(), Instant::now());
        for number in 0..MAX_REMEMBERED - 1 {
            memory.keep(hash(number), Tenant::default(), asked);
        }
        let later = asked + MEMORY;
        memory.keep(hash(MAX_REMEMBERED), Tenant::default(), later);
        memory.keep(hash(MAX_REMEMBERED + 1), Tenant::default(), later);
        assert_eq!(memory.0.len(), 2);
        for number in 0..3 * MAX_REMEMBERED {
            memory.keep(hash(number), Tenant::default(), later);
            assert!(memory.0.len() <= MAX_REMEMBERED);
        }
    }
}
