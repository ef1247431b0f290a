//! Waiting for a condition that stays true once it is.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a slow and busy machine.
const LIMIT: Duration = Duration::from_secs(180);
/// How long to rest between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks again and again until `look` gives something, and fails with the name of what never came.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        thread::sleep(PAUSE);
    }
}
