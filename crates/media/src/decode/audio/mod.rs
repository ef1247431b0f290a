//! Sound: WAV, MP3, AAC in MP4 and the soundtracks of videos, to planar floats at the source's own rate.
//!
//! Whole-number samples of `n` bits are divided by `2^(n - 1)`, 8-bit ones after 128 is taken off; floats are kept as
//! they are, also beyond 1 as far as [`MAX_SAMPLE`]. One and two channels are kept; more are mixed down to stereo by ffmpeg's standard matrix,
//! scaled so that full scale in all channels stays within 1 (5.1: `L = (FL + 0.707 FC + 0.707 BL) / 2.414`, without the
//! bass channel). What encoders add before and after the sound is cut where the file says how much that is.

mod mp3;
mod wav;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clapboard_h3::prepare::Recording;

use crate::answer::Stream;
use crate::decode::source::{Source, machine};
use crate::decode::streams::{memory_bytes, name_input, streams};
use crate::decode::video::VideoFacts;
use crate::decode::{Claim, Error, Format, Kind};
use crate::process::{Bounds, capture};
use crate::{Error as ToolError, Ffmpeg};

/// The sample rates that are accepted, in Hz: those that can be resampled.
pub const SAMPLE_RATES: std::ops::RangeInclusive<u32> = Recording::RATES;
/// The largest magnitude of a float sample that is accepted: 24 dB beyond full scale, which is 1.
pub const MAX_SAMPLE: f32 = 16.0;
/// The most channels that ffmpeg has a standard layout to mix down from.
const MAX_CHANNELS: u32 = 8;
/// The longest that decoding a sound may take, where a few seconds do for sounds of minutes.
pub const DECODE_LIMIT: Duration = Duration::from_secs(120);
/// The largest cover picture that ffmpeg may look at.
const MAX_COVER_PIXELS: u64 = 1 << 24;

/// How large and long a sound may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AudioLimits {
    /// The longest file.
    pub max_file_bytes: u64,
    /// The longest sound. Encoders pad to whole blocks, so a bound on what was meant wants 0.1 s of grace.
    pub longest: Duration,
}

/// A codec of sound that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AudioCodec {
    /// AAC.
    Aac,
    /// MPEG audio, layer III.
    Mp3,
    /// Plain samples: 8, 16, 24 or 32 bits, or floats.
    Pcm,
}

impl fmt::Display for AudioCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aac => "aac",
            Self::Mp3 => "mp3",
            Self::Pcm => "pcm",
        })
    }
}

/// What a sound's headers say.
#[derive(Debug, Clone, PartialEq)]
pub struct SoundFacts {
    /// What the content of the file is.
    pub format: Format,
    /// Size of the file.
    pub size_bytes: u64,
    /// Codec of the sound.
    pub codec: AudioCodec,
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Channels in the file.
    pub channels: u32,
    /// Length, when the file says it; of an MP3, often a guess by its size.
    pub duration: Option<Duration>,
    /// By how much a soundtrack starts after the pictures; negative when before.
    pub(crate) delay_seconds: f64,
    /// ffmpeg's number of the stream.
    stream: u32,
}

/// A decoded sound.
#[derive(Clone, PartialEq)]
pub struct Sound {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// One or two channels of equal length, left before right.
    pub channels: Vec<Vec<f32>>,
}

impl Sound {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.channels.first().map_or(0, Vec::len) as f64 / f64::from(self.sample_rate)
    }
}

impl fmt::Debug for Sound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (channels, samples) = (self.channels.len(), self.channels.first().map_or(0, Vec::len));
        write!(f, "Sound({samples} samples of {channels} channels at {} Hz)", self.sample_rate)
    }
}

/// What walking the parts of a sound file found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All that is announced is there.
    Whole,
    /// The file ends before what it announces.
    CutShort,
    /// The file has more than [`MAX_PARTS`](crate::decode::boxes::MAX_PARTS) parts.
    Endless,
}

