use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use image::{ImageFormat, RgbImage};
use tempfile::TempDir;

use super::*;
use crate::{Error as ToolError, MuxFormat, Muxer, VideoQuality};

const GENEROUS: Duration = Duration::from_secs(120);

/// Nobody gives the pictures up.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A video whose frames have one colour each.
struct Video {
    folder: TempDir,
    path: PathBuf,
}

fn video(width: u32, height: u32, colours: &[[u8; 3]]) -> Video {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("video.mp4");
    let num_frames = u32::try_from(colours.len()).unwrap();
    let format = MuxFormat { width, height, num_frames, quality: VideoQuality::High };
    let mut muxer = Muxer::start(&Ffmpeg::find().unwrap(), format, folder.path(), &path).unwrap();
    muxer.samples(&vec![0.0; 2 * (32_000 * colours.len() / 24 + 2000)]).unwrap();
    for colour in colours {
        let mut offered = Some(colour.repeat((width * height) as usize));
        while let Some(frame) = offered {
            offered = muxer.offer(frame, GENEROUS).unwrap();
        }
    }
    muxer.finish(GENEROUS, &NEVER).unwrap();
    Video { folder, path }
}

/// Shades of grey, one for each frame, from black to white.
fn greys(count: u32) -> Vec<[u8; 3]> {
    (0..count).map(|index| [u8::try_from(255 * index / (count - 1).max(1)).unwrap(); 3]).collect()
}

impl Previews {
    fn thumbnail(&self) -> &[u8] {
        self.thumbnail.as_ref().unwrap()
    }

    fn spritesheet(&self) -> &[u8] {
        self.spritesheet.as_ref().unwrap()
    }
}

fn opened(file: &[u8], format: ImageFormat) -> RgbImage {
    assert_eq!(image::guess_format(file).unwrap(), format);
    image::load_from_memory_with_format(file, format).unwrap().into_rgb8()
}

/// Asserts that a pixel has a colour, but for what codecs lose.
fn assert_near(image: &RgbImage, x: u32, y: u32, colour: [u8; 3]) {
    let found = image.get_pixel(x, y).0;
    let apart = found.iter().zip(&colour).map(|(found, wanted)| found.abs_diff(*wanted)).max().unwrap();
    assert!(apart <= 8, "{found:?} at {x}, {y} in place of {colour:?}");
}

