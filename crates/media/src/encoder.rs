//! One running ffmpeg, the thread that feeds it and the two that listen to it.

use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::arguments::encode_arguments;
use crate::handover::{Handover, Offered};
use crate::process::{Process, bounded_line, tail};
use crate::{Error, Ffmpeg, MuxFormat};

/// Bytes that one write hands to the pipe, so that progress within a large chunk is seen.
const WRITE_BYTES: usize = 64 << 10;
/// How long a child that closed its input may take to end by itself and say why.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// When the encoder last moved, and how far it says it is.
#[derive(Debug)]
struct Activity {
    origin: Instant,
    last_ms: AtomicU64,
    frames: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self { origin: Instant::now(), last_ms: AtomicU64::new(0), frames: AtomicU64::new(0) }
    }

    fn touch(&self) {
        self.last_ms.store(self.origin.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn idle(&self) -> Duration {
        self.origin.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }
}

/// A running ffmpeg: killed, reaped and its threads joined when dropped.
#[derive(Debug)]
pub(crate) struct Encoder {
    process: Process,
    handover: Arc<Handover>,
    activity: Arc<Activity>,
    stall_limit: Duration,
    feeder: Option<JoinHandle<()>>,
    progress: Option<JoinHandle<()>>,
    stderr: Option<JoinHandle<String>>,
}

impl Encoder {
    /// Starts ffmpeg on the samples in `audio`; frames follow through [`Encoder::offer`].
    pub(crate) fn start(ffmpeg: &Ffmpeg, format: &MuxFormat, audio: &Path, output: &Path) -> Result<Self, Error> {
        let mut command = ffmpeg.ffmpeg_command();
        command.args(encode_arguments(format, audio, output));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn("ffmpeg", command)?;
        let pipes = process.pipes();
        let stdin = pipes.stdin.take().expect("standard input is piped");
        let stdout = pipes.stdout.take().expect("standard output is piped");
        let stderr = pipes.stderr.take().expect("standard error is piped");

        let handover = Arc::new(Handover::default());
        let activity = Arc::new(Activity::new());
        let feeder = thread::spawn({
            let (handover, activity) = (Arc::clone(&handover), Arc::clone(&activity));
            move || feed(stdin, &handover, &activity)
        });
        let progress = thread::spawn({
            let activity = Arc::clone(&activity);
            move || follow(stdout, &activity)
        });
        let stderr = thread::spawn(move || tail(stderr));
        Ok(Self {
            process,
            handover,
            activity,
            stall_limit: ffmpeg.stall_limit(),
            feeder: Some(feeder),
            progress: Some(progress),
            stderr: Some(stderr),
        })
    }

    /// Hands `chunk` over, or gives it back when there is no room within `patience`.
    ///
    /// Errors: [`Error::ProgramFailed`] when ffmpeg has ended, [`Error::Stalled`] when it reads nothing for too long.
    pub(crate) fn offer(&mut self, chunk: Vec<u8>, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        if self.process.try_wait()?.is_some() {
            return Err(self.failure());
        }
        match self.handover.offer(chunk, patience) {
            Offered::Taken => Ok(None),
            Offered::Closed => Err(self.failure()),
            // A full slot means that the feeder holds work, so standing still is the child's doing.
            Offered::Full(_) if self.activity.idle() > self.stall_limit => {
                Err(Error::Stalled { program: "ffmpeg", limit: self.stall_limit })
            }
            Offered::Full(chunk) => Ok(Some(chunk)),
        }
    }

    /// Closes the input, waits for the end and gives the number of frames that ffmpeg says it encoded.
    ///
    /// Errors: [`Error::Aborted`] soon after `aborted` was set, [`Error::TimedOut`], [`Error::Stalled`],
    /// [`Error::ProgramFailed`].
    pub(crate) fn finish(mut self, timeout: Duration, aborted: &AtomicBool) -> Result<u64, Error> {
        self.handover.finish();
        self.activity.touch();
        let deadline = Instant::now() + timeout;
        let status = loop {
            // Look at the flag and the stall limit now and then, not only at the deadline.
            let slice = Instant::now() + Duration::from_millis(200);
            if let Some(status) = self.process.wait_until(slice.min(deadline))? {
                break status;
            }
            if aborted.load(Ordering::Relaxed) {
                return Err(Error::Aborted);
            }
            if Instant::now() >= deadline {
                return Err(Error::TimedOut { program: "ffmpeg", limit: timeout });
            }
            if self.activity.idle() > self.stall_limit {
                return Err(Error::Stalled { program: "ffmpeg", limit: self.stall_limit });
            }
        };
        if !status.success() {
            return Err(self.failure());
        }
        join(&mut self.progress);
        Ok(self.activity.frames.load(Ordering::Relaxed))
    }

    /// Why ffmpeg ended early, after giving it a moment to say so.
    fn failure(&mut self) -> Error {
        let ended = match self.process.wait_until(Instant::now() + LAST_WORDS) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => self.process.kill(),
            Err(error) => Err(error),
        };
        match ended {
            Ok(status) => {
                let stderr = join(&mut self.stderr).unwrap_or_default();
                Error::ProgramFailed { program: "ffmpeg", status, stderr }
            }
            Err(error) => error,
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        self.handover.close();
        // The pipes of a dead group break, which ends all three threads.
        if let Err(error) = self.process.kill() {
            tracing::warn!(%error, "could not end ffmpeg");
        }
        join(&mut self.feeder);
        join(&mut self.progress);
        join(&mut self.stderr);
    }
}

/// Waits for a thread that was not joined yet.
fn join<T>(thread: &mut Option<JoinHandle<T>>) -> Option<T> {
    thread.take().and_then(|thread| thread.join().ok())
}

/// Writes chunks to the child until they end or the child does.
fn feed(mut stdin: ChildStdin, handover: &Handover, activity: &Activity) {
    while let Some(chunk) = handover.take() {
        activity.touch();
        for piece in chunk.chunks(WRITE_BYTES) {
            if stdin.write_all(piece).is_err() {
                // The child is gone: its exit status and standard error tell more than a broken pipe.
                handover.close();
                return;
            }
            activity.touch();
        }
    }
}

/// Follows the `key=value` lines of `-progress`: each new frame number is a sign of life.
fn follow(stdout: impl Read, activity: &Activity) {
    let mut lines = BufReader::new(stdout);
    while let Ok(Some(line)) = bounded_line(&mut lines) {
        if let Some(frames) = line.strip_prefix("frame=").and_then(|value| value.trim().parse().ok())
            && activity.frames.swap(frames, Ordering::Relaxed) != frames
        {
            activity.touch();
        }
    }
}