/// Says what the sound at `path` is, from its headers.
///
/// Errors: what is wrong with the file or over a limit; [`Error::Hung`], [`Error::Aborted`] soon after `aborted` was
/// set, [`Error::Machine`].
pub fn inspect(
    ffmpeg: &Ffmpeg,
    path: &Path,
    claim: &Claim<'_>,
    limits: &AudioLimits,
    aborted: &AtomicBool,
) -> Result<SoundFacts, Error> {
    let source = Source::open(path, claim, Kind::Audio, limits.max_file_bytes)?;
    let read = machine("read", path);
    let extent = match source.format {
        Format::Wav => wav::extent(&source.file, source.size_bytes).map_err(read)?,
        Format::Mp3 => mp3::extent(&source.file, source.size_bytes).map_err(read)?,
        _ => source.index_box(path, Kind::Audio, b"moov").map(|_| Extent::Whole)?,
    };
    match extent {
        Extent::Whole => {}
        Extent::CutShort => return Err(Error::Truncated { missing: "its end is missing" }),
        Extent::Endless => return Err(Error::undecodable(Kind::Audio, "more parts than are walked")),
    }
    let found = streams(ffmpeg, path, source.format, Kind::Audio, MAX_COVER_PIXELS, aborted)?;
    let Some(stream) = &found.audio else { return Err(Error::NoStream { wanted: Kind::Audio }) };
    if found.video.is_some() {
        return Err(Error::NotAccepted { found: "a video", wanted: Kind::Audio });
    }
    let facts = facts(stream, source.format, source.size_bytes, found.duration)?;
    if facts.duration.is_some_and(|duration| duration > limits.longest) {
        return Err(Error::LongerThan { what: Kind::Audio, limit: limits.longest });
    }
    Ok(facts)
}

/// Decodes the sound at `path`, which [`inspect`] has found to be as `facts` say; it may last as long as `longest`.
///
/// Memory: twice the samples at most.
///
/// Errors: [`Error::Nothing`] for a sound without samples, [`Error::LongerThan`], [`Error::SampleNotFinite`],
/// [`Error::SampleTooLarge`], [`Error::Undecodable`], [`Error::Hung`], [`Error::Aborted`] soon after `aborted` was set,
/// [`Error::Machine`].
pub fn decode(
    ffmpeg: &Ffmpeg,
    path: &Path,
    facts: &SoundFacts,
    longest: Duration,
    aborted: &AtomicBool,
) -> Result<Sound, Error> {
    let out_channels = facts.channels.min(2) as usize;
    let max_samples = samples_in(longest, facts.sample_rate);
    let max_bytes = max_samples.saturating_mul(out_channels * size_of::<f32>());
    let mut command = ffmpeg.ffmpeg_command();
    command.args(["-hide_banner", "-nostdin", "-nostats", "-loglevel", "error"]);
    name_input(&mut command, path, facts.format, MAX_COVER_PIXELS);
    // Channels and rate are what the headers said even when a stream changes midway.
    let filter = format!(
        "aresample={}:rematrix_maxval=1,aformat=sample_fmts=flt:channel_layouts={}",
        facts.sample_rate,
        if out_channels == 1 { "mono" } else { "stereo" },
    );
    command.args(["-map", &format!("0:{}", facts.stream), "-af", &filter, "-f", "f32le", "pipe:1"]);
    let memory_bytes = Some(memory_bytes(MAX_COVER_PIXELS));
    let bounds = Bounds { time: DECODE_LIMIT, max_bytes, memory_bytes };
    let captured = capture("ffmpeg", command, &bounds, aborted);
    let captured = captured.map_err(|error| match error {
        ToolError::OutputTooLarge { .. } => Error::LongerThan { what: Kind::Audio, limit: longest },
        error => Error::of_program(Kind::Audio, path, error),
    })?;
    if !captured.stderr.is_empty() {
        tracing::debug!(stderr = captured.stderr, "ffmpeg has remarks on a sound");
    }
    let channels = planar(&captured.stdout, out_channels);
    if channels.iter().any(Vec::is_empty) {
        return Err(Error::Nothing { what: Kind::Audio, unit: "sample" });
    }
    if channels.iter().flatten().any(|sample| !sample.is_finite()) {
        return Err(Error::SampleNotFinite);
    }
    if let Some(value) = channels.iter().flatten().find(|sample| sample.abs() > MAX_SAMPLE) {
        return Err(Error::SampleTooLarge { value: *value, limit: MAX_SAMPLE });
    }
    Ok(Sound { sample_rate: facts.sample_rate, channels })
}

