//! What a sent file is.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use clapboard_h3::MediumFacts;
use clapboard_h3::prepare::ReferenceLimits;

use super::{audio_limits, image_limits, video_limits};
use crate::FrameRate;
use crate::decode::sniff::{Sniffed, is_branded_sound, sniff};
use crate::decode::source::Opened;
use crate::decode::video::{FrameReader, VideoFacts};
use crate::decode::{Claim, Error, Kind, audio, image, video};
use crate::tools::MediaTools;

/// How far the nominal rate of a video may be from its average and still be what is meant, in parts of it.
const SAME_RATE: f64 = 0.005;

/// Tells what a file is by its content; none for what may be no reference.
///
/// MP4 and MOV count as video unless their own brand or the claim says that they are sound. The claim is not held against
/// the file here; [`inspect()`] does that.
///
/// Errors: [`Error::Empty`], [`Error::Machine`].
pub fn kind(path: &Path, claim: &Claim<'_>) -> Result<Option<Kind>, Error> {
    let head = Opened::open(path)?.head;
    let Sniffed::Accepted(format) = sniff(&head) else { return Ok(None) };
    let is_sound = format.may_be(Kind::Audio) && (is_branded_sound(&head) || claim.is_of_sound());
    let kinds = [Kind::Image, Kind::Video, Kind::Audio];
    Ok(if is_sound { Some(Kind::Audio) } else { kinds.into_iter().find(|kind| format.may_be(*kind)) })
}

/// Says what the file at `path` is, which should be a `wanted`.
///
/// Pictures and sounds are decoded, soundtracks too, so that a file that is broken anywhere is refused; of the pictures
/// of a video, the headers are read and the first frame decoded. HEIC needs a folder `scratch` to write to; nothing is
/// left there.
///
/// Memory: 16 bytes for each pixel of a picture, or eight for each sample of a sound; ten for each pixel of a frame.
///
/// Errors: what is wrong with the file, or more than `limits` let be decoded; [`Error::Hung`], [`Error::Aborted`] soon
/// after `aborted` was set; [`Error::HeifToolMissing`], [`Error::HeifCodecMissing`], [`Error::Machine`].
pub fn inspect(
    tools: &MediaTools,
    scratch: &Path,
    path: &Path,
    claim: &Claim<'_>,
    wanted: Kind,
    limits: &ReferenceLimits,
    aborted: &AtomicBool,
) -> Result<MediumFacts, Error> {
    match wanted {
        Kind::Image => {
            let picture = image::decode(&tools.heif, scratch, path, claim, &image_limits(limits), aborted)?;
            Ok(MediumFacts::Image { width: picture.width, height: picture.height })
        }
        Kind::Video => {
            let limits = video_limits(limits);
            let facts = video::inspect(&tools.ffmpeg, path, claim, &limits, aborted)?;
            let (fps, seconds) = describe(&facts)?;
            FrameReader::start(&tools.ffmpeg, path, &facts, &limits)?.next_frame(aborted)?;
            let sound = audio::decode_soundtrack(&tools.ffmpeg, path, &facts, limits.longest, aborted)?;
            let (width, height) = (facts.width, facts.height);
            Ok(MediumFacts::Video { width, height, fps, seconds, sound_seconds: sound.map(|sound| sound.seconds()) })
        }
        Kind::Audio => {
            let limits = audio_limits(limits);
            let facts = audio::inspect(&tools.ffmpeg, path, claim, &limits, aborted)?;
            let sound = audio::decode(&tools.ffmpeg, path, &facts, limits.longest, aborted)?;
            Ok(MediumFacts::Audio { seconds: sound.seconds() })
        }
    }
}

/// The frames per second and the seconds of a video by its headers, which may leave out one of the rate, the duration
/// and the number of frames.
fn describe(facts: &VideoFacts) -> Result<(f64, f64), Error> {
    let said = facts.duration.map(|duration| duration.as_secs_f64()).filter(|seconds| *seconds > 0.0);
    let counted = facts.frames.map(|frames| frames as f64);
    let rate = frames_a_second(facts.average_rate, facts.nominal_rate).or(counted.zip(said).map(|(n, s)| n / s));
    let seconds = said.or(counted.zip(rate).map(|(frames, rate)| frames / rate));
    rate.zip(seconds).ok_or(Error::Undescribed { what: Kind::Video })
}

/// The rate of a video: the average, which the last frame's length and a coarse clock put off a little, or the nominal
/// rate where the two are near.
fn frames_a_second(average: Option<FrameRate>, nominal: Option<FrameRate>) -> Option<f64> {
    let per_second = |rate: FrameRate| f64::from(rate.numerator) / f64::from(rate.denominator);
    match (average.map(per_second), nominal.map(per_second)) {
        (Some(average), Some(nominal)) if (nominal / average - 1.0).abs() > SAME_RATE => Some(average),
        (average, nominal) => nominal.or(average),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decode::Format;
    use crate::decode::video::VideoCodec;

    const TEN: FrameRate = FrameRate { numerator: 10, denominator: 1 };

    /// What is said of a video with these headers, as frames per second and seconds.
    fn described(average_rate: Option<FrameRate>, seconds: Option<u64>, frames: Option<u64>) -> Option<(f64, f64)> {
        let facts = VideoFacts {
            format: Format::Mp4,
            size_bytes: 1,
            codec: VideoCodec::H264,
            width: 64,
            height: 48,
            rotation_degrees: 0,
            average_rate,
            nominal_rate: None,
            duration: seconds.map(Duration::from_secs),
            frames,
            sound: None,
            stream: 0,
        };
        let described = describe(&facts);
        assert!(described.as_ref().err().is_none_or(|error| !error.is_of_machine()), "{described:?}");
        described.ok()
    }

    #[test]
    fn one_of_rate_duration_and_number_of_frames_may_be_missing() {
        for (rate, seconds, frames) in [
            (Some(TEN), Some(3), Some(30)),
            (None, Some(3), Some(30)),
            (Some(TEN), None, Some(30)),
            (Some(TEN), Some(3), None),
            (Some(TEN), Some(0), Some(30)),
        ] {
            assert_eq!(described(rate, seconds, frames), Some((10.0, 3.0)), "{rate:?} {seconds:?} {frames:?}");
        }
        for (rate, seconds, frames) in [(Some(TEN), None, None), (None, Some(3), None), (None, None, Some(30))] {
            assert_eq!(described(rate, seconds, frames), None, "{rate:?} {seconds:?} {frames:?}");
        }
    }

    #[test]
    fn the_nominal_rate_is_taken_where_the_average_is_only_rounded() {
        let rate = |numerator, denominator| Some(FrameRate { numerator, denominator });
        let film = 24_000.0 / 1001.0;
        // The clock of a thousandth of a second makes the last frame longer.
        assert_eq!(frames_a_second(rate(48_000, 2003), rate(24_000, 1001)), Some(film));
        assert_eq!(frames_a_second(rate(25, 1), rate(90_000, 1)), Some(25.0));
        assert_eq!(frames_a_second(rate(25, 1), None), Some(25.0));
        assert_eq!(frames_a_second(None, rate(25, 1)), Some(25.0));
        assert_eq!(frames_a_second(None, None), None);
    }
}
