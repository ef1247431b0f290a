//! Waiting for a condition that stays true once it is.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take on a slow and busy machine.
const LIMIT: Duration = Duration::from_secs(180);
/// How long to rest between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks again and again until `look` gives something, and fails with the name of what never came.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    until_not(what, || look().ok_or("it never came"))
}

/// Looks again and again until nothing is wrong any more, and fails with what was wrong last.
pub(crate) fn until_not<T, E: Debug>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(wrong) => assert!(began.elapsed() < LIMIT, "waited {LIMIT:?} for {what}: {wrong:?}"),
        }
        thread::sleep(PAUSE);
    }
}
