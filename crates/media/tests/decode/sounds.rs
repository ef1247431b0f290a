use std::time::Duration;

use clapboard_media::decode::audio::{self, AudioCodec, AudioLimits};
use clapboard_media::decode::{Claim, Error, Format};

use crate::bench::{AUDIO_LIMITS, Bench, NEVER, NO_CLAIM};

/// Half a second of 440 Hz at half of full scale.
const TONE: &str = "-f lavfi -i aevalsrc=0.5*sin(2*PI*440*t):s=32000:d=0.5";

fn tone(n: usize) -> f32 {
    (0.5 * (2.0 * std::f64::consts::PI * 440.0 * n as f64 / 32_000.0).sin()) as f32
}

#[test]
fn every_depth_of_wav_is_exact_to_its_step() {
    let bench = Bench::new();
    for (codec, step) in [
        ("pcm_u8", 1.0 / 128.0),
        ("pcm_s16le", 1.0 / 32_768.0),
        ("pcm_s24le", 1e-6),
        ("pcm_s32le", 1e-6),
        ("pcm_f32le", 1e-6),
        ("pcm_f64le", 1e-6),
    ] {
        let path = bench.make(&format!("{TONE} -c:a {codec} -f wav"), "tone");
        let (facts, sound) = bench.sound(&path).unwrap();
        assert_eq!((facts.format, facts.codec), (Format::Wav, AudioCodec::Pcm));
        assert_eq!((facts.sample_rate, facts.channels), (32_000, 1));
        assert_eq!(facts.duration, Some(Duration::from_millis(500)));
        assert_eq!((sound.sample_rate, sound.channels.len(), sound.channels[0].len()), (32_000, 1, 16_000));
        for (n, sample) in sound.channels[0].iter().enumerate() {
            assert!((sample - tone(n)).abs() <= 1.01 * step, "{codec}: sample {n} is {sample}, not {}", tone(n));
        }
    }
}

/// A WAV file of 32-bit floats.
fn floats(sample_rate: u32, channels: u16, samples: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let frame_bytes = 4 * channels;
    let format = [
        &3u16.to_le_bytes()[..],
        &channels.to_le_bytes(),
        &sample_rate.to_le_bytes(),
        &sample_rate.wrapping_mul(u32::from(frame_bytes)).to_le_bytes(),
        &frame_bytes.to_le_bytes(),
        &32u16.to_le_bytes(),
    ]
    .concat();
    let size = (28 + 8 + data.len() as u32).to_le_bytes();
    let length = (data.len() as u32).to_le_bytes();
    [b"RIFF", &size[..], b"WAVEfmt \x10\0\0\0", &format, b"data", &length, &data].concat()
}

#[test]
fn floats_are_kept_as_they_are_and_must_be_finite() {
    let bench = Bench::new();
    let path = bench.write("loud", floats(44_100, 2, &[0.25, -1.5, 1.0, 0.0]));
    let (_, sound) = bench.sound(&path).unwrap();
    assert_eq!(sound.channels, [vec![0.25, 1.0], vec![-1.5, 0.0]]);
    for broken in [f32::NAN, f32::INFINITY] {
        let error = bench.sound(&bench.write("broken", floats(44_100, 1, &[0.0, broken]))).unwrap_err();
        assert_eq!(error.to_string(), "the sound has a sample that is no finite number");
    }
    let loudest = bench.write("loudest", floats(44_100, 1, &[audio::MAX_SAMPLE, -audio::MAX_SAMPLE]));
    assert_eq!(bench.sound(&loudest).unwrap().1.channels, [[audio::MAX_SAMPLE, -audio::MAX_SAMPLE]]);
    // Samples that nobody scaled, and ones that are no sound at all.
    for (absurd, said) in [(-32_768.0, "-32768"), (1e30, "1000000000000000000000000000000")] {
        let error = bench.sound(&bench.write("absurd", floats(44_100, 1, &[0.0, absurd]))).unwrap_err();
        assert_eq!(error.to_string(), format!("the sound has a sample of {said}, which must be between -16 and 16"));
    }
}

