//! What can go wrong between this program and ffmpeg.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why media could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is not installed, or not where it was said to be.
    #[error("could not find {program} at {}: install ffmpeg (on Debian: apt-get install ffmpeg) or give its path", path.display())]
    ProgramMissing {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// The name or path that was tried.
        path: PathBuf,
    },
    /// The file is there, and is no program that this user may run.
    #[error("{program} at {} is not executable", path.display())]
    NotExecutable {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// The path that was tried.
        path: PathBuf,
    },
    /// The program runs, and is another one.
    #[error("{} does not answer like {program}: asked for its version, it said {said:?}", path.display())]
    NotTheProgram {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// The name or path that was tried.
        path: PathBuf,
        /// The beginning of what it said.
        said: String,
    },
    /// The program is there, and could not be started.
    #[error("could not start {program} at {}", path.display())]
    Start {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// The name or path that was tried.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program is older than the options that we give it.
    #[error("{program} {version} is too old: version {least} or newer is needed")]
    TooOld {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// The version that it printed.
        version: String,
        /// The oldest major version that works.
        least: u32,
    },
    /// The ffmpeg found was built without an encoder that every video needs.
    #[error("{} has no {encoder} encoder: install an ffmpeg built with it (on Debian: apt-get install ffmpeg)", path.display())]
    EncoderMissing {
        /// `libx264` or `aac`.
        encoder: &'static str,
        /// The ffmpeg that lacks it.
        path: PathBuf,
    },
    /// The program ended before or without doing its work.
    #[error("{program} failed ({status}): {stderr}")]
    ProgramFailed {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// The program ran past its time limit and was killed.
    #[error("{program} did not finish within {limit:?} and was killed")]
    TimedOut {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// The limit that it ran past.
        limit: Duration,
    },
    /// The program stopped moving while it had work and was killed.
    #[error("{program} made no progress for {limit:?} and was killed")]
    Stalled {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// How long it may stand still.
        limit: Duration,
    },
    /// The program wrote more than it may.
    #[error("{program} wrote more than {limit_bytes} bytes")]
    OutputTooLarge {
        /// `ffmpeg`, `ffprobe` or `heif-convert`.
        program: &'static str,
        /// The most that it may write.
        limit_bytes: usize,
    },
    /// The format of the wanted file is not one that can be written.
    #[error("{field} must be {rule}, not {value}")]
    Format {
        /// Which field.
        field: &'static str,
        /// What it must be.
        rule: &'static str,
        /// What it is.
        value: u64,
    },
    /// A block of samples ends between the two channels.
    #[error("samples come in interleaved pairs, and a block of {values} values does not")]
    UnevenSamples {
        /// How many values the block holds.
        values: usize,
    },
    /// A sample is NaN or infinite.
    #[error("sample {sample} of channel {channel} is {value}, which is not finite")]
    SampleNotFinite {
        /// Its number within the channel, from 0.
        sample: u64,
        /// Its channel, from 0.
        channel: usize,
        /// The value.
        value: f32,
    },
    /// The sound ends long before the picture.
    #[error("the video needs {expected} samples per channel, and only {got} came")]
    SamplesMissing {
        /// Samples per channel that the frames last.
        expected: u64,
        /// Samples per channel that came.
        got: u64,
    },
    /// Samples came once frames had begun.
    #[error("samples must come before the first frame")]
    SamplesAfterFrames,
    /// A chunk does not hold a whole number of frames.
    #[error("a chunk of {chunk_bytes} bytes is not a whole number of frames of {frame_bytes} bytes")]
    PartialFrame {
        /// Bytes of the chunk.
        chunk_bytes: usize,
        /// Bytes of one frame, `3 * width * height`.
        frame_bytes: usize,
    },
    /// More frames came than the format says.
    #[error("the video has {expected} frames, and {got} came")]
    TooManyFrames {
        /// Frames that the format says.
        expected: u32,
        /// Frames that came, with the chunk that was refused.
        got: u64,
    },
    /// Fewer frames came, or were encoded, than the format says.
    #[error("the video has {expected} frames, and only {got} were {what}")]
    FramesMissing {
        /// Frames that the format says.
        expected: u32,
        /// Frames counted.
        got: u64,
        /// `handed over` or `encoded`.
        what: &'static str,
    },
    /// Whoever wanted the video has given it up.
    #[error("the video was given up before it was finished")]
    Aborted,
    /// An earlier error has ended this muxer.
    #[error("the muxer has ended after an earlier error")]
    Ended,
    /// ffprobe answered with something that is not the answer.
    #[error("could not understand what ffprobe says of {}", path.display())]
    ProbeAnswer {
        /// The probed file.
        path: PathBuf,
        /// What is wrong with the answer.
        #[source]
        source: serde_json::Error,
    },
    /// A file operation failed.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What ffmpeg says, as its last words, of a machine that has no room or no handles left, or whose disk fails.
const MACHINE_FAULTS: [&str; 8] = [
    "No space left on device",
    "Disk quota exceeded",
    "Too many open files",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
    "Input/output error",
    "Read-only file system",
    "No such file or directory",
];

impl Error {
    /// Tells whether the fault lies with this machine and not with the video: a disk that is full or gone, no handles
    /// left, a program that cannot be started.
    pub fn is_of_machine(&self) -> bool {
        match self {
            Self::ProgramMissing { .. } | Self::NotExecutable { .. } | Self::Start { .. } | Self::Io { .. } => true,
            Self::ProgramFailed { stderr, .. } => MACHINE_FAULTS.iter().any(|fault| stderr.contains(fault)),
            _ => false,
        }
    }

    /// Makes the closure that dresses an [`io::Error`] with what was tried on which path.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_the_machine_lacks_is_told_from_what_the_video_does() {
        let failed = |stderr: &str| {
            let status = ExitStatus::from_raw(256);
            Error::ProgramFailed { program: "ffmpeg", status, stderr: stderr.to_owned() }
        };
        assert!(failed("av_interleaved_write_frame(): No space left on device").is_of_machine());
        assert!(Error::io("create", "scratch")(io::ErrorKind::StorageFull.into()).is_of_machine());
        assert!(!failed("Conversion failed!").is_of_machine());
        assert!(!Error::Stalled { program: "ffmpeg", limit: Duration::ZERO }.is_of_machine());
    }
}
