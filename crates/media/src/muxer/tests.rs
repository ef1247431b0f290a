use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use tempfile::TempDir;

use super::*;
use crate::{AUDIO_SAMPLE_RATE, VideoQuality, probe};

const GENEROUS: Duration = Duration::from_secs(120);

/// Nobody gives the video up.
static NEVER: AtomicBool = AtomicBool::new(false);

fn format(width: u32, height: u32, num_frames: u32, quality: VideoQuality) -> MuxFormat {
    MuxFormat { width, height, num_frames, quality }
}

/// Slow waves of colour that move: what a video model's output is at its smoothest.
fn smooth_frame(format: &MuxFormat, frame: u32) -> Vec<u8> {
    let wave = |phase: u32| (127.5 + 90.0 * (f64::from(phase) / 60.0).sin()).round() as u8;
    let mut pixels = Vec::with_capacity(format.frame_bytes());
    for y in 0..format.height {
        for x in 0..format.width {
            pixels.extend([wave(x + 2 * frame), wave(y + frame + 50), wave(x + y + 3 * frame + 100)]);
        }
    }
    pixels
}

/// A different tone on each side, `count` samples long.
fn tones(count: u64) -> Vec<f32> {
    (0..count).flat_map(|i| [0.05, 0.07].map(|step| 0.5 * (i as f32 * step).sin())).collect()
}

/// Folders for one muxer, and its programs.
struct Bench {
    folder: TempDir,
    ffmpeg: Ffmpeg,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("scratch")).unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        Self { folder, ffmpeg: Ffmpeg::find().unwrap() }
    }

    /// A bench whose ffmpeg passes the checks, and runs `body` in place of an encode.
    fn with_fake(body: &str) -> Self {
        let mut bench = Self::new();
        let path = bench.folder.path().join("ffmpeg");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*-version*) echo 'ffmpeg version 7.1 Copyright';;\n\
             *-encoders*) echo ' V..... libx264 x'; echo ' A..... aac x';;\n*)\n{body}\n;;\nesac\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        bench.ffmpeg = Ffmpeg::at(&path, "ffprobe").unwrap();
        bench
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out/video.mp4")
    }

    fn start(&self, format: MuxFormat) -> Muxer {
        Muxer::start(&self.ffmpeg, format, &self.folder.path().join("scratch"), &self.output()).unwrap()
    }

    /// Every file in the scratch and output folders.
    fn files(&self) -> Vec<PathBuf> {
        let list = |name| fs::read_dir(self.folder.path().join(name)).unwrap().map(|entry| entry.unwrap().path());
        list("scratch").chain(list("out")).collect()
    }

    /// Makes a whole video of smooth frames, `per_chunk` at a time, and the sound of the model's length.
    fn make(&self, format: MuxFormat, per_chunk: u32) -> MuxReport {
        let mut muxer = self.start(format);
        let latents = (f64::from(format.num_frames) / 24.0 * 40.0).round_ties_even() as u64;
        for block in tones(800 * latents).chunks(10_000) {
            muxer.samples(block).unwrap();
        }
        for first in (0..format.num_frames).step_by(per_chunk as usize) {
            let last = (first + per_chunk).min(format.num_frames);
            let chunk = (first..last).flat_map(|frame| smooth_frame(&format, frame)).collect();
            offer_all(&mut muxer, chunk).unwrap();
        }
        muxer.finish(GENEROUS, &NEVER).unwrap()
    }

    /// Runs the real ffmpeg on the made file and gives its standard output; it must succeed in silence.
    fn decode(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-i"]).arg(self.output()).args(arguments);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{stderr}");
        output.stdout
    }
}

fn offer_all(muxer: &mut Muxer, mut chunk: Vec<u8>) -> Result<(), Error> {
    let deadline = Instant::now() + GENEROUS;
    while let Some(refused) = muxer.offer(chunk, Duration::from_millis(50))? {
        assert!(Instant::now() < deadline, "the encoder takes nothing");
        chunk = refused;
    }
    Ok(())
}

