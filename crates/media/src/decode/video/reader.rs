//! Frames of a video one after the other, from an ffmpeg that is held back until they are taken.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{TimeBase, Timestamp, VideoFacts, VideoLimits};
use crate::decode::log::{Level, LogLine};
use crate::decode::streams::{memory_bytes, name_input};
use crate::decode::{Error, Kind};
use crate::process::{Process, bounded_line};
use crate::{Error as ToolError, Ffmpeg, FrameRate};

/// The longest that one frame of a video may take.
pub const FRAME_LIMIT: Duration = Duration::from_secs(60);
/// How often a wait for a frame looks at whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// How long a child that closed its output gets to end.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How many remarks of ffmpeg are kept for its last words.
const MAX_REMARKS: usize = 16;
/// More frames a second than any camera makes: a video with more is hostile.
const MAX_FRAMES_A_SECOND: u64 = 1000;

/// A frame and when it is due.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// When it is due, from the first frame on.
    pub time: Timestamp,
    /// Rows from the top, packed RGB; `3 * width * height` bytes.
    pub rgb: Vec<u8>,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame(at {} s, {} bytes)", self.time.as_seconds(), self.rgb.len())
    }
}

/// Decodes a video; dropped at any moment, it ends ffmpeg and leaves nothing.
///
/// Memory: three frames at most, besides what ffmpeg holds.
#[derive(Debug)]
pub struct FrameReader {
    process: Process,
    path: PathBuf,
    frames: Option<Receiver<Vec<u8>>>,
    times: Receiver<(i64, TimeBase)>,
    pump: Option<JoinHandle<()>>,
    remarks: Option<JoinHandle<VecDeque<String>>>,
    rate: Option<FrameRate>,
    origin: Option<(i64, TimeBase)>,
    longest: Duration,
    frame_limit: Duration,
    frames_left: u64,
    ended: bool,
}