#[test]
fn headers_that_make_no_sense_are_named() {
    let bench = Bench::new();
    let refused = |rate, channels| {
        let path = bench.write("odd", floats(rate, channels, &[0.0; 180]));
        bench.inspect_sound(&path).unwrap_err().to_string()
    };
    let message = "the sound has a sample rate of 4000000, which must be between 8000 and 192000 Hz";
    assert_eq!(refused(4_000_000, 1), message);
    assert_eq!(refused(44_100, 9), "the sound has a channel count of 9, which must be between 1 and 8");
    let empty = bench.sound(&bench.write("empty", floats(44_100, 1, &[]))).unwrap_err();
    assert_eq!(empty.to_string(), "the sound is empty: it holds no sample");
    let law = bench.make(&format!("{TONE} -c:a pcm_mulaw -f wav"), "mulaw");
    let message = bench.inspect_sound(&law).unwrap_err().to_string();
    assert!(message.starts_with("the sound is coded as \"pcm_mulaw\", and must be one of pcm"), "{message}");
}

/// How alike a decoded sound and the tone are, at the best shift: 1 when equal up to scale.
fn likeness(samples: &[f32]) -> f64 {
    let angle = |n: usize| 2.0 * std::f64::consts::PI * 440.0 * n as f64 / 32_000.0;
    let (mut sine, mut cosine, mut power) = (0.0, 0.0, 0.0);
    for (n, sample) in samples.iter().map(|sample| f64::from(*sample)).enumerate() {
        sine += sample * angle(n).sin();
        cosine += sample * angle(n).cos();
        power += sample * sample;
    }
    ((sine * sine + cosine * cosine) / (power * samples.len() as f64 / 2.0)).sqrt()
}

#[test]
fn mp3_with_tags_and_aac_in_mp4_keep_rate_and_length() {
    let bench = Bench::new();
    let cover = bench.make("-f lavfi -i testsrc=s=64x64 -frames:v 1 -f image2pipe -c:v png", "cover.png");
    let tags = "-metadata title=Tone -metadata comment=none -id3v2_version 3 -write_id3v1 1";
    let mp3 = format!("{TONE} -i {} -map 0 -map 1 -c:v copy -c:a libmp3lame -b:a 128k {tags} -f mp3", cover.display());
    for (format, codec, path) in [
        (Format::Mp3, AudioCodec::Mp3, bench.make(&mp3, "tagged")),
        (
            Format::Mp3,
            AudioCodec::Mp3,
            bench.make(&format!("{TONE} -c:a libmp3lame -write_xing 0 -id3v2_version 0 -f mp3"), "bare"),
        ),
        (Format::Mp4, AudioCodec::Aac, bench.make(&format!("{TONE} -c:a aac -f ipod"), "tone.m4a")),
    ] {
        let (facts, sound) = bench.sound(&path).unwrap();
        assert_eq!((facts.format, facts.codec, facts.sample_rate, facts.channels), (format, codec, 32_000, 1));
        assert!(facts.duration.unwrap().as_secs_f64() > 0.45, "{facts:?}");
        let samples = sound.channels[0].len();
        assert!((16_000..=19_500).contains(&samples), "{}: {samples}", path.display());
        assert!(likeness(&sound.channels[0][2000..14_000]) > 0.99, "{}", path.display());
    }
}

