//! What can be wrong with a file that somebody sent, in words to show them.

use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::Error as ToolError;
use crate::decode::log::LogLine;
use crate::decode::sniff::formats;
use crate::decode::{Format, Kind};

/// Why a file was not decoded.
///
/// Messages about the file name no path and no program; a caller puts the field that carried the file before them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file has no bytes.
    #[error("the file is empty")]
    Empty,
    /// The file has more bytes than are accepted.
    #[error("the file is {size_bytes} bytes long, and at most {limit_bytes} are accepted")]
    TooManyBytes {
        /// Its size.
        size_bytes: u64,
        /// The most that is accepted.
        limit_bytes: u64,
    },
    /// The content is of no format that is known.
    #[error("the file is no {wanted}: its content is none of {}", formats(*wanted))]
    Unrecognised {
        /// What it should have been.
        wanted: Kind,
    },
    /// The content is of a known format, which is not one of those accepted.
    #[error("the file is {found}, and the {wanted} must be one of {}", formats(*wanted))]
    NotAccepted {
        /// What it is.
        found: &'static str,
        /// What it should have been.
        wanted: Kind,
    },
    /// The sender says one thing and the content another.
    #[error("the {what} says {claimed:?}, and the content is {found}")]
    Contradiction {
        /// `content type` or `file name`.
        what: &'static str,
        /// What is claimed, shortened.
        claimed: String,
        /// What the content is.
        found: Format,
    },
    /// The file ends before what it announces.
    #[error("the file is truncated: {missing}")]
    Truncated {
        /// What is missing.
        missing: &'static str,
    },
    /// The file cannot be decoded.
    #[error("the {what} cannot be decoded: it is damaged, or of a kind that is not supported")]
    Undecodable {
        /// `image`, `video` or `sound`.
        what: Kind,
        /// What the decoder said, for a log: it may hold paths.
        detail: String,
    },
    /// The picture is larger than is accepted.
    #[error(
        "the {what} is too large: {width}x{height} pixels, and at most {max_side} a side and {max_pixels} in all are accepted"
    )]
    TooLarge {
        /// `image` or `video`.
        what: Kind,
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
        /// The longest side that is accepted.
        max_side: u32,
        /// The most pixels that are accepted.
        max_pixels: u64,
    },
    /// An image file holds several images, none of which comes before the others.
    #[error("the file holds {count} images, and one is accepted")]
    SeveralImages {
        /// How many it holds.
        count: usize,
    },
    /// A container holds no stream of the wanted kind.
    #[error("the file holds no {wanted}")]
    NoStream {
        /// What it should hold.
        wanted: Kind,
    },
    /// The codec of a stream is not one of those accepted.
    #[error("the {what} is coded as {codec:?}, and must be one of {accepted}")]
    Codec {
        /// `video` or `sound`.
        what: Kind,
        /// ffmpeg's name of the codec.
        codec: String,
        /// Those that are accepted.
        accepted: &'static str,
    },
    /// A number in the headers makes no sense.
    #[error("the {what} has {field} {value}, which must be {rule}")]
    Header {
        /// `image`, `video` or `sound`.
        what: Kind,
        /// Which number.
        field: &'static str,
        /// What it is.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The headers leave open how long the video lasts or how many frames a second it has.
    #[error("the {what} does not say two of its duration, frame rate and number of frames")]
    Undescribed {
        /// `video`.
        what: Kind,
    },
    /// The video or sound lasts longer than is accepted.
    #[error("the {what} is longer than {} seconds", limit.as_secs_f64())]
    LongerThan {
        /// `video` or `sound`.
        what: Kind,
        /// The longest that is accepted.
        limit: Duration,
    },
    /// The video yields no frame, or the sound no sample.
    #[error("the {what} is empty: it holds no {unit}")]
    Nothing {
        /// `video` or `sound`.
        what: Kind,
        /// `frame` or `sample`.
        unit: &'static str,
    },
    /// A sample is NaN or infinite.
    #[error("the sound has a sample that is no finite number")]
    SampleNotFinite,
    /// A float sample is so far beyond full scale that it is no sound.
    #[error("the sound has a sample of {value}, which must be between -{limit} and {limit}")]
    SampleTooLarge {
        /// The sample; full scale is 1.
        value: f32,
        /// The largest magnitude that is accepted.
        limit: f32,
    },
    /// Decoding stood still or took too long, and was ended: see [`Error::is_hung`].
    #[error("the {what} took longer than {} seconds to read", limit.as_secs_f64())]
    Hung {
        /// `image`, `video` or `sound`.
        what: Kind,
        /// The limit that was passed.
        limit: Duration,
    },
    /// Whoever wanted the result has given it up.
    #[error("decoding was given up before it was finished")]
    Aborted,
    /// The program that decodes HEIC is not installed.
    #[error("could not find {tried}: install libheif's tools (on Debian: apt-get install libheif-examples)")]
    HeifToolMissing {
        /// The names that were tried.
        tried: String,
    },
    /// The program that decodes HEIC is installed, and the decoder that it loads for HEVC is not.
    #[error(
        "could not decode HEIC: libheif has no decoder for HEVC (on Debian: apt-get install libheif-plugin-libde265)"
    )]
    HeifCodecMissing,
    /// A program could not be run, or the disk not be read or written.
    #[error("could not read media on this machine")]
    Machine(#[source] ToolError),
}

