//! Telling whoever waits for a put that bytes have moved, from whatever thread moves them.

use std::pin::pin;

use tokio::sync::mpsc::{self, UnboundedSender};

/// Tells of one chunk after another; clones tell the same listener.
#[derive(Debug, Clone)]
pub(crate) struct Ticks(UnboundedSender<()>);

impl Ticks {
    /// Tells that some bytes have moved.
    pub(crate) fn tick(&self) {
        // Nobody listens any more to a put that was given up.
        let _ = self.0.send(());
    }

    /// Ticks that nobody hears.
    #[cfg(test)]
    pub(crate) fn unheard() -> Self {
        Self(mpsc::unbounded_channel().0)
    }
}

/// Does a put and calls `moved` once for each of its ticks, and no more once the put has ended or is dropped.
pub(crate) async fn heard<T, F: Future<Output = T>>(
    moved: &(dyn Fn() + Send + Sync),
    put: impl FnOnce(Ticks) -> F,
) -> T {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut put = pin!(put(Ticks(sender)));
    let done = loop {
        tokio::select! {
            biased;
            Some(()) = receiver.recv() => moved(),
            done = &mut put => break done,
        }
    };
    while receiver.try_recv().is_ok() {
        moved();
    }
    done
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn every_tick_is_heard_from_whatever_thread_it_comes() {
        let moves = AtomicUsize::new(0);
        let moved = || {
            moves.fetch_add(1, Ordering::SeqCst);
        };
        let done = heard(&moved, async |ticks| {
            ticks.tick();
            let beside = ticks.clone();
            tokio::task::spawn_blocking(move || (0..1000).for_each(|_| beside.tick())).await.unwrap();
            ticks.tick();
            "done"
        });
        assert_eq!(done.await, "done");
        assert_eq!(moves.load(Ordering::SeqCst), 1002);
    }
}
