use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clapboard_media::FrameRate;
use clapboard_media::decode::audio::{self, AudioCodec, decode_soundtrack};
use clapboard_media::decode::video::{self, ConstantRate, Frame, FrameReader, VideoCodec, VideoLimits};
use clapboard_media::decode::{Claim, Error, Format, Kind};

use crate::bench::{Bench, NEVER, NO_CLAIM, VIDEO_LIMITS, assert_near, pixel};

const FILM: FrameRate = FrameRate { numerator: 24, denominator: 1 };
/// A second in which frame `N` is grey, `3 N` above black.
pub(crate) const STAIRS: &str = "nullsrc=s=64x48:d=1:r=RATE,geq=lum=16+3*N:cb=128:cr=128,format=yuv420p";
/// 64x32, the left half red and the right blue.
pub(crate) const HALVES: &str =
    "color=0xC8283C:s=32x32:r=10:d=0.5[l];color=0x145AB4:s=32x32:r=10:d=0.5[r];[l][r]hstack";
const RED: [u8; 3] = [200, 40, 60];
const BLUE: [u8; 3] = [20, 90, 180];

fn all(reader: &mut FrameReader) -> Vec<Frame> {
    std::iter::from_fn(|| reader.next_frame(&NEVER).unwrap()).collect()
}

/// The grey that frame `n` of the stairs has in RGB.
pub(crate) fn step(n: usize) -> [u8; 3] {
    [(3.0 * n as f64 * 255.0 / 219.0).round() as u8; 3]
}

#[test]
fn every_rate_codec_and_container_yields_its_frames_and_times() {
    let bench = Bench::new();
    for (rate, codec, container) in [
        ("24000/1001", "libx264", "mp4"),
        ("25/1", "libx265", "mov"),
        ("30000/1001", "libx264", "mov"),
        ("60/1", "libx265", "mp4"),
        ("24/1", "libx264", "mp4"),
    ] {
        let source = STAIRS.replace("RATE", rate);
        let tag = if codec == "libx265" { "-tag:v hvc1 -x265-params log-level=none" } else { "-preset fast" };
        let path = bench.make(&format!("-f lavfi -i {source} -c:v {codec} -crf 8 {tag} -f {container}"), "stairs");
        let (facts, mut reader) = bench.frames(&path).unwrap();
        assert_eq!(facts.average_rate.unwrap().to_string(), rate);
        assert_eq!(facts.nominal_rate, facts.average_rate);
        assert_eq!(facts.codec, if codec == "libx265" { VideoCodec::Hevc } else { VideoCodec::H264 });
        assert_eq!(facts.format, if container == "mov" { Format::Mov } else { Format::Mp4 });
        assert_eq!((facts.width, facts.height, facts.rotation_degrees), (64, 48, 0));
        assert!(facts.sound.is_none() && facts.frames.is_some());

        let frames = all(&mut reader);
        assert_eq!(Some(frames.len() as u64), facts.frames);
        let FrameRate { numerator, denominator } = facts.average_rate.unwrap();
        let seconds = frames.len() as f64 * f64::from(denominator) / f64::from(numerator);
        assert!((facts.duration.unwrap().as_secs_f64() - seconds).abs() < 0.001, "{:?}", facts.duration);
        for (n, frame) in frames.iter().enumerate() {
            let exact =
                i128::from(frame.time.ticks) * i128::from(frame.time.time_base.numerator) * i128::from(numerator);
            let expected = n as i128 * i128::from(denominator) * i128::from(frame.time.time_base.denominator);
            assert_eq!(exact, expected, "{rate}: frame {n} is due at {:?}", frame.time);
            assert_near(pixel(&frame.rgb, 64, 30, 20), step(n), 3);
        }

        // At 24 a second, each frame is shown from its slot to that of the next.
        let slot = |n: usize| (n as f64 * 24.0 * f64::from(denominator) / f64::from(numerator) + 0.5).floor() as usize;
        let expected: Vec<usize> = (0..frames.len()).flat_map(|n| vec![n; slot(n + 1) - slot(n)]).collect();
        let (_, reader) = bench.frames(&path).unwrap();
        let mut constant = ConstantRate::new(reader, FILM);
        let (mut shown, mut read) = (Vec::new(), 0);
        while let Some((frame, times)) = constant.next_frame(&mut || read += 1, &NEVER).unwrap() {
            shown.extend(vec![frame; times as usize]);
        }
        assert_eq!((shown.len(), read), (expected.len(), frames.len()), "{rate}: dropped frames are moves too");
        for (frame, n) in shown.iter().zip(expected) {
            assert!(*frame == frames[n], "{rate}: frame {n} is not shown in its slot");
        }
    }
}

