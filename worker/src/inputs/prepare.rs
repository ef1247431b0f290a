//! Decoding one file beside everything else.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clapboard_h3::GenerationSpec;
use clapboard_h3::prepare::PreparedReference;
use clapboard_media::{MediaTools, reference};
use tokio_util::sync::CancellationToken;

use crate::attempt::classify::AttemptError;
use crate::progress::pulse::Pulse;
use crate::progress::watch::Watch;
use crate::scratch::disk::ABORT_PATIENCE;

/// Tells the decoder that nobody wants its result any more, at the latest when it is dropped.
#[derive(Default)]
struct Unwanted(Arc<AtomicBool>);

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Decodes the file of the `index`th input on a thread for what blocks, and removes it. Every picture, frame or sound is a
/// sign of life, and `limit` bounds the time without any. What stops moving may be this input's fault alone, so it is ended
/// here, and the watch over the whole attempt has nothing to see.
///
/// Errors: [`AttemptError::Input`], [`AttemptError::InputPanicked`]; [`AttemptError::InputStalled`] when nothing moves,
/// [`AttemptError::Stopped`] soon after the attempt was told to stop or the worker began to drain.
pub(super) async fn prepare(
    tools: &MediaTools,
    spec: Arc<GenerationSpec>,
    index: usize,
    file: &Path,
    watch: &Arc<Watch>,
    closing: &CancellationToken,
    limit: Duration,
) -> Result<PreparedReference, AttemptError> {
    let unwanted = Unwanted::default();
    let (tools, file) = (tools.clone(), file.to_owned());
    let pulse = Arc::new(Pulse::default());
    let (moving, aborted) = (Arc::clone(&pulse), Arc::clone(&unwanted.0));
    watch.waits();
    let mut preparing = tokio::task::spawn_blocking(move || {
        let folder = file.parent().expect("the file of an input lies in its attempt's folder");
        let mut moved = || moving.beat();
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
        () = watch.stopping.cancelled() => AttemptError::Stopped,
        () = closing.cancelled() => AttemptError::Stopped,
        () = pulse.stops(limit) => AttemptError::InputStalled { number: index + 1, limit, stuck: false },
    };
    drop(unwanted);
    // The folder must not be removed under a decoder that still writes; but nobody waits for one that does not stop.
    let ended = tokio::time::timeout(ABORT_PATIENCE, preparing).await;
    Err(match stopped {
        AttemptError::InputStalled { number, limit, .. } => {
            AttemptError::InputStalled { number, limit, stuck: ended.is_err() }
        }
        stopped => stopped,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Instant;

    use clapboard_h3::{Input, InputRole, InputShape, Task};
    use clapboard_jobs::fixtures::small_spec;
    use clapboard_media::Ffmpeg;
    use clapboard_media::decode::image::HeifTool;

    use crate::options::StallLimits;

    use super::*;

    /// An ffmpeg that hangs over every input, after it has written its process id to a file.
    fn hanging(folder: &Path) -> (MediaTools, PathBuf) {
        let (program, pid) = (folder.join("ffmpeg"), folder.join("pid"));
        let hang = format!("case \"$*\" in *input-0*) echo $$ > {}; exec sleep 1000;; esac", pid.display());
        fs::write(&program, format!("#!/bin/sh\n{hang}\nexec ffmpeg \"$@\"\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let ffmpeg = Ffmpeg::at(&program, "ffprobe").unwrap();
        (MediaTools { ffmpeg, heif: HeifTool::default() }, pid)
    }

    #[tokio::test]
    async fn a_decoder_in_which_nothing_moves_is_ended_and_fails_its_attempt_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (tools, pid) = hanging(folder.path());
        let file = folder.path().join("input-0");
        let mut made = Command::new("ffmpeg");
        made.args(["-v", "error", "-f", "lavfi", "-i", "testsrc=size=96x64:rate=24:duration=1", "-pix_fmt", "yuv420p"]);
        assert!(made.args(["-f", "mp4"]).arg(&file).status().unwrap().success());
        let shape = InputShape { width: 1344, height: 768, frames: 24, audio_latents: 0 };
        let inputs = vec![Input { role: InputRole::Video, object: String::new(), shape }];
        let (task, version) = (Task::Ref2va, GenerationSpec::version_with(&inputs));
        let spec = GenerationSpec { version, task, partition: task.partition(), inputs, ..small_spec() };
        let lease_until = Instant::now() + Duration::from_secs(60);
        let watch = Arc::new(Watch::new(StallLimits::all(Duration::from_millis(1)), lease_until));
        let (closing, limit) = (CancellationToken::new(), Duration::from_secs(2));
        let error = prepare(&tools, Arc::new(spec), 0, &file, &watch, &closing, limit).await.unwrap_err();
        assert!(matches!(error, AttemptError::InputStalled { number: 1, stuck: false, .. }), "{error:?}");
        let pid = fs::read_to_string(pid).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists());
        assert!(!file.exists());
        assert_eq!(watch.look(Instant::now()), None, "the worker goes on");
    }
}
