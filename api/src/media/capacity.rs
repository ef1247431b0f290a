//! What is scarce, and who gets how much of it.
//!
//! There are three rooms: one place for each request with media, one for each body with long texts, and memory for looking
//! into files. Each serves whoever came first, and no tenant gets more than its share of it, however much is free: the next
//! one has to find some at once. Where a request needs several, it takes them in the order in which they are named here, so
//! that no two wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clapboard_jobs::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::auth::Auth;
use crate::error::ApiError;
use crate::options::Options;

/// The most files that are looked into at once, however small they are and however many processors there are.
const MAX_INSPECTIONS: u64 = 8;
/// What the memory for looking into files is counted in.
const MIB: u64 = 1 << 20;

/// Hands out what requests share.
pub(crate) struct Capacity {
    uploads: Room,
    texts: Room,
    inspections: Room,
    /// The least that looking into a file counts as, in MiB: a processor's share.
    least_inspection: u32,
    wait: Duration,
}

/// What one holder has of a room, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Capacity {
    /// Makes the rooms as the options say.
    ///
    /// A tenant's share of each is that of [`Options::max_uploads_per_tenant`]; all of it where there is one tenant only.
    pub(crate) fn new(options: &Options) -> Self {
        let uploads = units(options.max_uploads as u64);
        let of_tenant = match options.auth {
            Auth::Open => uploads,
            Auth::Keys => units(options.max_uploads_per_tenant as u64).min(uploads),
        };
        let room = |whole: u32| {
            let share = (u64::from(whole) * u64::from(of_tenant)).div_ceil(u64::from(uploads));
            Room::new(whole, units(share))
        };
        let memory = units(options.inspection_memory_bytes / MIB);
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        Self {
            uploads: room(uploads),
            texts: room(units(options.max_large_bodies as u64)),
            inspections: room(memory),
            least_inspection: units(u64::from(memory) / processors.min(MAX_INSPECTIONS)),
            wait: options.capacity_wait,
        }
    }

    /// Waits for a place for a request with media.
    ///
    /// Errors: `no_capacity`.
    pub(super) async fn upload(&self, tenant: &Tenant) -> Result<Held, ApiError> {
        let message = "as many requests with media are being read as may";
        self.uploads.take(tenant, 1, self.deadline()).await.ok_or_else(|| ApiError::away(message))
    }

    /// Waits for a place for long texts.
    ///
    /// Errors: `no_capacity`.
    pub(super) async fn text(&self, tenant: &Tenant) -> Result<Held, ApiError> {
        let message = "as many large bodies are being read as may";
        self.texts.take(tenant, 1, self.deadline()).await.ok_or_else(|| ApiError::away(message))
    }

    /// Waits for so much memory to look into a file; where that is more than there is, for all of it.
    ///
    /// Errors: `no_capacity`.
    pub(super) async fn inspection(&self, tenant: &Tenant, bytes: u64, deadline: Instant) -> Result<Held, ApiError> {
        let mebibytes = units(bytes.div_ceil(MIB)).max(self.least_inspection);
        let message = "as many files are being looked into as may";
        self.inspections.take(tenant, mebibytes, deadline).await.ok_or_else(|| ApiError::away(message))
    }

    /// Returns until when a request waits that holds nothing which others wait for.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.wait
    }
}

/// Makes a number of units that a semaphore can count, and at least one.
fn units(count: u64) -> u32 {
    let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize) as u64;
    count.clamp(1, most) as u32
}

/// So many units of something, and how many of them a tenant may hold.
struct Room {
    all: Arc<Semaphore>,
    size: u32,
    share: u32,
    /// Those who hold something or wait.
    tenants: Mutex<HashMap<Tenant, Arc<Semaphore>>>,
}

impl Room {
    fn new(size: u32, share: u32) -> Self {
        Self { all: Arc::new(Semaphore::new(size as usize)), size, share, tenants: Mutex::default() }
    }

