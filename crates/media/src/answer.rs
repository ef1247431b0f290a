//! ffprobe's JSON: most numbers are strings, and whatever is not known is absent.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::FrameRate;

/// What ffprobe says of a file; which fields are there depends on what it was asked for.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    #[serde(default)]
    pub(crate) format: Container,
    #[serde(default)]
    pub(crate) streams: Vec<Stream>,
}

/// What it says of the file as a whole.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Container {
    #[serde(default)]
    pub(crate) format_name: String,
    duration: Option<String>,
}

impl Container {
    /// Length of the file.
    pub(crate) fn duration(&self) -> Option<Duration> {
        seconds(&self.duration)
    }
}

/// What it says of a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct Stream {
    pub(crate) index: u32,
    pub(crate) codec_type: Option<String>,
    #[serde(default)]
    pub(crate) codec_name: String,
    #[serde(default)]
    pub(crate) width: u32,
    #[serde(default)]
    pub(crate) height: u32,
    pub(crate) pix_fmt: Option<String>,
    pub(crate) color_range: Option<String>,
    pub(crate) color_space: Option<String>,
    pub(crate) color_primaries: Option<String>,
    pub(crate) color_transfer: Option<String>,
    pub(crate) chroma_location: Option<String>,
    sample_aspect_ratio: Option<String>,
    avg_frame_rate: Option<String>,
    r_frame_rate: Option<String>,
    start_time: Option<String>,
    duration: Option<String>,
    nb_frames: Option<String>,
    sample_rate: Option<String>,
    #[serde(default)]
    pub(crate) channels: u32,
    #[serde(default)]
    disposition: Disposition,
    #[serde(default)]
    side_data_list: Vec<SideData>,
}

#[derive(Debug, Default, Deserialize)]
struct Disposition {
    #[serde(default)]
    attached_pic: u8,
}

#[derive(Debug, Deserialize)]
struct SideData {
    rotation: Option<f64>,
}

impl Stream {
    /// Whether it is a picture that belongs to a sound.
    pub(crate) fn is_cover(&self) -> bool {
        self.disposition.attached_pic != 0
    }

    /// Width over height of a pixel; square unless said.
    pub(crate) fn pixel_aspect(&self) -> (u32, u32) {
        let ratio = self.sample_aspect_ratio.as_deref().and_then(|text| fraction(text, ':'));
        ratio.filter(|(width, _)| *width != 0).unwrap_or((1, 1))
    }

    /// Frames over the time that they last.
    pub(crate) fn average_rate(&self) -> Option<FrameRate> {
        rate(&self.avg_frame_rate)
    }

    /// The lowest rate that has a tick for every frame.
    pub(crate) fn nominal_rate(&self) -> Option<FrameRate> {
        rate(&self.r_frame_rate)
    }

    /// When the first frame or sample is due, in seconds.
    pub(crate) fn start_seconds(&self) -> Option<f64> {
        number(&self.start_time).filter(|start: &f64| start.is_finite())
    }

    /// Length of the stream.
    pub(crate) fn duration(&self) -> Option<Duration> {
        seconds(&self.duration)
    }

    /// Number of frames.
    pub(crate) fn frames(&self) -> Option<u64> {
        number(&self.nb_frames)
    }

    /// Samples per second and channel; 0 when it is not said.
    pub(crate) fn sample_rate(&self) -> u32 {
        number(&self.sample_rate).unwrap_or(0)
    }

    /// By how much the picture is turned to be upright, in degrees anticlockwise.
    pub(crate) fn rotation(&self) -> f64 {
        self.side_data_list.iter().find_map(|data| data.rotation).unwrap_or(0.0)
    }
}

fn number<T: FromStr>(text: &Option<String>) -> Option<T> {
    text.as_deref()?.parse().ok()
}

/// A length in seconds; what is no number, not finite or negative is no length.
fn seconds(text: &Option<String>) -> Option<Duration> {
    Duration::try_from_secs_f64(number(text)?).ok()
}

fn rate(text: &Option<String>) -> Option<FrameRate> {
    let (numerator, denominator) = fraction(text.as_deref()?, '/')?;
    (numerator != 0).then_some(FrameRate { numerator, denominator })
}

fn fraction(text: &str, between: char) -> Option<(u32, u32)> {
    let (numerator, denominator) = text.split_once(between)?;
    let (numerator, denominator) = (numerator.parse().ok()?, denominator.parse().ok()?);
    (denominator != 0).then_some((numerator, denominator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_value_are_none() {
        let text = |text: &str| Some(text.to_owned());
        for nothing in ["NaN", "N/A", "-1", "inf", "1e400", ""] {
            assert_eq!(seconds(&text(nothing)), None, "{nothing}");
        }
        assert_eq!(seconds(&text("2.5")), Some(Duration::from_millis(2500)));
        for nothing in ["0/0", "0/1", "24"] {
            assert_eq!(rate(&text(nothing)), None, "{nothing}");
        }
        assert_eq!(rate(&text("30000/1001")).unwrap().to_string(), "30000/1001");
        let stream: Stream = serde_json::from_str(r#"{"index": 0, "sample_aspect_ratio": "0:1"}"#).unwrap();
        assert_eq!(stream.pixel_aspect(), (1, 1));
    }
}