fn psnr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 / (squares / a.len() as f64)).log10()
}

/// `(kind, offset)` of the boxes at the top of an MP4.
fn boxes(file: &[u8]) -> Vec<(String, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 8 <= file.len() {
        let size = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        found.push((String::from_utf8_lossy(&file[at + 4..at + 8]).into_owned(), at));
        assert!(size >= 8, "box sizes are plain in a small file");
        at += size;
    }
    found
}

#[test]
fn the_file_is_what_it_claims_to_be() {
    let bench = Bench::new();
    let format = format(96, 64, 124, VideoQuality::Default);
    let report = bench.make(format, 17);
    let info = probe(&bench.ffmpeg, &bench.output()).unwrap();

    assert!(info.format.contains("mp4"), "{info:?}");
    let video = info.video.unwrap();
    assert_eq!((video.codec.as_str(), video.width, video.height), ("h264", 96, 64));
    assert_eq!(video.fps.unwrap().to_string(), "24/1");
    assert_eq!(video.frames, Some(124));
    assert_eq!(video.pix_fmt.as_deref(), Some("yuv420p"));
    assert_eq!(video.color_range.as_deref(), Some("tv"));
    assert_eq!(video.color_space.as_deref(), Some("bt709"));
    assert_eq!(video.color_primaries.as_deref(), Some("bt709"));
    assert_eq!(video.color_transfer.as_deref(), Some("bt709"));
    assert_eq!(video.chroma_location.as_deref(), Some("center"));
    let audio = info.audio.unwrap();
    assert_eq!((audio.codec.as_str(), audio.sample_rate, audio.channels), ("aac", 32_000, 2));

    // Both tracks are cut by exact edit lists: the sound differs by the rounding of its last sample.
    let exact = Duration::from_nanos(124 * 1_000_000_000 / 24);
    assert_eq!(report.duration, exact);
    let sample = Duration::from_secs(1) / AUDIO_SAMPLE_RATE;
    for duration in [info.duration, video.duration, audio.duration] {
        assert!(duration.unwrap().abs_diff(exact) <= sample, "{duration:?}");
    }

    let file = fs::read(bench.output()).unwrap();
    assert_eq!(report.size_bytes, file.len() as u64);
    let at = |kind| boxes(&file).iter().position(|(found, _)| found == kind).unwrap();
    assert!(at("moov") < at("mdat"));
    // No library names itself, and the header holds no date: version, flags, then seconds since 1904.
    assert!(!file.windows(4).any(|bytes| bytes == b"Lavf"));
    let header = file.windows(4).position(|bytes| bytes == b"mvhd").unwrap();
    assert_eq!(file[header + 4..header + 16], [0; 12]);
    assert_eq!(bench.files(), [bench.output()]);

    // A decode of everything is clean, and has every frame and the sound to within the last AAC frame.
    bench.decode(&["-f", "null", "-"]);
    let frames = bench.decode(&["-map", "0:v", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]);
    assert_eq!(frames.len(), 124 * format.frame_bytes());
    let samples = bench.decode(&["-map", "0:a", "-f", "f32le", "-"]).len() as u64 / 8;
    assert!((165_333..165_333 + 1024).contains(&samples), "{samples}");
}

#[test]
fn every_quality_keeps_smooth_frames_above_40_db() {
    let mut sizes = Vec::new();
    for quality in [VideoQuality::Default, VideoQuality::High, VideoQuality::Lossless] {
        let bench = Bench::new();
        let format = format(192, 128, 22, quality);
        sizes.push(bench.make(format, 5).size_bytes);
        let sent: Vec<u8> = (0..22).flat_map(|frame| smooth_frame(&format, frame)).collect();
        // The plain conversion that any reader makes, by the file's own tags.
        let got = bench.decode(&["-map", "0:v", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]);
        let db = psnr(&sent, &got);
        assert!(db >= 40.0, "{quality:?}: {db:.2} dB");
    }
    assert!(sizes.is_sorted(), "{sizes:?}");
}

