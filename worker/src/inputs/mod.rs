//! The media that a job starts from: from the media store to what the engine takes.
//!
//! One after another is [fetched](fetch) into the attempt's folder, [prepared](prepare) and removed, so that one file lies
//! there at a time. What the engine takes is held in memory, and a job that is claimed ahead holds its own beside the
//! running one's. By the limits of references that is 1.7 GB at most for each of the two, under the released geometry: 435
//! frames of 768x1344 pixels are 1.35 GB (15.1 seconds of three videos, and a second for each whose headers said less),
//! nine pictures of 2048x5120 pixels are 0.28 GB, and sounds are less than 0.02 GB. Two keyframes are 6 MB. Decoding the
//! largest picture takes another half of a gigabyte for a moment.

mod fetch;
mod prepare;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clapboard_h3::prepare::{PreparedReference, ReferenceKind, ReferenceLimits};
use clapboard_h3::{GenerationSpec, Input};
use clapboard_jobs::BlobKey;

use crate::attempt::Attempt;
use crate::attempt::classify::AttemptError;
use crate::inputs::fetch::fetch;
use crate::inputs::prepare::prepare;
use crate::scratch::AttemptFolder;
use crate::video::upload::wedged;

impl Attempt {
    /// Fetches and prepares the media of a specification, in its order. Stops within a moment when the attempt is to stop
    /// or the worker drains.
    pub(crate) async fn prepare_inputs(
        &self,
        spec: &Arc<GenerationSpec>,
        folder: &AttemptFolder,
    ) -> Result<Arc<[PreparedReference]>, AttemptError> {
        let since = Instant::now();
        let mut media = Vec::new();
        for index in 0..spec.inputs.len() {
            let file = folder.input(index);
            self.fetch_input(spec, &spec.inputs[index], &file).await?;
            let (tools, closing) = (&self.shared.parts.tools, &self.shared.closing);
            let limit = self.shared.options.stall_limits.inputs;
            media.push(prepare(tools, Arc::clone(spec), index, &file, &self.watch, closing, limit).await?);
        }
        if !media.is_empty() {
            let duration_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(phase = "prepare", inputs = media.len(), duration_ms, "prepared the inputs");
        }
        Ok(media.into())
    }

    async fn fetch_input(&self, spec: &GenerationSpec, input: &Input, file: &Path) -> Result<(), AttemptError> {
        let key: BlobKey = input.object.parse().map_err(AttemptError::InputName)?;
        let limit_bytes = most_bytes(input, &ReferenceLimits::of(&spec.geometry));
        let limit = self.shared.options.input_fetch_deadline;
        tokio::select! {
            biased;
            () = self.watch.wedged.cancelled() => Err(wedged(&self.watch)),
            () = self.watch.stopping.cancelled() => Err(AttemptError::Stopped),
            () = self.shared.closing.cancelled() => Err(AttemptError::Stopped),
            fetched = fetch(&*self.shared.parts.blob, &key, file, limit_bytes, limit, &self.watch) => fetched,
        }
    }
}

/// The most bytes that the file of an input can have: no request with a larger one is accepted.
fn most_bytes(input: &Input, limits: &ReferenceLimits) -> u64 {
    match input.role.kind() {
        ReferenceKind::Image => limits.image_bytes,
        ReferenceKind::Video => limits.video_bytes,
        ReferenceKind::Audio => limits.audio_bytes,
    }
}