#[test]
fn a_variable_rate_is_followed_by_the_times() {
    let bench = Bench::new();
    // Ten frames at 30 a second, then ten at 10 a second.
    let source = "nullsrc=s=64x48:r=30:d=0.67,trim=end_frame=20,geq=lum=16+3*N:cb=128:cr=128,format=yuv420p,settb=1/600,\
                  setpts=if(lt(N\\,10)\\,20*N\\,200+60*(N-10))";
    let path = bench.make(
        &format!("-f lavfi -i {source} -fps_mode vfr -enc_time_base 1/600 -c:v libx264 -crf 8 -bf 2 -f mp4"),
        "vfr",
    );
    let (facts, mut reader) = bench.frames(&path).unwrap();
    assert_ne!(facts.average_rate, facts.nominal_rate);
    let frames = all(&mut reader);
    assert_eq!(frames.len(), 20);
    for (n, frame) in frames.iter().enumerate() {
        let due = if n < 10 { n as f64 / 30.0 } else { (n - 10) as f64 / 10.0 + 1.0 / 3.0 };
        assert!((frame.time.as_seconds() - due).abs() < 1e-6, "{n}: {frame:?}");
        assert_near(pixel(&frame.rgb, 64, 30, 20), step(n), 3);
    }
    let (_, reader) = bench.frames(&path).unwrap();
    let mut constant = ConstantRate::new(reader, FILM);
    let times: Vec<_> =
        std::iter::from_fn(|| constant.next_frame(&mut || (), &NEVER).unwrap()).map(|(_, times)| times).collect();
    // The slots of 0, 1/30, 2/30 ... are 0, 1, 2, 2, 3, 4, 5, 6, 6, 7 and of 1/3, 1/3 + 1/10 ... 8, 10, 13, 15, 18 ...
    assert_eq!(times[..8], [1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(times[8..12], [2, 3, 2, 3]);
}

/// Writes a turn into the track header: the matrix of a clockwise turn by `degrees`.
pub(crate) fn turned(path: &Path, degrees: u32) -> PathBuf {
    const ONE: u32 = 0x1_0000;
    let minus = ONE.wrapping_neg();
    let [a, b, c, d] = match degrees {
        90 => [0, ONE, minus, 0],
        180 => [minus, 0, 0, minus],
        270 => [0, minus, ONE, 0],
        // An eighth of a turn.
        _ => [46341, 46341, 46341u32.wrapping_neg(), 46341],
    };
    let matrix: Vec<u8> = [a, b, 0, c, d, 0, 0, 0, 0x4000_0000].iter().flat_map(|word| word.to_be_bytes()).collect();
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(4).position(|word| word == b"tkhd").unwrap() + 44;
    bytes[at..at + 36].copy_from_slice(&matrix);
    let turned = path.with_extension(degrees.to_string());
    std::fs::write(&turned, bytes).unwrap();
    turned
}

#[test]
fn a_portrait_comes_upright() {
    let bench = Bench::new();
    let path = bench.make(&format!("-f lavfi -i {HALVES} -pix_fmt yuv420p -crf 8 -f mov"), "lying");
    let corners = |path: &Path| {
        let (facts, mut reader) = bench.frames(path).unwrap();
        let frame = reader.next_frame(&NEVER).unwrap().unwrap();
        assert_eq!(frame.rgb.len(), 3 * 64 * 32);
        let (right, bottom) = (facts.width - 5, facts.height - 5);
        let at = |x, y| pixel(&frame.rgb, facts.width, x, y);
        ((facts.width, facts.height, facts.rotation_degrees), [at(4, 4), at(right, 4), at(4, bottom)])
    };
    for (degrees, size, colours) in
        [(90, (32, 64), [RED, RED, BLUE]), (180, (64, 32), [BLUE, RED, BLUE]), (270, (32, 64), [BLUE, BLUE, RED])]
    {
        let (found, seen) = corners(&turned(&path, degrees));
        assert_eq!(found, (size.0, size.1, degrees as u16));
        for (seen, colour) in seen.into_iter().zip(colours) {
            assert_near(seen, colour, 8);
        }
    }
    let message = bench.inspect_video(&turned(&path, 45)).unwrap_err().to_string();
    assert_eq!(message, "the video has rotation -45 degrees, which must be a multiple of 90 degrees");
}

#[test]
fn pixels_become_square_before_the_turn() {
    let bench = Bench::new();
    let path = bench.make(&format!("-f lavfi -i {HALVES},setsar=4/3 -pix_fmt yuv420p -crf 8 -f mp4"), "wide");
    let (facts, mut reader) = bench.frames(&path).unwrap();
    assert_eq!((facts.width, facts.height), (85, 32));
    let frame = reader.next_frame(&NEVER).unwrap().unwrap();
    assert_near(pixel(&frame.rgb, 85, 36, 16), RED, 8);
    assert_near(pixel(&frame.rgb, 85, 49, 16), BLUE, 8);
    let facts = bench.inspect_video(&turned(&path, 90)).unwrap();
    assert_eq!((facts.width, facts.height), (32, 85));
}

#[test]
fn odd_sides_are_kept() {
    let bench = Bench::new();
    let path =
        bench.make("-f lavfi -i color=0xC8283C:s=63x47:r=10:d=0.3,format=rgb24 -pix_fmt yuv444p -crf 8 -f mp4", "odd");
    let (facts, mut reader) = bench.frames(&path).unwrap();
    assert_eq!((facts.width, facts.height), (63, 47));
    let frames = all(&mut reader);
    assert_eq!((frames.len(), frames[0].rgb.len()), (3, 3 * 63 * 47));
    assert_near(pixel(&frames[2].rgb, 63, 62, 46), RED, 6);
}

#[test]
fn colours_follow_the_matrix_that_the_stream_names() {
    let bench = Bench::new();
    for (space, tag) in [("bt709", "bt709"), ("smpte170m", "smpte170m")] {
        let source = format!(
            "-f lavfi -i color=0xC8283C:s=64x32:r=10:d=0.2,format=rgb24,scale=out_color_matrix={space},format=yuv420p"
        );
        let path = bench.make(&format!("{source} -colorspace {tag} -color_range tv -crf 4 -f mp4"), "colour");
        let (_, mut reader) = bench.frames(&path).unwrap();
        assert_near(pixel(&reader.next_frame(&NEVER).unwrap().unwrap().rgb, 64, 30, 20), RED, 4);
    }
}

#[test]
fn the_consumer_may_stop_early() {
    let bench = Bench::new();
    let path = bench.make("-f lavfi -i testsrc=s=640x480:r=30:d=10 -pix_fmt yuv420p -preset ultrafast -f mp4", "long");
    let (_, mut reader) = bench.frames(&path).unwrap();
    assert!(reader.next_frame(&NEVER).unwrap().is_some());
    drop(reader);
    let (_, mut reader) = bench.frames(&path).unwrap();
    reader.next_frame(&NEVER).unwrap();
    let aborted = AtomicBool::new(true);
    assert!(matches!(reader.next_frame(&aborted), Err(Error::Aborted)));

    let path =
        bench.make(&format!("-f lavfi -i sine=d=1 -f lavfi -i {} -f mp4", STAIRS.replace("RATE", "10")), "short");
    let facts = bench.inspect_video(&path).unwrap();
    let longest = VIDEO_LIMITS.longest;
    let inspected = video::inspect(&bench.ffmpeg, &path, &NO_CLAIM, &VIDEO_LIMITS, &aborted);
    assert!(matches!(inspected, Err(Error::Aborted)), "{inspected:?}");
    let decoded = decode_soundtrack(&bench.ffmpeg, &path, &facts, longest, &aborted);
    assert!(matches!(decoded, Err(Error::Aborted)), "{decoded:?}");
    let decoded = audio::decode(&bench.ffmpeg, &path, &facts.sound.unwrap(), longest, &aborted);
    assert!(matches!(decoded, Err(Error::Aborted)), "{decoded:?}");
}

#[test]
fn soundtracks_are_described_and_decoded() {
    let bench = Bench::new();
    let tone = "aevalsrc=0.5*sin(2*PI*440*t):s=44100:d=1";
    let picture = STAIRS.replace("RATE", "10");
    let video = format!("-f lavfi -i {picture} -f lavfi -i {tone}");
    for (arguments, codec, channels) in [
        ("-c:a aac -ac 1", AudioCodec::Aac, 1),
        ("-c:a libmp3lame -ac 2", AudioCodec::Mp3, 2),
        ("-c:a aac -b:a 384k -ac 6", AudioCodec::Aac, 6),
    ] {
        let path = bench.make(&format!("{video} {arguments} -c:v libx264 -f mp4"), "sound");
        let facts = bench.inspect_video(&path).unwrap();
        let sound = facts.sound.clone().unwrap();
        assert_eq!((sound.codec, sound.sample_rate, sound.channels), (codec, 44_100, channels));
        let decoded = decode_soundtrack(&bench.ffmpeg, &path, &facts, VIDEO_LIMITS.longest, &NEVER).unwrap().unwrap();
        assert_eq!((decoded.sample_rate, decoded.channels.len()), (44_100, channels.min(2) as usize));
        let samples = decoded.channels[0].len();
        assert!((44_000..=46_400).contains(&samples), "{samples}");
    }
    let silent = bench.make(&format!("-f lavfi -i {picture} -f mp4"), "silent");
    let facts = bench.inspect_video(&silent).unwrap();
    assert!(decode_soundtrack(&bench.ffmpeg, &silent, &facts, VIDEO_LIMITS.longest, &NEVER).unwrap().is_none());
}

#[test]
fn a_soundtrack_that_starts_later_begins_with_silence() {
    let bench = Bench::new();
    let picture = STAIRS.replace("RATE", "10");
    let tone = "aevalsrc=0.5*sin(2*PI*440*t):s=32000:d=0.5";
    let arguments =
        format!("-f lavfi -i {picture} -itsoffset 0.25 -f lavfi -i {tone} -c:v libx264 -bf 0 -c:a aac -f mp4");
    let path = bench.make(&arguments, "late");
    let facts = bench.inspect_video(&path).unwrap();
    let sound = decode_soundtrack(&bench.ffmpeg, &path, &facts, VIDEO_LIMITS.longest, &NEVER).unwrap().unwrap();
    let first = sound.channels[0].iter().position(|sample| sample.abs() > 0.1).unwrap();
    assert!(first.abs_diff(8000) < 100, "{first}");
    // What comes after the longest is cut, and a sound that would only begin there is none.
    let longest = Duration::from_millis(600);
    let cut = decode_soundtrack(&bench.ffmpeg, &path, &facts, longest, &NEVER).unwrap().unwrap();
    assert_eq!(cut.channels, [&sound.channels[0][..19_200]]);
}

#[test]
fn a_soundtrack_that_ends_before_the_first_frame_is_none() {
    let bench = Bench::new();
    let picture = STAIRS.replace("RATE", "10");
    for (start, kept) in [(0.3, Some(6400)), (1.0, None)] {
        let tone = "aevalsrc=0.5*sin(2*PI*440*t):s=32000:d=0.5";
        let arguments = format!(
            "-itsoffset {start} -f lavfi -i {picture} -f lavfi -i {tone} -fps_mode passthrough -c:v libx264 -bf 0 -c:a aac -f mp4"
        );
        let path = bench.make(&arguments, "early");
        let facts = bench.inspect_video(&path).unwrap();
        assert!(facts.sound.is_some());
        let sound = decode_soundtrack(&bench.ffmpeg, &path, &facts, VIDEO_LIMITS.longest, &NEVER).unwrap();
        let samples = sound.map(|sound| sound.channels[0].len());
        // An encoder fills its last block of 1024.
        let near = samples.zip(kept).is_some_and(|(samples, kept)| (kept..kept + 1024).contains(&samples));
        assert!(near || samples == kept, "{start}: {samples:?}");
    }
}

#[test]
fn claims_that_contradict_the_content_are_refused() {
    let bench = Bench::new();
    let path = bench.make(&format!("-f lavfi -i {} -f mp4", STAIRS.replace("RATE", "10")), "clip.avi");
    let claim = |content_type, file_name| {
        video::inspect(&bench.ffmpeg, &path, &Claim { content_type, file_name }, &VIDEO_LIMITS, &NEVER)
    };
    assert_eq!(claim(Some("video/quicktime"), Some("clip.mov")).unwrap().format, Format::Mp4);
    let message = claim(None, Some("clip.avi")).unwrap_err().to_string();
    assert_eq!(message, "the file name says \".avi\", and the content is MP4");
    let message = claim(Some("image/png"), None).unwrap_err().to_string();
    assert_eq!(message, "the content type says \"image/png\", and the content is MP4");
}

#[test]
fn codecs_and_containers_that_are_not_accepted_are_named() {
    let bench = Bench::new();
    let picture = STAIRS.replace("RATE", "10");
    let refused = |arguments: &str| bench.inspect_video(&bench.make(arguments, "video")).unwrap_err().to_string();
    let message = refused(&format!("-f lavfi -i {picture} -c:v libvpx-vp9 -f mp4"));
    assert_eq!(message, "the video is coded as \"vp9\", and must be one of h264 and hevc");
    let tone = "aevalsrc=0.5*sin(2*PI*440*t):s=48000:d=1";
    let message = refused(&format!("-f lavfi -i {picture} -f lavfi -i {tone} -c:v libx264 -c:a libopus -f mp4"));
    assert_eq!(message, "the sound is coded as \"opus\", and must be one of aac and mp3");
    let message = refused(&format!("-f lavfi -i {picture} -c:v libx264 -f matroska"));
    assert_eq!(message, "the file is Matroska or WebM, and the video must be one of MP4 and MOV");
    let message = refused(&format!("-f lavfi -i {tone} -c:a aac -f mp4"));
    assert_eq!(message, "the file holds no video");
}

#[test]
fn size_and_length_are_bounded() {
    let bench = Bench::new();
    let path = bench.make("-f lavfi -i color=s=2050x16:r=10:d=0.2 -pix_fmt yuv420p -f mp4", "wide");
    let message = bench.inspect_video(&path).unwrap_err().to_string();
    let limits = "at most 2048 a side and 4194304 in all are accepted";
    assert_eq!(message, format!("the video is too large: 2050x16 pixels, and {limits}"));

    let path = bench.make(&format!("-f lavfi -i {} -f mp4", STAIRS.replace("RATE", "10")), "second");
    let short = VideoLimits { longest: Duration::from_millis(500), ..VIDEO_LIMITS };
    let message = video::inspect(&bench.ffmpeg, &path, &NO_CLAIM, &short, &NEVER).unwrap_err().to_string();
    assert_eq!(message, "the video is longer than 0.5 seconds");
    // A file that says less than it holds is found out while it is read.
    let facts = bench.inspect_video(&path).unwrap();
    let mut reader = FrameReader::start(&bench.ffmpeg, &path, &facts, &short).unwrap();
    let error = loop {
        match reader.next_frame(&NEVER) {
            Ok(frame) => assert!(frame.is_some(), "the limit is not kept"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::LongerThan { what: Kind::Video, .. }), "{error:?}");
    assert!(reader.next_frame(&NEVER).unwrap().is_none());
    let small = VideoLimits { max_file_bytes: 100, ..VIDEO_LIMITS };
    let error = video::inspect(&bench.ffmpeg, &path, &NO_CLAIM, &small, &NEVER).unwrap_err();
    assert!(matches!(error, Error::TooManyBytes { limit_bytes: 100, .. }), "{error:?}");
}