#[test]
fn lossless_keeps_the_converted_picture_bit_for_bit() {
    let bench = Bench::new();
    let format = format(96, 64, 22, VideoQuality::Lossless);
    bench.make(format, 22);
    let raw = bench.folder.path().join("frames.rgb");
    let frames: Vec<u8> = (0..22).flat_map(|frame| smooth_frame(&format, frame)).collect();
    fs::write(&raw, frames).unwrap();
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "rawvideo", "-pixel_format", "rgb24"]);
    command.args(["-video_size", "96x64", "-i"]).arg(&raw);
    command.args(["-vf", crate::arguments::FILTER, "-f", "rawvideo", "-"]);
    let converted = command.output().unwrap().stdout;
    assert_eq!(converted.len(), 22 * 96 * 64 * 3 / 2);
    assert!(converted == bench.decode(&["-map", "0:v", "-f", "rawvideo", "-"]));
}

#[test]
fn colours_are_those_of_bt709_in_limited_range() {
    // Y, Cb, Cr by the matrix of BT.709; red would be 82, 90, 240 by BT.601 and 54, 99, 255 in full range.
    for (rgb, yuv) in [
        ([255, 0, 0], [63, 102, 240]),
        ([0, 255, 0], [173, 42, 26]),
        ([0, 0, 255], [32, 240, 118]),
        ([255, 255, 255], [235, 128, 128]),
        ([0, 0, 0], [16, 128, 128]),
    ] {
        let bench = Bench::new();
        let mut muxer = bench.start(format(32, 32, 1, VideoQuality::Lossless));
        muxer.samples(&tones(1600)).unwrap();
        offer_all(&mut muxer, rgb.repeat(32 * 32)).unwrap();
        muxer.finish(GENEROUS, &NEVER).unwrap();
        let planes = bench.decode(&["-map", "0:v", "-f", "rawvideo", "-"]);
        let (luma, chroma) = planes.split_at(32 * 32);
        let (blue, red) = chroma.split_at(16 * 16);
        for (plane, expected) in [luma, blue, red].into_iter().zip(yuv) {
            assert!(plane.iter().all(|&got| got.abs_diff(expected) <= 1), "{rgb:?}: {} for {expected}", plane[0]);
        }
    }
}

#[test]
fn small_canvases_and_single_frames_work_at_every_quality() {
    for quality in [VideoQuality::Default, VideoQuality::High, VideoQuality::Lossless] {
        for (width, height, num_frames) in [(32, 32, 22), (64, 32, 5), (32, 64, 1)] {
            let bench = Bench::new();
            let format = format(width, height, num_frames, quality);
            let mut muxer = bench.start(format);
            muxer.samples(&tones(800 * 40)).unwrap();
            for frame in 0..num_frames {
                offer_all(&mut muxer, smooth_frame(&format, frame)).unwrap();
            }
            muxer.finish(GENEROUS, &NEVER).unwrap();
            let video = probe(&bench.ffmpeg, &bench.output()).unwrap().video.unwrap();
            assert_eq!((video.width, video.height, video.frames), (width, height, Some(num_frames.into())));
            bench.decode(&["-f", "null", "-"]);
        }
    }
}

#[test]
fn equal_input_gives_equal_bytes_however_it_is_chunked() {
    let (one, other) = (Bench::new(), Bench::new());
    let format = format(96, 64, 39, VideoQuality::Default);
    one.make(format, 17);
    other.make(format, 2);
    assert!(fs::read(one.output()).unwrap() == fs::read(other.output()).unwrap());
}

#[test]
fn sound_that_ends_half_a_latent_early_is_padded() {
    // 107 frames last 142,667 samples, and 178 audio latents hold 142,400.
    let bench = Bench::new();
    bench.make(format(32, 32, 107, VideoQuality::Default), 17);
    let audio = probe(&bench.ffmpeg, &bench.output()).unwrap().audio.unwrap();
    assert!(audio.duration.unwrap().as_secs_f64() * 32_000.0 > 142_666.0, "{audio:?}");
}