#[test]
fn more_than_two_channels_are_mixed_by_the_standard_matrix() {
    let bench = Bench::new();
    // FL, FR, FC, LFE, BL, BR.
    let source = "-f lavfi -i aevalsrc=0.5|0|0.25|0.9|0|0.5:c=5.1:s=48000:d=0.1";
    let path = bench.make(&format!("{source} -c:a pcm_f32le -f wav"), "surround");
    let (facts, sound) = bench.sound(&path).unwrap();
    assert_eq!((facts.channels, sound.channels.len()), (6, 2));
    let (half, whole) = (0.5f32.sqrt(), 1.0 + 2.0 * 0.5f32.sqrt());
    for (channel, expected) in sound.channels.iter().zip([0.5 + 0.25 * half, 0.25 * half + 0.5 * half]) {
        assert!(channel.iter().all(|sample| (sample - expected / whole).abs() < 1e-4), "{}", channel[0]);
    }
    let stereo = bench.make("-f lavfi -i aevalsrc=0.5|-0.25:s=48000:d=0.1 -c:a pcm_s24le -f wav", "stereo");
    let (_, sound) = bench.sound(&stereo).unwrap();
    assert!((sound.channels[0][9] - 0.5).abs() < 1e-6 && (sound.channels[1][9] + 0.25).abs() < 1e-6);
}

#[test]
fn length_and_size_are_bounded() {
    let bench = Bench::new();
    let path = bench.make(&format!("{TONE} -f wav"), "tone");
    let limits = AudioLimits { longest: Duration::from_millis(400), ..AUDIO_LIMITS };
    let error = audio::inspect(&bench.ffmpeg, &path, &NO_CLAIM, &limits, &NEVER).unwrap_err();
    assert_eq!(error.to_string(), "the sound is longer than 0.4 seconds");
    // Exactly as long as is accepted, and a sample longer than that.
    let facts = bench.inspect_sound(&path).unwrap();
    assert!(audio::decode(&bench.ffmpeg, &path, &facts, Duration::from_millis(500), &NEVER).is_ok());
    let error = audio::decode(&bench.ffmpeg, &path, &facts, Duration::from_nanos(499_960_000), &NEVER).unwrap_err();
    assert!(matches!(error, Error::LongerThan { .. }), "{error:?}");
    let limits = AudioLimits { max_file_bytes: 1000, ..AUDIO_LIMITS };
    let error = audio::inspect(&bench.ffmpeg, &path, &NO_CLAIM, &limits, &NEVER).unwrap_err();
    assert!(matches!(error, Error::TooManyBytes { .. }), "{error:?}");
}

#[test]
fn a_file_cut_short_is_refused() {
    let bench = Bench::new();
    let files = [
        bench.make(&format!("{TONE} -f wav"), "tone.wav"),
        bench.make(&format!("{TONE} -c:a libmp3lame -f mp3"), "tone.mp3"),
        bench.make(&format!("{TONE} -c:a aac -movflags faststart -f mp4"), "tone.mp4"),
    ];
    for path in files {
        let whole = std::fs::read(&path).unwrap();
        for percent in [10, 50, 90] {
            let error = bench.sound(&bench.write("cut", &whole[..whole.len() * percent / 100])).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{} at {percent} %: {error:?}", path.display());
        }
    }
}

#[test]
fn a_video_is_no_sound() {
    let bench = Bench::new();
    let path = bench.make(&format!("{TONE} -f lavfi -i testsrc=s=64x64:d=0.5 -f mp4"), "video");
    let message = bench.inspect_sound(&path).unwrap_err().to_string();
    assert_eq!(message, "the file is a video, and the sound must be one of WAV, MP3 and AAC in MP4");
}

#[test]
fn claims_that_contradict_the_content_are_refused() {
    let bench = Bench::new();
    let path = bench.make(&format!("{TONE} -f wav"), "tone.mp3");
    let claim = |content_type, file_name| {
        audio::inspect(&bench.ffmpeg, &path, &Claim { content_type, file_name }, &AUDIO_LIMITS, &NEVER)
    };
    assert_eq!(claim(Some("audio/x-wav"), Some("tone.wav")).unwrap().format, Format::Wav);
    let message = claim(None, Some("tone.mp3")).unwrap_err().to_string();
    assert_eq!(message, "the file name says \".mp3\", and the content is WAV");
    let message = claim(Some("audio/mpeg"), None).unwrap_err().to_string();
    assert_eq!(message, "the content type says \"audio/mpeg\", and the content is WAV");
}