    /// Waits for units until `deadline`; none when they do not come. More than a tenant may have counts as that many.
    async fn take(&self, tenant: &Tenant, units: u32, deadline: Instant) -> Option<Held> {
        let of_tenant = self.of_tenant(tenant);
        let taken = async {
            // The tenant's own first: who waits for that keeps nothing from others.
            let of_tenant = of_tenant.acquire_many_owned(units.min(self.share)).await;
            let of_all = Arc::clone(&self.all).acquire_many_owned(units.min(self.size)).await;
            let open = "nobody closes the semaphores";
            Held { _of_tenant: of_tenant.expect(open), _of_all: of_all.expect(open) }
        };
        timeout_at(deadline, taken).await.ok()
    }

    fn of_tenant(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().expect("no holder of the lock panics");
        if let Some(known) = tenants.get(tenant) {
            return Arc::clone(known);
        }
        // Whoever holds or awaits something has a share of the semaphore.
        tenants.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let new = Arc::new(Semaphore::new(self.share as usize));
        tenants.insert(tenant.clone(), Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    /// Takes what is there at once.
    async fn at_once(room: &Room, name: &str, units: u32) -> Option<Held> {
        room.take(&tenant(name), units, Instant::now()).await
    }

    #[tokio::test]
    async fn a_tenant_gets_its_share_and_leaves_the_rest_to_others() {
        let room = Room::new(4, 2);
        let _first = at_once(&room, "a", 1).await.unwrap();
        let second = at_once(&room, "a", 1).await.unwrap();
        assert!(at_once(&room, "a", 1).await.is_none());
        let _other = at_once(&room, "b", 2).await.unwrap();
        assert!(at_once(&room, "c", 1).await.is_none());
        drop(second);
        let _third = at_once(&room, "c", 1).await.unwrap();
    }

    #[tokio::test]
    async fn who_waits_for_its_own_share_keeps_nothing_from_others() {
        let room = Arc::new(Room::new(2, 1));
        let held = at_once(&room, "a", 1).await.unwrap();
        let waiting = Arc::clone(&room);
        let waiting =
            tokio::spawn(async move { waiting.take(&tenant("a"), 1, Instant::now() + Duration::from_secs(60)).await });
        // Known to the room, to who holds it, to who waits, and here.
        while Arc::strong_count(&room.of_tenant(&tenant("a"))) < 4 {
            tokio::task::yield_now().await;
        }
        assert!(at_once(&room, "b", 1).await.is_some());
        drop(held);
        assert!(waiting.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn more_than_there_is_waits_for_all_of_it() {
        let room = Room::new(4, 2);
        let all = at_once(&room, "a", 100).await.unwrap();
        assert!(at_once(&room, "a", 1).await.is_none());
        assert!(at_once(&room, "b", 1).await.is_none());
        drop(all);
        assert!(at_once(&room, "b", 2).await.is_some());
    }

    #[tokio::test]
    async fn tenants_that_have_left_are_forgotten() {
        let room = Room::new(4, 2);
        for index in 0..100 {
            at_once(&room, &format!("tenant-{index}"), 1).await.unwrap();
        }
        let _kept = at_once(&room, "kept", 2).await.unwrap();
        assert!(at_once(&room, "other", 1).await.is_some());
        assert!(at_once(&room, "kept", 1).await.is_none(), "who holds something is remembered");
        assert!(room.tenants.lock().unwrap().len() <= 3);
    }

    #[tokio::test]
    async fn every_file_counts_as_a_processors_share_and_one_tenant_alone_may_have_all() {
        let options = Options { inspection_memory_bytes: 1 << 30, ..Options::default() };
        let capacity = Capacity::new(&options);
        let mut held = Vec::new();
        while let Ok(one) = capacity.inspection(&tenant("a"), 1, Instant::now()).await {
            held.push(one);
        }
        let processors = std::thread::available_parallelism().unwrap().get() as u64;
        assert_eq!(held.len() as u64, processors.min(MAX_INSPECTIONS));
        drop(held);
        let _all = capacity.inspection(&tenant("a"), u64::MAX, Instant::now()).await.unwrap();
        assert!(capacity.inspection(&tenant("b"), 1, Instant::now()).await.is_err());
    }
}