#[test]
fn an_encoder_that_never_reads_gives_chunks_back_and_is_killed_on_drop() {
    let bench = Bench::with_fake("cd \"$(dirname \"$0\")\"; echo $$ > pid.new; mv pid.new pid; exec sleep 1000");
    let format = format(640, 640, 124, VideoQuality::Default);
    let mut muxer = bench.start(format);
    muxer.samples(&tones(165_600)).unwrap();
    let chunk = vec![7; format.frame_bytes()];
    // One chunk is in the pipe's writer and one in the slot; the third must come back, unchanged.
    let deadline = Instant::now() + GENEROUS;
    let mut accepted = 0;
    let refused = loop {
        match muxer.offer(chunk.clone(), Duration::from_millis(20)).unwrap() {
            Some(refused) if bench.folder.path().join("pid").exists() => break refused,
            Some(_) => assert!(Instant::now() < deadline, "the encoder never starts"),
            None => accepted += 1,
        }
        assert!(accepted <= 2, "back-pressure never came");
    };
    assert!(refused == chunk);
    let pid = fs::read_to_string(bench.folder.path().join("pid")).unwrap();
    assert_eq!(bench.files().len(), 2, "{:?}", bench.files());
    drop(muxer);
    // A zombie would still have its folder.
    assert!(!PathBuf::from(format!("/proc/{}", pid.trim())).exists());
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}

#[test]
fn an_encoder_that_stands_still_is_given_up() {
    let mut bench = Bench::with_fake("exec sleep 1000");
    bench.ffmpeg = bench.ffmpeg.with_stall_limit(Duration::from_millis(200));
    let format = format(640, 640, 124, VideoQuality::Default);
    let mut muxer = bench.start(format);
    muxer.samples(&tones(165_600)).unwrap();
    let mut chunk = vec![7; format.frame_bytes()];
    let error = loop {
        match muxer.offer(chunk, Duration::from_millis(20)) {
            Ok(Some(refused)) => chunk = refused,
            Ok(None) => chunk = vec![7; format.frame_bytes()],
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Stalled { .. }), "{error}");
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
    assert!(matches!(muxer.offer(vec![7; format.frame_bytes()], GENEROUS), Err(Error::Ended)));
}

#[test]
fn finishing_has_a_time_limit() {
    let bench = Bench::with_fake("cat > /dev/null; exec sleep 1000");
    let mut muxer = bench.start(format(32, 32, 1, VideoQuality::Default));
    muxer.samples(&tones(1600)).unwrap();
    offer_all(&mut muxer, vec![7; 32 * 32 * 3]).unwrap();
    let error = muxer.finish(Duration::from_millis(100), &NEVER).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}

#[test]
fn finishing_can_be_given_up() {
    let bench = Bench::with_fake("cat > /dev/null; exec sleep 1000");
    let mut muxer = bench.start(format(32, 32, 1, VideoQuality::Default));
    muxer.samples(&tones(1600)).unwrap();
    offer_all(&mut muxer, vec![7; 32 * 32 * 3]).unwrap();
    let aborted = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        let finishing = scope.spawn(|| muxer.finish(GENEROUS, &aborted).unwrap_err());
        aborted.store(true, Ordering::Relaxed);
        finishing.join().unwrap()
    });
    assert!(matches!(error, Error::Aborted), "{error}");
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}

#[test]
fn an_encoder_that_dies_midway_says_why_and_leaves_nothing() {
    let bench = Bench::with_fake("head -c 10000 > /dev/null; echo 'codec caught fire' >&2; exit 7");
    let format = format(640, 640, 124, VideoQuality::Default);
    let mut muxer = bench.start(format);
    muxer.samples(&tones(165_600)).unwrap();
    let mut offered = 0;
    let error = loop {
        match offer_all(&mut muxer, vec![7; format.frame_bytes()]) {
            Ok(()) => offered += 1,
            Err(error) => break error,
        }
        assert!(offered <= 3, "the death was never seen");
    };
    let Error::ProgramFailed { status, stderr, .. } = &error else { panic!("{error}") };
    assert_eq!((status.code(), stderr.as_str()), (Some(7), "codec caught fire"));
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}

