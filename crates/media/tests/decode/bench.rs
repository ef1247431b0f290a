//! A folder of files to decode, and the limits that they are decoded under.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clapboard_media::Ffmpeg;
use clapboard_media::decode::audio::{self, AudioLimits, Sound, SoundFacts};
use clapboard_media::decode::image::{self, HeifTool, Image, ImageFacts, ImageLimits};
use clapboard_media::decode::video::{self, FrameReader, VideoFacts, VideoLimits};
use clapboard_media::decode::{Claim, Error};
use tempfile::TempDir;

pub(crate) const IMAGE_LIMITS: ImageLimits =
    ImageLimits { max_file_bytes: 30 << 20, max_side: 5760, max_pixels: 5760 * 5760 };
pub(crate) const VIDEO_LIMITS: VideoLimits =
    VideoLimits { max_file_bytes: 50 << 20, max_side: 2048, max_pixels: 2048 * 2048, longest: Duration::from_secs(15) };
pub(crate) const AUDIO_LIMITS: AudioLimits = AudioLimits { max_file_bytes: 15 << 20, longest: Duration::from_secs(15) };
pub(crate) const NO_CLAIM: Claim<'_> = Claim { content_type: None, file_name: None };

pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) ffmpeg: Ffmpeg,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("scratch")).unwrap();
        Self { folder, ffmpeg: Ffmpeg::find().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Makes `name` by ffmpeg, from arguments that are separated by spaces.
    pub(crate) fn make(&self, arguments: &str, name: &str) -> PathBuf {
        let path = self.path(name);
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-nostdin", "-y"]).args(arguments.split(' '));
        self.succeed(command.arg(format!("file:{}", path.display())));
        path
    }

    /// Runs a program in the folder; it must succeed.
    pub(crate) fn tool(&self, program: &str, arguments: &[impl AsRef<OsStr>]) {
        self.succeed(Command::new(program).args(arguments));
    }

    fn succeed(&self, command: &mut Command) {
        let output = command.current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn inspect_image(&self, path: &Path) -> Result<ImageFacts, Error> {
        image::inspect(path, &NO_CLAIM, &IMAGE_LIMITS)
    }

    /// Decodes an image, whose size must be what its inspection says; nothing may be left in the scratch folder.
    pub(crate) fn image(&self, path: &Path) -> Result<Image, Error> {
        let scratch = self.path("scratch");
        let decoded = image::decode(&HeifTool::default(), &scratch, path, &NO_CLAIM, &IMAGE_LIMITS, &NEVER);
        assert_eq!(fs::read_dir(scratch).unwrap().count(), 0);
        let decoded = decoded?;
        let facts = self.inspect_image(path)?;
        assert_eq!((decoded.width, decoded.height), (facts.width, facts.height));
        assert_eq!(decoded.rgb.len(), 3 * decoded.width as usize * decoded.height as usize);
        Ok(decoded)
    }

    pub(crate) fn inspect_video(&self, path: &Path) -> Result<VideoFacts, Error> {
        video::inspect(&self.ffmpeg, path, &NO_CLAIM, &VIDEO_LIMITS, &NEVER)
    }

    pub(crate) fn frames(&self, path: &Path) -> Result<(VideoFacts, FrameReader), Error> {
        let facts = self.inspect_video(path)?;
        let reader = FrameReader::start(&self.ffmpeg, path, &facts, &VIDEO_LIMITS)?;
        Ok((facts, reader))
    }

    pub(crate) fn inspect_sound(&self, path: &Path) -> Result<SoundFacts, Error> {
        audio::inspect(&self.ffmpeg, path, &NO_CLAIM, &AUDIO_LIMITS, &NEVER)
    }

    pub(crate) fn sound(&self, path: &Path) -> Result<(SoundFacts, Sound), Error> {
        let facts = self.inspect_sound(path)?;
        let sound = audio::decode(&self.ffmpeg, path, &facts, AUDIO_LIMITS.longest, &NEVER)?;
        Ok((facts, sound))
    }
}

/// The colour of a pixel.
pub(crate) fn pixel(rgb: &[u8], width: u32, x: u32, y: u32) -> [u8; 3] {
    let at = 3 * (y as usize * width as usize + x as usize);
    [rgb[at], rgb[at + 1], rgb[at + 2]]
}

/// Checks a colour within `tolerance` for each channel.
#[track_caller]
pub(crate) fn assert_near(found: [u8; 3], expected: [u8; 3], tolerance: u8) {
    assert!(found.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= tolerance), "{found:?} is not {expected:?}");
}
