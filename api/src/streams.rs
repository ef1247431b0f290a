//! How many streams of events each tenant has open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use clapboard_jobs::Tenant;

use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// After how many seconds a client may ask again for a stream.
const RETRY_AFTER_S: u32 = 5;

/// Counts the open streams.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    open: Arc<Mutex<HashMap<Tenant, usize>>>,
    most: usize,
}

/// An open stream, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    streams: Streams,
    tenant: Tenant,
}

impl Streams {
    /// Lets each tenant have as many open as `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Arc::default(), most }
    }

    /// Opens one.
    ///
    /// Errors: `concurrency_limit`.
    pub(crate) fn open(&self, tenant: &Tenant) -> Result<Place, ApiError> {
        let has_room = self.with(|open| {
            let count = open.get(tenant).copied().unwrap_or_default();
            let has_room = count < self.most;
            if has_room {
                open.insert(tenant.clone(), count + 1);
            }
            has_room
        });
        if has_room {
            return Ok(Place { streams: self.clone(), tenant: tenant.clone() });
        }
        let message = format!("as many streams of events are open as may: {}", self.most);
        Err(ApiError { retry_after_s: Some(RETRY_AFTER_S), ..ApiError::new(ErrorCode::ConcurrencyLimit, message) })
    }

    fn with<T>(&self, with: impl FnOnce(&mut HashMap<Tenant, usize>) -> T) -> T {
        with(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.with(|open| match open.get_mut(&self.tenant) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.tenant)),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_own_places_and_gets_them_back() {
        let (streams, ann, bob) = (Streams::new(2), "ann".parse().unwrap(), "bob".parse().unwrap());
        let places = [streams.open(&ann).unwrap(), streams.open(&ann).unwrap()];
        let refused = streams.open(&ann).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_s), (ErrorCode::ConcurrencyLimit, Some(RETRY_AFTER_S)));
        assert_eq!(refused.message, "as many streams of events are open as may: 2");
        let other = streams.open(&bob).unwrap();
        drop(places);
        let again = [streams.open(&ann).unwrap(), streams.open(&ann).unwrap()];
        drop((again, other));
        assert!(streams.with(|open| open.is_empty()));
    }
}