#[test]
fn an_encoder_that_loses_frames_is_not_believed() {
    let bench = Bench::with_fake("cat > /dev/null; echo frame=4; echo progress=end");
    let mut muxer = bench.start(format(32, 32, 5, VideoQuality::Default));
    muxer.samples(&tones(8000)).unwrap();
    offer_all(&mut muxer, vec![7; 5 * 32 * 32 * 3]).unwrap();
    let message = muxer.finish(GENEROUS, &NEVER).unwrap_err().to_string();
    assert_eq!(message, "the video has 5 frames, and only 4 were encoded");
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}

#[test]
fn wrong_input_is_named_ends_the_muxer_and_leaves_nothing() {
    let bench = Bench::new();
    let format = format(32, 32, 24, VideoQuality::Default);
    let frame = || vec![0; format.frame_bytes()];
    let refuse = |feed: &dyn Fn(&mut Muxer) -> Result<(), Error>, message: &str| {
        let mut muxer = bench.start(format);
        assert_eq!(feed(&mut muxer).unwrap_err().to_string(), message);
        assert!(matches!(muxer.samples(&[0.0, 0.0]), Err(Error::Ended)));
        assert_eq!(bench.files(), Vec::<PathBuf>::new());
    };
    refuse(&|muxer| muxer.samples(&[0.0; 3]), "samples come in interleaved pairs, and a block of 3 values does not");
    refuse(&|muxer| muxer.samples(&[0.0, 0.0, 0.0, f32::NAN]), "sample 1 of channel 1 is NaN, which is not finite");
    let short = "the video needs 32000 samples per channel, and only 31000 came";
    refuse(&|muxer| muxer.samples(&tones(31_000)).and_then(|()| offer_all(muxer, frame())), short);
    refuse(
        &|muxer| muxer.samples(&tones(32_000)).and_then(|()| offer_all(muxer, vec![0; 100])),
        "a chunk of 100 bytes is not a whole number of frames of 3072 bytes",
    );
    let many = "the video has 24 frames, and 25 came";
    refuse(&|muxer| muxer.samples(&tones(32_000)).and_then(|()| offer_all(muxer, frame().repeat(25))), many);
    refuse(
        &|muxer| {
            muxer.samples(&tones(32_000))?;
            offer_all(muxer, frame())?;
            muxer.samples(&[0.0, 0.0])
        },
        "samples must come before the first frame",
    );
}

#[test]
fn finishing_without_all_frames_is_refused_and_leaves_the_old_file() {
    let bench = Bench::new();
    fs::write(bench.output(), "old").unwrap();
    let mut muxer = bench.start(format(32, 32, 24, VideoQuality::Default));
    muxer.samples(&tones(32_000)).unwrap();
    offer_all(&mut muxer, vec![0; 3072 * 23]).unwrap();
    let message = muxer.finish(GENEROUS, &NEVER).unwrap_err().to_string();
    assert_eq!(message, "the video has 24 frames, and only 23 were handed over");
    assert_eq!(bench.files(), [bench.output()]);
    assert_eq!(fs::read_to_string(bench.output()).unwrap(), "old");
}

#[test]
fn a_folder_that_is_not_there_is_named_at_the_start() {
    let bench = Bench::new();
    let output = bench.folder.path().join("nowhere/video.mp4");
    let format = format(32, 32, 24, VideoQuality::Default);
    let error = Muxer::start(&bench.ffmpeg, format, &bench.folder.path().join("scratch"), &output).unwrap_err();
    assert!(error.to_string().contains("could not create") && error.to_string().contains("nowhere"), "{error}");
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}
