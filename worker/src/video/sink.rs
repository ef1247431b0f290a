//! From the engine's frames and samples to an MP4.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clapboard_engine::{FrameSink, MediaChunk, MediaFormat, SinkError};
use clapboard_h3::Quality;
use clapboard_media::{AUDIO_SAMPLE_RATE, Error, Ffmpeg, MuxFormat, MuxReport, Muxer, VideoQuality};

/// Encodes what the engine decodes, as it comes, into an MP4.
///
/// Clones share the video: one goes to the engine, which drops it when it is done; the other finishes or aborts. When
/// all are dropped unfinished, ffmpeg is killed and its files are removed.
#[derive(Debug, Clone)]
pub struct MuxSink {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ffmpeg: Ffmpeg,
    quality: Quality,
    scratch: PathBuf,
    output: PathBuf,
    stage: Mutex<Stage>,
    aborted: AtomicBool,
}

#[derive(Debug)]
enum Stage {
    /// The engine has not said what is coming.
    Waiting,
    /// Samples and frames come.
    Open(Box<Muxer>),
    /// Finished, failed or aborted.
    Closed,
}

impl MuxSink {
    /// Makes a sink for a video that will be at `output`; unfinished files lie in `scratch` and beside `output`.
    pub fn new(ffmpeg: &Ffmpeg, quality: Quality, scratch: PathBuf, output: PathBuf) -> Self {
        let stage = Mutex::new(Stage::Waiting);
        let aborted = AtomicBool::new(false);
        Self { shared: Arc::new(Shared { ffmpeg: ffmpeg.clone(), quality, scratch, output, stage, aborted }) }
    }

    /// Waits until ffmpeg has written the last frame, up to `timeout`, and puts the video in its place. Blocks.
    ///
    /// Errors: what [`Muxer::finish`] says, with [`Error::Aborted`] soon after a clone was aborted; [`Error::Ended`] when
    /// no video was begun or it was closed before.
    pub fn finish(&self, timeout: Duration) -> Result<MuxReport, Error> {
        match self.close() {
            Stage::Open(muxer) => muxer.finish(timeout, &self.shared.aborted),
            Stage::Waiting | Stage::Closed => Err(Error::Ended),
        }
    }

    /// Kills ffmpeg and removes its files; the engine's next chunk is refused, and a finish that waits ends. Blocks while
    /// the engine hands over a chunk.
    pub fn abort(&self) {
        self.shared.aborted.store(true, Ordering::Relaxed);
        drop(self.close());
    }

    fn close(&self) -> Stage {
        std::mem::replace(&mut *self.stage(), Stage::Closed)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        // A muxer that panicked is never used again for a result: finishing it counts the frames.
        self.shared.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, format: &MediaFormat) -> Result<Muxer, Error> {
        if u32::try_from(format.sample_rate) != Ok(AUDIO_SAMPLE_RATE) {
            let value = u64::try_from(format.sample_rate).unwrap_or(u64::MAX);
            return Err(Error::Format { field: "sample_rate", rule: "32000", value });
        }
        let format = MuxFormat {
            width: format.canvas.width(),
            height: format.canvas.height(),
            num_frames: format.num_frames.get(),
            quality: video_quality(self.shared.quality),
        };
        Muxer::start(&self.shared.ffmpeg, format, &self.shared.scratch, &self.shared.output)
    }
}

impl FrameSink for MuxSink {
    fn begin(&mut self, format: &MediaFormat) -> Result<(), SinkError> {
        let mut stage = self.stage();
        if !matches!(*stage, Stage::Waiting) {
            return Err(sink_error(Error::Ended));
        }
        *stage = Stage::Open(Box::new(self.start(format).map_err(sink_error)?));
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, patience: Duration) -> Result<Option<MediaChunk>, SinkError> {
        let mut stage = self.stage();
        let Stage::Open(muxer) = &mut *stage else {
            return Err(sink_error(Error::Ended));
        };
        match chunk {
            MediaChunk::Samples(samples) => muxer.samples(&samples).map(|()| None).map_err(sink_error),
            MediaChunk::Frames(frames) => {
                let refused = muxer.offer(frames, patience).map_err(sink_error)?;
                Ok(refused.map(MediaChunk::Frames))
            }
        }
    }
}

fn sink_error(error: Error) -> SinkError {
    SinkError(Box::new(error))
}

const fn video_quality(quality: Quality) -> VideoQuality {
    match quality {
        Quality::Default => VideoQuality::Default,
        Quality::High => VideoQuality::High,
        Quality::Lossless => VideoQuality::Lossless,
    }
}