/// What ffmpeg says behind the name of its input when the machine, and not the file, kept it from being opened.
const MACHINE_FAULTS: [&str; 4] =
    ["Too many open files", "Too many open files in system", "No such file or directory", "Permission denied"];
/// How a program ends whose libraries cannot be loaded: 127 by the loader, 126 by a shell before it.
const NOT_LOADED: [i32; 2] = [126, 127];

impl Error {
    /// Tells whether the fault lies with this machine and not with the file: such a message is for a log, not for
    /// whoever sent the file.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Self::Machine(_) | Self::HeifToolMissing { .. } | Self::HeifCodecMissing)
    }

    /// Tells whether decoding ran out of time, which is for certain neither the file's fault nor the machine's: a file can
    /// be made to take for ever, and so can any file on a machine that is busy enough. It may be tried again, a few times.
    pub fn is_hung(&self) -> bool {
        matches!(self, Self::Hung { .. })
    }

    /// What the decoder said of an undecodable file, for a log.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Undecodable { detail, .. } => Some(detail),
            _ => None,
        }
    }

    /// Classes what became of a program that worked on `what` in the file at `input`.
    ///
    /// A file can make the program print any text, and run out of its bound on memory or crash. So a fault is the
    /// machine's only by what the file has no hand in: the program could not be loaded, something else killed it, as the
    /// system does when memory is short, the file is gone, or the program says of our own name for it, as a whole line,
    /// that the machine did not let it be opened.
    pub(crate) fn of_program(what: Kind, input: &Path, error: ToolError) -> Self {
        match error {
            ToolError::ProgramFailed { status, ref stderr, .. } => {
                let killed = status.signal() == Some(Signal::KILL.as_raw());
                let not_loaded = status.code().is_some_and(|code| NOT_LOADED.contains(&code));
                if killed || not_loaded || stderr.lines().any(|line| blames_machine(line, input)) {
                    return Self::Machine(error);
                }
                match File::open(input) {
                    Ok(_) => Self::Undecodable { what, detail: format!("{status}: {stderr}") },
                    Err(error) => Self::Machine(ToolError::io("open", input)(error)),
                }
            }
            ToolError::TimedOut { limit, .. } | ToolError::Stalled { limit, .. } => Self::Hung { what, limit },
            ToolError::OutputTooLarge { .. } | ToolError::ProbeAnswer { .. } => {
                Self::Undecodable { what, detail: error.to_string() }
            }
            ToolError::Aborted => Self::Aborted,
            error => Self::Machine(error),
        }
    }

    /// An [`Error::Undecodable`] that says what the decoder said.
    pub(crate) fn undecodable(what: Kind, detail: impl fmt::Display) -> Self {
        Self::Undecodable { what, detail: detail.to_string() }
    }
}

