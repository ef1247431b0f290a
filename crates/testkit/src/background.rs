//! A runtime on threads of its own, for what serves beside a test.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::oneshot;

/// How long what is being written to a disk may take to its end.
const LIMIT: Duration = Duration::from_secs(10);

/// A future that runs until this is dropped, with everything that it has spawned.
#[derive(Debug)]
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs the future on a new thread.
    pub(crate) fn spawn<F>(name: &str, serve: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()>,
    {
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.expect("a runtime can be built");
            runtime.block_on(async {
                tokio::select! {
                    () = serve() => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(LIMIT);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can be started");
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
