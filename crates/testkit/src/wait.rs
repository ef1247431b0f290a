//! Waiting for a condition that stays true once it is.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a slow and busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How long to rest between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks again and again until `look` gives something.
///
/// It blocks its thread between two looks: inside an async test, let it run on a thread of its own.
///
/// # Panics
///
/// Panics with the name of `what` never came once a minute has passed.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        thread::sleep(PAUSE);
    }
}