impl FrameReader {
    /// Starts to decode the video at `path`, which [`super::inspect`] has found to be as `facts` say, within `limits`.
    ///
    /// Errors: [`Error::Machine`].
    pub fn start(ffmpeg: &Ffmpeg, path: &Path, facts: &VideoFacts, limits: &VideoLimits) -> Result<Self, Error> {
        let mut command = ffmpeg.ffmpeg_command();
        command.args(["-hide_banner", "-nostdin", "-nostats", "-loglevel", "repeat+level+info"]);
        name_input(&mut command, path, facts.format, limits.max_pixels);
        // The times are read off showinfo, under a name that no file can know; the last filter gives all frames one
        // size, should the stream change its own.
        let clock = format!("showinfo@{:016x}", RandomState::new().hash_one(path));
        let filter = format!(
            "{clock}=checksum=0,scale={}:{}:flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp,\
             format=rgb24,setsar=1",
            facts.width, facts.height
        );
        command.args(["-map", &format!("0:{}", facts.stream), "-vf", &filter, "-fps_mode", "passthrough"]);
        command.args(["-f", "rawvideo", "pipe:1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());

        let mut process = Process::spawn("ffmpeg", command).map_err(Error::Machine)?;
        process.bound_memory(memory_bytes(limits.max_pixels));
        let stdout = process.pipes().stdout.take().expect("standard output was asked for");
        let stderr = process.pipes().stderr.take().expect("standard error was asked for");
        let frame_bytes = 3 * facts.width as usize * facts.height as usize;
        let (frame_sender, frames) = sync_channel(1);
        let (time_sender, times) = channel();
        let pump = thread::spawn(move || pump(stdout, frame_bytes, &frame_sender));
        let remarks = thread::spawn(move || {
            follow(stderr, &clock, |time| {
                // Nobody listens once the reader is being dropped.
                time_sender.send(time).ok();
            })
        });
        let seconds = limits.longest.as_secs() + 1;
        Ok(Self {
            process,
            path: path.to_owned(),
            frames: Some(frames),
            times,
            pump: Some(pump),
            remarks: Some(remarks),
            rate: facts.average_rate.or(facts.nominal_rate),
            origin: None,
            longest: limits.longest,
            frame_limit: FRAME_LIMIT,
            frames_left: seconds.saturating_mul(MAX_FRAMES_A_SECOND),
            ended: false,
        })
    }

    /// The rate of the frames on average, when the file says it.
    pub fn frame_rate(&self) -> Option<FrameRate> {
        self.rate
    }

    /// The longest that the video may last.
    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// Waits for the next frame; `None` after the last. A frame that is not taken holds the decoding back.
    ///
    /// Errors: [`Error::Nothing`] for a video without frames, [`Error::LongerThan`], [`Error::Undecodable`],
    /// [`Error::Hung`], [`Error::Aborted`] soon after `aborted` was set, [`Error::Machine`]. Each ends the reader: what
    /// comes after it is `None`.
    pub fn next_frame(&mut self, aborted: &AtomicBool) -> Result<Option<Frame>, Error> {
        if self.ended {
            return Ok(None);
        }
        let next = self.receive(aborted);
        if !matches!(next, Ok(Some(_))) {
            self.end();
        }
        next
    }

    fn receive(&mut self, aborted: &AtomicBool) -> Result<Option<Frame>, Error> {
        let deadline = Instant::now() + self.frame_limit;
        let hung = Error::Hung { what: Kind::Video, limit: self.frame_limit };
        let rgb = match self.frames.as_ref().map(|frames| wait(frames, deadline, aborted)) {
            Some(Waited::Came(rgb)) => rgb,
            Some(Waited::Aborted) => return Err(Error::Aborted),
            Some(Waited::Late) => return Err(hung),
            Some(Waited::Ended) => return self.finish(aborted),
            None => return Ok(None),
        };
        // ffmpeg says when a frame is due before it writes it.
        let (ticks, time_base) = match wait(&self.times, deadline, aborted) {
            Waited::Came(time) => time,
            Waited::Aborted => return Err(Error::Aborted),
            Waited::Late | Waited::Ended => return Err(hung),
        };
        let (first, first_base) = *self.origin.get_or_insert((ticks, time_base));
        if time_base != first_base {
            return Err(Error::undecodable(Kind::Video, "the clock changes midway"));
        }
        let time = Timestamp { ticks: ticks.saturating_sub(first), time_base };
        let longer = Error::LongerThan { what: Kind::Video, limit: self.longest };
        if time.as_seconds() > self.longest.as_secs_f64() {
            return Err(longer);
        }
        self.frames_left = self.frames_left.checked_sub(1).ok_or(longer)?;
        Ok(Some(Frame { time, rgb }))
    }

    /// Says how decoding ended, once no more frames come.
    fn finish(&mut self, aborted: &AtomicBool) -> Result<Option<Frame>, Error> {
        let class = |error| Error::of_program(Kind::Video, &self.path, error);
        let limit = LAST_WORDS.min(self.frame_limit);
        let Some(status) = self.process.wait_unless(aborted, Instant::now() + limit).map_err(class)? else {
            return Err(Error::Hung { what: Kind::Video, limit });
        };
        let remarks = join(&mut self.remarks).unwrap_or_default();
        let stderr = Vec::from(remarks).join("\n");
        if !status.success() {
            return Err(class(ToolError::ProgramFailed { program: "ffmpeg", status, stderr }));
        }
        if !stderr.is_empty() {
            tracing::debug!(stderr, "ffmpeg has remarks on a video");
        }
        match self.origin {
            Some(_) => Ok(None),
            None => Err(Error::Nothing { what: Kind::Video, unit: "frame" }),
        }
    }

    /// Ends ffmpeg and both threads.
    fn end(&mut self) {
        self.ended = true;
        // A pump that waits to hand its frame over sees the other end go; one that waits for bytes, the pipe.
        self.frames = None;
        if let Err(error) = self.process.kill() {
            tracing::warn!(%error, "could not end ffmpeg");
        }
        join(&mut self.pump);
        join(&mut self.remarks);
    }

    /// Sets how long a frame may take; a minute unless set.
    #[cfg(test)]
    fn with_frame_limit(mut self, limit: Duration) -> Self {
        self.frame_limit = limit;
        self
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for a thread that was not joined yet.
fn join<T>(thread: &mut Option<JoinHandle<T>>) -> Option<T> {
    thread.take().and_then(|thread| thread.join().ok())
}

/// Reads whole frames until they end or nobody takes them; a part of a frame at the end is dropped.
fn pump(mut stdout: ChildStdout, frame_bytes: usize, frames: &SyncSender<Vec<u8>>) {
    loop {
        let mut frame = vec![0; frame_bytes];
        if stdout.read_exact(&mut frame).is_err() || frames.send(frame).is_err() {
            return;
        }
    }
}

/// What became of waiting for a thread's message.
enum Waited<T> {
    /// It came.
    Came(T),
    /// The thread has ended.
    Ended,
    /// Nobody wants it any more.
    Aborted,
    /// It did not come in time.
    Late,
}

fn wait<T>(messages: &Receiver<T>, deadline: Instant, aborted: &AtomicBool) -> Waited<T> {
    loop {
        // Looked at even when messages come without a pause.
        if aborted.load(Ordering::Relaxed) {
            return Waited::Aborted;
        }
        match messages.recv_timeout(LOOK) {
            Ok(message) => return Waited::Came(message),
            Err(RecvTimeoutError::Disconnected) => return Waited::Ended,
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => return Waited::Late,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Reads ffmpeg's log: the times that the filter `clock` tells are handed to `found`, and the last warnings and errors
/// returned.
fn follow(stderr: impl Read, clock: &str, mut found: impl FnMut((i64, TimeBase))) -> VecDeque<String> {
    let mut lines = BufReader::new(stderr);
    let mut time_base = None;
    let mut remarks = VecDeque::new();
    while let Ok(Some(line)) = bounded_line(&mut lines) {
        match parse(&line, clock) {
            Line::Clock(clock) => time_base = Some(clock),
            Line::Frame(ticks) => {
                if let Some(time_base) = time_base {
                    found((ticks, time_base));
                }
            }
            Line::Remark => {
                remarks.push_back(line);
                if remarks.len() > MAX_REMARKS {
                    remarks.pop_front();
                }
            }
            Line::Other => {}
        }
    }
    remarks
}

/// What a line of ffmpeg's log is about.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// The clock of the frames that follow.
    Clock(TimeBase),
    /// A frame that is due at this tick.
    Frame(i64),
    /// A warning or an error.
    Remark,
    /// Nothing of interest.
    Other,
}

fn parse(line: &str, clock: &str) -> Line {
    let Some(LogLine { speaker, level, text }) = LogLine::parse(line) else { return Line::Other };
    if level == Level::Remark {
        return Line::Remark;
    }
    // Tags of the file, which ffmpeg lists too, may hold line ends and look like this; they cannot know the name.
    if speaker != Some(clock) {
        return Line::Other;
    }
    let words = text.trim();
    if let Some(clock) = words.strip_prefix("config in time_base: ") {
        let clock = clock.split(',').next().and_then(|clock| clock.split_once('/'));
        let clock = clock.and_then(|(numerator, denominator)| {
            Some(TimeBase { numerator: numerator.parse().ok()?, denominator: denominator.parse().ok()? })
        });
        return clock.filter(|clock| clock.denominator != 0 && clock.numerator != 0).map_or(Line::Other, Line::Clock);
    }
    if !words.starts_with("n:") {
        return Line::Other;
    }
    let ticks = words.split_once("pts:").and_then(|(_, ticks)| ticks.split_whitespace().next()?.parse().ok());
    ticks.map_or(Line::Other, Line::Frame)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::decode::Format;
    use crate::decode::video::VideoCodec;

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// A reader of 2x1 frames whose ffmpeg runs `body` instead.
    fn reader(folder: &Path, body: &str) -> FrameReader {
        let path = folder.join("ffmpeg");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*-version*) echo 'ffmpeg version 7.1 Copyright';;\n\
             *-encoders*) echo ' V..... libx264 x'; echo ' A..... aac x';;\n*)\nall=\"$*\"; clock=\"${{all#*-vf }}\"; clock=\"${{clock%%=*}}\"\n{body}\n;;\nesac\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let ffmpeg = Ffmpeg::at(&path, "ffprobe").unwrap();
        let facts = VideoFacts {
            format: Format::Mp4,
            size_bytes: 1,
            codec: VideoCodec::H264,
            width: 2,
            height: 1,
            rotation_degrees: 0,
            average_rate: None,
            nominal_rate: None,
            duration: None,
            frames: None,
            sound: None,
            stream: 0,
        };
        let longest = Duration::from_secs(2);
        let limits = VideoLimits { max_file_bytes: 1, max_side: 2, max_pixels: 2, longest };
        FrameReader::start(&ffmpeg, &path, &facts, &limits).unwrap()
    }

    const CLOCK: &str = r#"echo "[$clock @ 0x1] [info] config in time_base: 1/10, frame_rate: 10/1" >&2"#;

    fn frame(ticks: &str) -> String {
        format!(r#"echo "[$clock @ 0x1] [info] n:   0 pts: {ticks} pts_time:0 x" >&2; printf 123456"#)
    }

    #[test]
    fn lines_of_the_log_are_told_apart() {
        let parse = |line: &str| parse(line, "showinfo@7f");
        let line = "[showinfo@7f @ 0x55] [info] n:  12 pts:  -1001 pts_time:-0.03 pos: 48 fmt:yuv420p";
        assert_eq!(parse(line), Line::Frame(-1001));
        let clock = TimeBase { numerator: 1, denominator: 30_000 };
        assert_eq!(
            parse("[showinfo@7f @ 0x5] [info] config in time_base: 1/30000, frame_rate: 0/0"),
            Line::Clock(clock)
        );
        assert_eq!(parse("[showinfo@7f @ 0x5] [info] config out time_base: 0/0, frame_rate: 0/0"), Line::Other);
        assert_eq!(parse("[info]     title : [showinfo@7f @ 0x0] [info] n: 0 pts: 5"), Line::Other);
        assert_eq!(parse("[Parsed_showinfo_0 @ 0x0] [info] n: 0 pts: 5"), Line::Other);
        assert_eq!(parse("[info]     title : [error] No space left on device"), Line::Other);
        assert_eq!(parse("[h264 @ 0x5] [error] top block unavailable"), Line::Remark);
    }

    #[test]
    fn a_long_line_of_the_file_s_own_does_not_begin_another() {
        let long = format!("[info]     title : {}", "x".repeat(1024 - 19));
        let log = format!("{long}[f @ 0x0] [info] n: 0 pts: 5\n{long}[error] no\n[f @ 0x1] [info] n: 0 pts: 7\n");
        let log = format!("[f @ 0x1] [info] config in time_base: 1/10\n{log}");
        let mut ticks = Vec::new();
        let remarks = follow(log.as_bytes(), "f", |(tick, _)| ticks.push(tick));
        assert_eq!((ticks, remarks), (vec![7], VecDeque::new()));
    }

    #[test]
    fn times_count_from_the_first_frame() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = reader(folder.path(), &[CLOCK, &frame("5"), &frame("8")].join("\n"));
        let times: Vec<_> =
            std::iter::from_fn(|| reader.next_frame(&NEVER).unwrap()).map(|frame| frame.time.as_seconds()).collect();
        assert_eq!(times, [0.0, 0.3]);
        assert!(reader.next_frame(&NEVER).unwrap().is_none());
    }

    #[test]
    fn a_decoder_that_hangs_is_given_up_and_gone() {
        let folder = tempfile::tempdir().unwrap();
        let body = format!("echo $$ > '{}/pid'; exec sleep 1000", folder.path().display());
        let mut reader = reader(folder.path(), &body).with_frame_limit(Duration::from_millis(300));
        let error = reader.next_frame(&NEVER).unwrap_err();
        assert_eq!(error.to_string(), "the video took longer than 0.3 seconds to read");
        let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists());
    }

    #[test]
    fn a_decoder_that_ends_its_frames_but_not_itself_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let body = [CLOCK, &frame("0"), "exec >&-", "exec sleep 1000"].join("\n");
        let mut reader = reader(folder.path(), &body).with_frame_limit(Duration::from_millis(300));
        assert!(reader.next_frame(&NEVER).unwrap().is_some());
        let error = reader.next_frame(&NEVER).unwrap_err();
        assert_eq!(error.to_string(), "the video took longer than 0.3 seconds to read");
    }

    #[test]
    fn a_reader_can_be_given_up_at_any_point() {
        let aborted = AtomicBool::new(true);
        let no_times = "printf 123456; exec sleep 1000";
        let no_end = "exec >&-; exec sleep 1000";
        let plenty = format!("{CLOCK}\nwhile true; do {}; done", frame("0"));
        for body in ["exec sleep 1000", no_times, no_end, &plenty] {
            let folder = tempfile::tempdir().unwrap();
            let mut reader = reader(folder.path(), body);
            let error = reader.next_frame(&aborted).unwrap_err();
            assert!(matches!(error, Error::Aborted), "{error}");
            assert!(reader.next_frame(&NEVER).unwrap().is_none());
        }
        // Given up while it waits for the time of a frame that came.
        let folder = tempfile::tempdir().unwrap();
        let written = folder.path().join("written");
        let body = format!("printf 123456; touch '{}'; exec sleep 1000", written.display());
        let mut reader = reader(folder.path(), &body);
        let aborted = AtomicBool::new(false);
        let begun = Instant::now();
        let error = thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.next_frame(&aborted).unwrap_err());
            while !written.exists() {
                thread::yield_now();
            }
            aborted.store(true, Ordering::Relaxed);
            waiting.join().unwrap()
        });
        assert!(matches!(error, Error::Aborted) && begun.elapsed() < FRAME_LIMIT / 2, "{error}");
    }

    #[test]
    fn a_video_that_never_ends_is_ended_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let body = format!("{CLOCK}\nn=0\nwhile true; do {}; n=$((n+7)); done", frame("$n"));
        let mut reader = reader(folder.path(), &body);
        let error = loop {
            match reader.next_frame(&NEVER) {
                Ok(frame) => assert!(frame.unwrap().time.as_seconds() <= 2.0),
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), "the video is longer than 2 seconds");
    }

    #[test]
    fn a_decoder_that_dies_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = reader(folder.path(), "echo '[error] codec caught fire' >&2; exit 1");
        let error = reader.next_frame(&NEVER).unwrap_err();
        assert!(error.detail().unwrap().contains("codec caught fire"), "{error:?}");
    }
}
