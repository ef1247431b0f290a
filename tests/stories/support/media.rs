//! Real files to start from, made by ffmpeg.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of pictures, videos and sounds.
pub(crate) struct Media(tempfile::TempDir);

impl Media {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The text by which curl sends a file of the folder: `@` and its path.
    pub(crate) fn part(&self, name: &str) -> String {
        format!("@{}", self.path(name).display())
    }

    /// A URL that holds a file of the folder.
    pub(crate) fn data_url(&self, name: &str, content_type: &str) -> String {
        let base64 = Command::new("base64").arg("-w0").arg(self.path(name)).output().unwrap();
        format!("data:{content_type};base64,{}", String::from_utf8(base64.stdout).unwrap())
    }

    /// Makes a file by ffmpeg from its arguments, split at spaces.
    pub(crate) fn make(&self, name: &str, arguments: &str) -> PathBuf {
        let path = self.path(name);
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-y"]).args(arguments.split(' ')).arg(&path);
        succeed(&mut ffmpeg);
        path
    }

    /// Makes a picture of these sides.
    pub(crate) fn picture(&self, name: &str, size: &str) -> PathBuf {
        self.make(name, &format!("-f lavfi -i testsrc2=size={size}:rate=1 -frames:v 1"))
    }

    /// Makes a second of video with these sides, at this rate, without sound.
    pub(crate) fn silent_video(&self, name: &str, size: &str, rate: &str) -> PathBuf {
        let source = format!("-f lavfi -i testsrc2=size={size}:rate={rate}:duration=1 -pix_fmt yuv420p -c:v libx264");
        self.make(name, &source)
    }

    /// Makes a second of video with a tone.
    pub(crate) fn video_with_sound(&self, name: &str, size: &str) -> PathBuf {
        let pictures = format!("-f lavfi -i testsrc2=size={size}:rate=30:duration=1");
        let sound = "-f lavfi -i sine=frequency=330:duration=1 -pix_fmt yuv420p -c:v libx264 -c:a aac";
        self.make(name, &format!("{pictures} {sound}"))
    }

    /// Writes a copy of an MP4 or MOV file whose picture is to be turned clockwise by a quarter, as telephones do.
    pub(crate) fn turned(&self, name: &str, of: &str) -> PathBuf {
        const ONE: u32 = 0x1_0000;
        let matrix = [0, ONE, 0, ONE.wrapping_neg(), 0, 0, 0, 0, 0x4000_0000];
        let matrix: Vec<u8> = matrix.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        let mut bytes = fs::read(self.path(of)).unwrap();
        // In the header of the first track, which is the pictures'.
        let at = bytes.windows(4).position(|word| word == b"tkhd").unwrap() + 44;
        bytes[at..at + 36].copy_from_slice(&matrix);
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Makes a second of sound.
    pub(crate) fn sound(&self, name: &str, more: &str) -> PathBuf {
        self.make(name, format!("-f lavfi -i sine=frequency=440:sample_rate=44100:duration=1 {more}").trim())
    }

    /// Writes a file that begins as another and ends after so many bytes.
    pub(crate) fn cut(&self, name: &str, of: &str, bytes: usize) -> PathBuf {
        let whole = fs::read(self.path(of)).unwrap();
        let path = self.path(name);
        fs::write(&path, &whole[..bytes.min(whole.len())]).unwrap();
        path
    }

    /// Runs a program on files of the folder.
    pub(crate) fn tool(&self, program: &str, arguments: &[&Path]) {
        succeed(Command::new(program).args(arguments));
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: scripts/test installs it"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
