//! Samples, then frames, into one MP4 that is complete or does not exist.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::encoder::Encoder;
use crate::format::{AUDIO_CHANNELS, FPS, MAX_PADDED_SAMPLES};
use crate::scratch::{ScratchFile, folder_of};
use crate::{Error, Ffmpeg, MuxFormat};

/// What a finished video is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MuxReport {
    /// Size of the file.
    pub size_bytes: u64,
    /// Length of the video, `num_frames / 24` seconds.
    pub duration: Duration,
}

/// Writes one MP4: H.264 in yuv420p, BT.709 limited range, 24/1, with AAC at 32 kHz in stereo.
///
/// Samples come first ([`Muxer::samples`]), then frames ([`Muxer::offer`]), then [`Muxer::finish`]. Until that returns
/// `Ok` the output path is untouched; any error, and dropping the muxer, kill ffmpeg and remove every file made.
/// Equal input gives equal bytes with the same ffmpeg.
///
/// Memory: two chunks of frames at most, besides what ffmpeg holds. A process that is killed outright leaves hidden
/// `.{output name}.*.partial` and `.{output name}.*.f32` files, which its successor may remove.
#[derive(Debug)]
pub struct Muxer {
    ffmpeg: Ffmpeg,
    format: MuxFormat,
    output: PathBuf,
    stage: Stage,
}

/// How far the input has come. Dropping a stage ends what it owns, the encoder before its files.
#[derive(Debug)]
enum Stage {
    /// Samples are collected; `taken` counts those per channel that came, also beyond the video's length.
    Samples { writer: BufWriter<File>, taken: u64, files: Files },
    /// Frames go to ffmpeg.
    Frames { encoder: Encoder, taken: u64, files: Files },
    /// An error has ended it.
    Ended,
}

/// The two files that exist while a video is made.
#[derive(Debug)]
struct Files {
    audio: ScratchFile,
    partial: ScratchFile,
}

impl Muxer {
    /// Begins a video that will be at `output`; raw samples go to the folder `scratch` until it is finished.
    ///
    /// The file grows under a hidden name beside `output`, so a folder that cannot be written is found out here.
    ///
    /// Errors: [`Error::Format`] for a size or length that cannot be written, [`Error::Io`].
    pub fn start(ffmpeg: &Ffmpeg, format: MuxFormat, scratch: &Path, output: &Path) -> Result<Self, Error> {
        format.check()?;
        let name = output.file_name().unwrap_or_default().to_owned();
        let (partial, _) = ScratchFile::create(folder_of(output), &name, "partial")?;
        let (audio, file) = ScratchFile::create(scratch, &name, "f32")?;
        let stage = Stage::Samples {
            writer: BufWriter::with_capacity(1 << 16, file),
            taken: 0,
            files: Files { audio, partial },
        };
        Ok(Self { ffmpeg: ffmpeg.clone(), format, output: output.to_owned(), stage })
    }

    /// Takes the next samples, interleaved left, right; all of them must come before the first frame.
    ///
    /// Values are clamped to `[-1, 1]`; what is longer than the video is cut.
    ///
    /// Errors: [`Error::UnevenSamples`], [`Error::SampleNotFinite`], [`Error::SamplesAfterFrames`], [`Error::Io`],
    /// [`Error::Ended`]. Each ends the muxer.
    pub fn samples(&mut self, interleaved: &[f32]) -> Result<(), Error> {
        let result = self.take_samples(interleaved);
        self.end_on_error(result)
    }

    /// Hands a chunk of whole packed RGB24 frames to the encoder, or gives it back when there was no room within `patience`.
    ///
    /// Errors: [`Error::SamplesMissing`] at the first chunk, [`Error::PartialFrame`], [`Error::TooManyFrames`],
    /// [`Error::ProgramFailed`] with ffmpeg's last words when it has ended, [`Error::Stalled`], [`Error::Ended`]. Each
    /// ends the muxer.
    pub fn offer(&mut self, chunk: Vec<u8>, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        let result = self.take_frames(chunk, patience);
        self.end_on_error(result)
    }