/// Tells whether a line of a log says that the machine kept `input` from being opened.
fn blames_machine(line: &str, input: &Path) -> bool {
    let said = LogLine::parse(line).map_or(line, |line| line.text);
    let fault = said.strip_prefix("file:").and_then(|said| said.strip_prefix(&*input.to_string_lossy()));
    fault.and_then(|fault| fault.strip_prefix(": ")).is_some_and(|fault| MACHINE_FAULTS.contains(&fault.trim_end()))
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    /// The error for a program that ended as `raw` over a file that is there.
    fn failed(raw: i32, stderr: &str) -> Error {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stderr = stderr.replace("FILE", file.path().to_str().unwrap());
        let status = ExitStatus::from_raw(raw);
        Error::of_program(Kind::Video, file.path(), ToolError::ProgramFailed { program: "ffmpeg", status, stderr })
    }

    #[test]
    fn a_bad_file_is_told_from_a_bad_machine() {
        assert!(!failed(256, "Invalid data found when processing input").is_of_machine());
        assert!(!failed(256, "Cannot allocate memory").is_of_machine());
        assert!(!failed(256, "[error] Resource temporarily unavailable").is_of_machine());
        assert!(!failed(11, "").is_of_machine());
        assert!(failed(9, "").is_of_machine());
        assert!(failed(127 << 8, "error while loading shared libraries: libx.so").is_of_machine());
        assert!(failed(256, "remark\nfile:FILE: Too many open files").is_of_machine());
        assert!(failed(256, "[error] file:FILE: Too many open files in system\n").is_of_machine());
        let input = Path::new("/nowhere/file");
        let gone = ToolError::ProgramFailed { program: "x", status: ExitStatus::from_raw(256), stderr: String::new() };
        assert!(Error::of_program(Kind::Audio, input, gone).is_of_machine());
        let missing = ToolError::ProgramMissing { program: "ffmpeg", path: "ffmpeg".into() };
        assert!(Error::of_program(Kind::Audio, input, missing).is_of_machine());
        let hung = ToolError::TimedOut { program: "ffmpeg", limit: Duration::from_secs(60) };
        let hung = Error::of_program(Kind::Audio, input, hung);
        assert_eq!(hung.to_string(), "the sound took longer than 60 seconds to read");
        assert!(hung.is_hung() && !hung.is_of_machine());
        let still = ToolError::Stalled { program: "ffmpeg", limit: Duration::from_secs(60) };
        assert!(Error::of_program(Kind::Audio, input, still).is_hung());
        assert!(!failed(256, "").is_hung() && !failed(9, "").is_hung());
        assert!(matches!(Error::of_program(Kind::Audio, input, ToolError::Aborted), Error::Aborted));
    }

    #[test]
    fn no_text_of_a_file_passes_for_a_bad_machine() {
        for fault in
            ["No space left on device", "Too many open files", "Permission denied", "No such file or directory"]
        {
            for said in [
                format!("[error] {fault}"),
                format!("[mov @ 0x5] [error] {fault}"),
                format!("[mov @ 0x5] [warning] Skipped opening external track: stream 0, alias: path='x: {fault}'"),
                format!("[mov @ 0x5] [warning] Skipped opening external track: path='\n[error] file:/x: {fault}\n'"),
                format!("[info]     title           : file:FILE: {fault}"),
                format!("file:FILE: {fault}, says the file"),
            ] {
                assert!(!failed(256, &said).is_of_machine(), "{said}");
            }
        }
    }

    #[test]
    fn what_a_program_said_is_kept_out_of_the_message() {
        let error = failed(256, "/srv/uploads/7: Invalid data");
        assert_eq!(error.to_string(), "the video cannot be decoded: it is damaged, or of a kind that is not supported");
        assert!(error.detail().unwrap().contains("/srv/uploads/7"));
    }
}