/// Decodes the soundtrack of the video at `path`, which [`crate::decode::video::inspect`] has found to be as `facts` say;
/// `None` when it has none within the time of the pictures.
///
/// Sample 0 is due with the first frame: silence stands for a later start. What comes before that, or after `longest`,
/// is cut.
///
/// Errors: those of [`decode`].
pub fn decode_soundtrack(
    ffmpeg: &Ffmpeg,
    path: &Path,
    facts: &VideoFacts,
    longest: Duration,
    aborted: &AtomicBool,
) -> Result<Option<Sound>, Error> {
    let Some(sound_facts) = &facts.sound else { return Ok(None) };
    let mut sound = decode(ffmpeg, path, sound_facts, longest, aborted)?;
    let most = samples_in(longest, sound.sample_rate);
    let shift = (sound_facts.delay_seconds.abs() * f64::from(sound.sample_rate)).round() as usize;
    for channel in &mut sound.channels {
        align(channel, shift, sound_facts.delay_seconds < 0.0, most);
    }
    let nothing_left = sound.channels.iter().all(Vec::is_empty);
    Ok((!nothing_left).then_some(sound))
}

/// Moves a channel by `shift` samples, earlier or later, and keeps at most `most`; one that would begin after them is
/// empty.
fn align(channel: &mut Vec<f32>, shift: usize, earlier: bool, most: usize) {
    if earlier {
        channel.drain(..channel.len().min(shift));
    } else if shift >= most {
        channel.clear();
    } else {
        channel.splice(..0, std::iter::repeat_n(0.0, shift));
    }
    channel.truncate(most);
}

/// How many samples at `rate` begin within `length`.
fn samples_in(length: Duration, rate: u32) -> usize {
    (length.as_secs_f64() * f64::from(rate)).ceil() as usize
}

/// Checks a stream of sound and says what it is.
pub(crate) fn facts(
    stream: &Stream,
    format: Format,
    size_bytes: u64,
    file_duration: Option<Duration>,
) -> Result<SoundFacts, Error> {
    let accepted = match format {
        Format::Wav => "pcm of 8, 16, 24 or 32 bits and floats",
        Format::Mp3 => "mp3",
        _ => "aac and mp3",
    };
    let codec = match (format, stream.codec_name.as_str()) {
        (Format::Mp4 | Format::Mov, "aac") => AudioCodec::Aac,
        (Format::Mp4 | Format::Mov | Format::Mp3, "mp3") => AudioCodec::Mp3,
        (Format::Wav, "pcm_u8" | "pcm_s16le" | "pcm_s24le" | "pcm_s32le" | "pcm_f32le" | "pcm_f64le") => {
            AudioCodec::Pcm
        }
        (_, other) => return Err(Error::Codec { what: Kind::Audio, codec: other.to_owned(), accepted }),
    };
    let header = |field, value: u32, rule| Error::Header { what: Kind::Audio, field, value: value.to_string(), rule };
    let (sample_rate, channels) = (stream.sample_rate(), stream.channels);
    if !SAMPLE_RATES.contains(&sample_rate) {
        return Err(header("a sample rate of", sample_rate, "between 8000 and 192000 Hz"));
    }
    if !(1..=MAX_CHANNELS).contains(&channels) {
        return Err(header("a channel count of", channels, "between 1 and 8"));
    }
    let duration = stream.duration().or(file_duration);
    Ok(SoundFacts {
        format,
        size_bytes,
        codec,
        sample_rate,
        channels,
        duration,
        delay_seconds: 0.0,
        stream: stream.index,
    })
}

/// Interleaved little-endian floats to one vector for each channel.
fn planar(bytes: &[u8], channels: usize) -> Vec<Vec<f32>> {
    let (samples, _) = bytes.as_chunks::<4>();
    (0..channels)
        .map(|channel| {
            samples.iter().skip(channel).step_by(channels).map(|sample| f32::from_le_bytes(*sample)).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(shift: usize, earlier: bool, most: usize) -> Vec<f32> {
        let mut channel = vec![1.0, 2.0, 3.0];
        align(&mut channel, shift, earlier, most);
        channel
    }

    #[test]
    fn a_soundtrack_is_cut_to_the_time_of_the_pictures() {
        assert_eq!(aligned(1, true, 9), [2.0, 3.0]);
        assert_eq!(aligned(1, true, 1), [2.0]);
        assert!(aligned(usize::MAX, true, 9).is_empty());
        assert_eq!(aligned(2, false, 9), [0.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(aligned(2, false, 4), [0.0, 0.0, 1.0, 2.0]);
        assert!(aligned(4, false, 4).is_empty());
        assert!(aligned(usize::MAX, false, 4).is_empty());
    }
}