    /// Waits for the encoder to finish, up to `timeout` or until `aborted` is set, and puts the video in its place.
    ///
    /// Errors: [`Error::FramesMissing`], [`Error::Aborted`], [`Error::TimedOut`], [`Error::Stalled`],
    /// [`Error::ProgramFailed`], [`Error::Io`], [`Error::Ended`].
    pub fn finish(self, timeout: Duration, aborted: &AtomicBool) -> Result<MuxReport, Error> {
        let expected = self.format.num_frames;
        // Named so that, on an early return, the encoder is dropped before the files that it writes.
        let (files, taken, encoder) = match self.stage {
            Stage::Frames { encoder, taken, files } => (files, taken, encoder),
            Stage::Samples { .. } => {
                return Err(Error::FramesMissing { expected, got: 0, what: "handed over" });
            }
            Stage::Ended => return Err(Error::Ended),
        };
        if taken != u64::from(expected) {
            return Err(Error::FramesMissing { expected, got: taken, what: "handed over" });
        }
        let encoded = encoder.finish(timeout, aborted)?;
        if encoded != u64::from(expected) {
            return Err(Error::FramesMissing { expected, got: encoded, what: "encoded" });
        }
        let size_bytes = files.partial.persist(&self.output)?;
        let duration = Duration::from_nanos(u64::from(expected) * 1_000_000_000 / u64::from(FPS));
        Ok(MuxReport { size_bytes, duration })
    }

    fn end_on_error<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.stage = Stage::Ended;
        }
        result
    }

    fn take_samples(&mut self, interleaved: &[f32]) -> Result<(), Error> {
        let (writer, taken, files) = match &mut self.stage {
            Stage::Samples { writer, taken, files } => (writer, taken, files),
            Stage::Frames { .. } => return Err(Error::SamplesAfterFrames),
            Stage::Ended => return Err(Error::Ended),
        };
        if !interleaved.len().is_multiple_of(AUDIO_CHANNELS) {
            return Err(Error::UnevenSamples { values: interleaved.len() });
        }
        for pair in interleaved.chunks_exact(AUDIO_CHANNELS) {
            for (channel, &value) in pair.iter().enumerate() {
                if !value.is_finite() {
                    return Err(Error::SampleNotFinite { sample: *taken, channel, value });
                }
                if *taken < self.format.audio_samples() {
                    writer
                        .write_all(&value.clamp(-1.0, 1.0).to_le_bytes())
                        .map_err(Error::io("write samples to", files.audio.path()))?;
                }
            }
            *taken += 1;
        }
        Ok(())
    }

    fn take_frames(&mut self, chunk: Vec<u8>, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        let frame_bytes = self.format.frame_bytes();
        if chunk.is_empty() || !chunk.len().is_multiple_of(frame_bytes) {
            return Err(Error::PartialFrame { chunk_bytes: chunk.len(), frame_bytes });
        }
        let frames = (chunk.len() / frame_bytes) as u64;
        let expected = self.format.num_frames;
        let (encoder, taken) = self.encoder()?;
        let got = *taken + frames;
        if got > u64::from(expected) {
            return Err(Error::TooManyFrames { expected, got });
        }
        let refused = encoder.offer(chunk, patience)?;
        if refused.is_none() {
            *taken = got;
        }
        Ok(refused)
    }

    /// The running encoder and its count of frames; the first call closes the samples and starts it.
    fn encoder(&mut self) -> Result<(&mut Encoder, &mut u64), Error> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Samples { writer, taken, files } => {
                close_samples(writer, taken, &self.format, files.audio.path())?;
                let encoder = Encoder::start(&self.ffmpeg, &self.format, files.audio.path(), files.partial.path())?;
                Stage::Frames { encoder, taken: 0, files }
            }
            stage => stage,
        };
        match &mut self.stage {
            Stage::Frames { encoder, taken, .. } => Ok((encoder, taken)),
            Stage::Samples { .. } | Stage::Ended => Err(Error::Ended),
        }
    }
}

/// Pads the samples to the length of the video, when little is missing, and writes them out.
fn close_samples(mut writer: BufWriter<File>, taken: u64, format: &MuxFormat, path: &Path) -> Result<(), Error> {
    let expected = format.audio_samples();
    let missing = expected.saturating_sub(taken);
    if taken == 0 || missing > MAX_PADDED_SAMPLES {
        return Err(Error::SamplesMissing { expected, got: taken });
    }
    let silence = vec![0; missing as usize * AUDIO_CHANNELS * size_of::<f32>()];
    writer.write_all(&silence).and_then(|()| writer.flush()).map_err(Error::io("write samples to", path))
}

#[cfg(test)]
mod tests;