/// An ffmpeg that passes the checks, and runs `body` in place of any other work.
fn scripted(folder: &Path, body: &str) -> Ffmpeg {
    let path = folder.join("ffmpeg");
    fs::write(&path, format!("#!/bin/sh\ncase \"$*\" in\n*-version*) exec ffmpeg -version;;\n{body}\nesac\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Ffmpeg::at(&path, "ffprobe").unwrap()
}

#[test]
fn a_long_video_gives_its_middle_frame_and_twenty_five_from_all_of_it() {
    let video = video(640, 320, &greys(49));
    let made = make(&Ffmpeg::find().unwrap(), &video.path, &NEVER).unwrap();
    let thumbnail = opened(made.thumbnail(), ImageFormat::WebP);
    assert_eq!(thumbnail.dimensions(), (512, 256));
    assert_near(&thumbnail, 256, 128, [127; 3]);
    let sheet = opened(made.spritesheet(), ImageFormat::Jpeg);
    assert_eq!(sheet.dimensions(), (5 * 256, 5 * 128));
    for cell in 0..25 {
        let (column, row) = (cell % 5, cell / 5);
        // Every second frame of 49.
        assert_near(&sheet, 256 * column + 128, 128 * row + 64, greys(49)[2 * cell as usize]);
    }
    assert_eq!(fs::read_dir(video.folder.path()).unwrap().count(), 1, "only the video is there");
}

#[test]
fn five_frames_give_one_row_and_one_frame_gives_itself() {
    let ffmpeg = Ffmpeg::find().unwrap();
    let five = video(96, 64, &greys(5));
    let made = make(&ffmpeg, &five.path, &NEVER).unwrap();
    let sheet = opened(made.spritesheet(), ImageFormat::Jpeg);
    assert_eq!(sheet.dimensions(), (5 * 96, 64));
    for (cell, grey) in greys(5).into_iter().enumerate() {
        assert_near(&sheet, 96 * cell as u32 + 48, 32, grey);
    }
    assert_near(&opened(made.thumbnail(), ImageFormat::WebP), 48, 32, greys(5)[2]);

    let one = video(64, 64, &[[200; 3]]);
    let made = make(&ffmpeg, &one.path, &NEVER).unwrap();
    assert_eq!(opened(made.spritesheet(), ImageFormat::Jpeg).dimensions(), (64, 64));
    assert_near(&opened(made.thumbnail(), ImageFormat::WebP), 32, 32, [200; 3]);
}

#[test]
fn tall_and_wide_videos_keep_their_ratio_and_colours_stay_what_they_were() {
    let ffmpeg = Ffmpeg::find().unwrap();
    for (width, height, thumbnail, cell) in
        [(256, 1024, (128, 512), (64, 256)), (1024, 256, (512, 128), (256, 64)), (672, 384, (512, 293), (256, 146))]
    {
        let colour = [210, 60, 40];
        let video = video(width, height, &[colour; 6]);
        let made = make(&ffmpeg, &video.path, &NEVER).unwrap();
        let shown = opened(made.thumbnail(), ImageFormat::WebP);
        assert_eq!(shown.dimensions(), thumbnail);
        assert_near(&shown, thumbnail.0 / 2, thumbnail.1 / 2, colour);
        let sheet = opened(made.spritesheet(), ImageFormat::Jpeg);
        assert_eq!(sheet.dimensions(), (5 * cell.0, cell.1));
        assert_near(&sheet, cell.0 / 2, cell.1 / 2, colour);
    }
}

#[test]
fn an_ffmpeg_without_a_webp_encoder_gives_a_lossless_thumbnail() {
    let video = video(640, 320, &[[20, 90, 200]; 3]);
    let folder = tempfile::tempdir().unwrap();
    let ffmpeg = scripted(folder.path(), "*-encoders*) ffmpeg -encoders | grep -v webp;;\n*) exec ffmpeg \"$@\";;");
    assert!(!ffmpeg.writes_webp());
    let made = make(&ffmpeg, &video.path, &NEVER).unwrap();
    assert!(made.thumbnail().windows(4).any(|four| four == b"VP8L"), "it is lossless");
    let thumbnail = opened(made.thumbnail(), ImageFormat::WebP);
    assert_eq!(thumbnail.dimensions(), (512, 256));
    assert_near(&thumbnail, 256, 128, [20, 90, 200]);
}

#[test]
fn a_broken_file_is_an_error_that_says_what_is_wrong() {
    let ffmpeg = Ffmpeg::find().unwrap();
    let whole = video(96, 64, &greys(25));
    let bytes = fs::read(&whole.path).unwrap();
    let path = whole.folder.path().join("broken.mp4");
    fs::write(&path, b"no video at all").unwrap();
    let error = make(&ffmpeg, &path, &NEVER).unwrap_err();
    assert!(matches!(error, Error::Tool(ToolError::ProgramFailed { program: "ffprobe", .. })), "{error:?}");

    // The index stands at the beginning, so that a file which is cut short still tells of all its frames.
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = make(&ffmpeg, &path, &NEVER).and_then(|made| made.spritesheet).unwrap_err();
    assert!(matches!(error, Error::FramesMissing { .. } | Error::Tool(ToolError::ProgramFailed { .. })), "{error:?}");

    let sound = whole.folder.path().join("sound.mp4");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-f", "lavfi", "-i", "sine=duration=1", "-c:a", "aac"]).arg(&sound);
    assert!(command.status().unwrap().success());
    assert!(matches!(make(&ffmpeg, &sound, &NEVER).unwrap_err(), Error::NoVideo));
}

#[test]
fn what_is_wrong_with_one_picture_is_no_loss_of_the_other() {
    let video = video(96, 64, &greys(5));
    let folder = tempfile::tempdir().unwrap();
    // It has one frame less than the file says.
    let short = scripted(
        folder.path(),
        "*-encoders*) exec ffmpeg -encoders;;\n*rawvideo*) ffmpeg \"$@\" | head -c 73728;;\n*) exec ffmpeg \"$@\";;",
    );
    let made = make(&short, &video.path, &NEVER).unwrap();
    assert_near(&opened(made.thumbnail(), ImageFormat::WebP), 48, 32, greys(5)[2]);
    let error = made.spritesheet.unwrap_err();
    assert!(matches!(error, Error::FramesMissing { expected: 5, got: 4 }), "{error:?}");

    let body = "*-encoders*) exec ffmpeg -encoders;;\n*libwebp*) echo no room >&2; exit 1;;\n*) exec ffmpeg \"$@\";;";
    let unlucky = scripted(folder.path(), body);
    let made = make(&unlucky, &video.path, &NEVER).unwrap();
    assert_eq!(opened(made.spritesheet(), ImageFormat::Jpeg).dimensions(), (5 * 96, 64));
    let error = made.thumbnail.unwrap_err();
    assert!(matches!(error, Error::Tool(ToolError::ProgramFailed { program: "ffmpeg", .. })), "{error:?}");
}

#[test]
fn pictures_that_nobody_wants_end_their_ffmpeg() {
    let video = video(96, 64, &greys(5));
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("pid");
    let body = format!(
        "*-encoders*) exec ffmpeg -encoders;;\n*) echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000;;",
        started.display()
    );
    let ffmpeg = scripted(folder.path(), &body);
    let aborted = AtomicBool::new(false);
    let (made, since) = thread::scope(|scope| {
        let making = scope.spawn(|| make(&ffmpeg, &video.path, &aborted));
        while !started.exists() {
            thread::yield_now();
        }
        let since = Instant::now();
        aborted.store(true, Ordering::Relaxed);
        (making.join().unwrap().unwrap(), since)
    });
    assert!(since.elapsed() < PASS_LIMIT / 2);
    for error in [made.thumbnail.unwrap_err(), made.spritesheet.unwrap_err()] {
        assert!(matches!(error, Error::Tool(ToolError::Aborted)), "{error:?}");
    }
    let pid = fs::read_to_string(started).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}
