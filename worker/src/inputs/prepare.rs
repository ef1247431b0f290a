//! Decoding one file beside everything else.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clapboard_h3::GenerationSpec;
use clapboard_h3::prepare::PreparedReference;
use clapboard_media::{MediaTools, reference};
use tokio_util::sync::CancellationToken;

use crate::attempt::classify::AttemptError;
use crate::progress::watch::Watch;
use crate::scratch::disk::ABORT_PATIENCE;
use crate::video::upload::wedged;

/// Tells the decoder that nobody wants its result any more, at the latest when it is dropped.
#[derive(Default)]
struct Unwanted(Arc<AtomicBool>);

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Decodes the file of the `index`th input on a thread for what blocks, and removes it. Every picture, frame or sound is a
/// sign of life.
///
/// Errors: [`AttemptError::Input`], [`AttemptError::InputPanicked`]; [`AttemptError::Wedged`] when nothing moves,
/// [`AttemptError::Stopped`] soon after the attempt was told to stop or the worker began to drain.
pub(super) async fn prepare(
    tools: &MediaTools,
    spec: Arc<GenerationSpec>,
    index: usize,
    file: &Path,
    watch: &Arc<Watch>,
    closing: &CancellationToken,
) -> Result<PreparedReference, AttemptError> {
    let unwanted = Unwanted::default();
    let (tools, file) = (tools.clone(), file.to_owned());
    let (moving, aborted) = (Arc::clone(watch), Arc::clone(&unwanted.0));
    watch.prepares();
    let mut preparing = tokio::task::spawn_blocking(move || {
        let folder = file.parent().expect("the file of an input lies in its attempt's folder");
        let mut moved = || moving.touch();
        let prepared = reference::prepare(&tools, folder, &file, &spec.inputs[index], &spec, &mut moved, &aborted);
        if let Err(error) = fs::remove_file(&file) {
            tracing::warn!(%error, "could not remove an input from the scratch folder");
        }
        prepared
    });
    let stopped = tokio::select! {
        biased;
        prepared = &mut preparing => {
            let prepared = prepared.map_err(|_| AttemptError::InputPanicked)?;
            return prepared.map_err(|source| match source.is_aborted() {
                true => AttemptError::Stopped,
                false => AttemptError::Input { number: index + 1, source },
            });
        }
        () = watch.wedged.cancelled() => wedged(watch),
        () = watch.stopping.cancelled() => AttemptError::Stopped,
        () = closing.cancelled() => AttemptError::Stopped,
    };
    drop(unwanted);
    // The folder must not be removed under a decoder that still writes; but nobody waits for one that does not stop.
    let _ = tokio::time::timeout(ABORT_PATIENCE, preparing).await;
    Err(stopped)
}
