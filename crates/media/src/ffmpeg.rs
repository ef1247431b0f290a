//! The installed programs, found and checked once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::Error;
use crate::process::{Bounds, capture};

/// The oldest major version with the options that the muxer gives (`-movie_timescale`).
const LEAST_MAJOR_VERSION: u32 = 5;
/// A check only prints; its longest answer, the list of encoders, is about 20 kB.
const CHECK_BOUNDS: Bounds = Bounds { time: Duration::from_secs(30), max_bytes: 1 << 20, memory_bytes: None };
/// How long an encoder may stand still with work at hand.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// How much of what a stranger says is told.
const MAX_SAID_CHARS: usize = 80;

/// An ffmpeg and an ffprobe that are known to run and to have the encoders every video needs.
#[derive(Debug, Clone)]
pub struct Ffmpeg {
    ffmpeg: PathBuf,
    ffprobe: PathBuf,
    version: String,
    writes_webp: bool,
    stall_limit: Duration,
}

impl Ffmpeg {
    /// Finds `ffmpeg` and `ffprobe` on the `PATH` and checks them.
    ///
    /// Errors: see [`Ffmpeg::at`].
    pub fn find() -> Result<Self, Error> {
        Self::at("ffmpeg", "ffprobe")
    }

    /// Checks the two programs at these paths, or of these names on the `PATH`.
    ///
    /// Errors: [`Error::ProgramMissing`], [`Error::NotExecutable`], [`Error::Start`], [`Error::NotTheProgram`],
    /// [`Error::TooOld`], [`Error::EncoderMissing`], and the errors of a program that fails or hangs.
    pub fn at(ffmpeg: impl Into<PathBuf>, ffprobe: impl Into<PathBuf>) -> Result<Self, Error> {
        let (ffmpeg, ffprobe) = (ffmpeg.into(), ffprobe.into());
        let version = checked_version("ffmpeg", &ffmpeg)?;
        checked_version("ffprobe", &ffprobe)?;
        let encoders = printed("ffmpeg", &ffmpeg, "-encoders")?;
        for encoder in ["libx264", "aac"] {
            if !has_encoder(&encoders, encoder) {
                return Err(Error::EncoderMissing { encoder, path: ffmpeg });
            }
        }
        let writes_webp = has_encoder(&encoders, "libwebp");
        Ok(Self { ffmpeg, ffprobe, version, writes_webp, stall_limit: STALL_LIMIT })
    }

    /// Sets how long an encoder may stand still with work at hand before it is killed; 2 minutes unless set.
    #[cfg(test)]
    pub(crate) fn with_stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = limit;
        self
    }

    /// Checks that ffmpeg can still be started, by asking it for its version. Blocks.
    ///
    /// Errors: those of [`Ffmpeg::at`].
    pub fn check(&self) -> Result<(), Error> {
        checked_version("ffmpeg", &self.ffmpeg).map(drop)
    }

    /// The version that ffmpeg printed, such as `5.1.9-0+deb12u1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether ffmpeg has an encoder for lossy WebP, which not every build has.
    pub(crate) fn writes_webp(&self) -> bool {
        self.writes_webp
    }

    /// How long an encoder may stand still with work at hand.
    pub(crate) fn stall_limit(&self) -> Duration {
        self.stall_limit
    }

    /// A command that runs ffmpeg.
    pub(crate) fn ffmpeg_command(&self) -> Command {
        Command::new(&self.ffmpeg)
    }

    /// A command that runs ffprobe.
    pub(crate) fn ffprobe_command(&self) -> Command {
        Command::new(&self.ffprobe)
    }
}

/// `path` as a URL of ffmpeg's file protocol, so that no name reads as an option or another protocol.
pub(crate) fn file_url(path: &Path) -> OsString {
    let mut url = OsString::from("file:");
    url.push(path);
    url
}

/// What `program` prints for one option that only prints.
fn printed(program: &'static str, path: &Path, option: &str) -> Result<String, Error> {
    let mut command = Command::new(path);
    command.args(["-hide_banner", option]);
    let captured = capture(program, command, &CHECK_BOUNDS, &AtomicBool::new(false))?;
    Ok(String::from_utf8_lossy(&captured.stdout).into_owned())
}

/// The version of `program`, when it is new enough.
fn checked_version(program: &'static str, path: &Path) -> Result<String, Error> {
    let stranger = |said: &str| {
        let said = said.lines().next().unwrap_or_default().chars().take(MAX_SAID_CHARS).collect();
        Error::NotTheProgram { program, path: path.to_owned(), said }
    };
    let text = printed(program, path, "-version").map_err(|error| match error {
        // One that the machine has no room for is no stranger.
        Error::ProgramFailed { ref stderr, .. } if !error.is_of_machine() => stranger(stderr),
        Error::OutputTooLarge { .. } => stranger(""),
        error => error,
    })?;
    let version = version_of(program, &text).ok_or_else(|| stranger(&text))?.to_owned();
    match major_version(&version) {
        Some(major) if major < LEAST_MAJOR_VERSION => {
            Err(Error::TooOld { program, version, least: LEAST_MAJOR_VERSION })
        }
        _ => Ok(version),
    }
}

/// The third word of `ffmpeg version 5.1.9-0+deb12u1 Copyright …`.
fn version_of<'a>(program: &str, text: &'a str) -> Option<&'a str> {
    let mut words = text.lines().next()?.split_whitespace();
    if (words.next(), words.next()) == (Some(program), Some("version")) { words.next() } else { None }
}

/// The major version of `5.1.9-…` or `n7.0`; builds from a repository (`N-109…`, `git-…`) have none.
fn major_version(version: &str) -> Option<u32> {
    version.strip_prefix('n').unwrap_or(version).split('.').next()?.parse().ok()
}

/// Whether the list of `-encoders` names `encoder`: lines are flags, name, description.
fn has_encoder(list: &str, encoder: &str) -> bool {
    list.lines().any(|line| line.split_whitespace().nth(1) == Some(encoder))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_installed_programs_are_found() {
        let ffmpeg = Ffmpeg::find().unwrap();
        assert!(!ffmpeg.version().is_empty());
    }

    #[test]
    fn a_missing_program_is_named_with_the_way_to_install_it() {
        for (ffmpeg, ffprobe, missing) in
            [("/nowhere/ffmpeg", "ffprobe", "ffmpeg"), ("ffmpeg", "/nowhere/ffprobe", "ffprobe")]
        {
            let message = Ffmpeg::at(ffmpeg, ffprobe).unwrap_err().to_string();
            assert!(message.starts_with(&format!("could not find {missing} at /nowhere/{missing}")), "{message}");
            assert!(message.contains("apt-get install ffmpeg"), "{message}");
        }
    }

    #[test]
    fn a_file_that_is_not_executable_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ffmpeg");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let message = Ffmpeg::at(&file, "ffprobe").unwrap_err().to_string();
        assert_eq!(message, format!("ffmpeg at {} is not executable", file.display()));
    }

    #[test]
    fn a_program_that_is_another_one_is_named_with_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        for (body, said) in [
            ("echo hello; echo there", "hello"),
            ("echo unknown option >&2; exit 1", "unknown option"),
            ("echo ffprobe version 7.1", "ffprobe version 7.1"),
            ("exit 0", ""),
        ] {
            let fake = script(folder.path(), "fake", body);
            let message = Ffmpeg::at(&fake, "ffprobe").unwrap_err().to_string();
            let expected =
                format!("{} does not answer like ffmpeg: asked for its version, it said {said:?}", fake.display());
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn a_program_that_has_gone_since_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let wrapper = script(folder.path(), "ffmpeg", "exec ffmpeg \"$@\"");
        let ffmpeg = Ffmpeg::at(&wrapper, "ffprobe").unwrap();
        ffmpeg.check().unwrap();
        fs::remove_file(&wrapper).unwrap();
        assert!(ffmpeg.check().unwrap_err().is_of_machine());
    }

    #[test]
    fn a_missing_encoder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let body = r#"case "$*" in *-version*) echo "ffmpeg version 6.0 Copyright";;
            *) echo " V....D libx264rgb libx264 H.264"; echo " A..... aac AAC";; esac"#;
        let fake = script(folder.path(), "ffmpeg", body);
        let message = Ffmpeg::at(&fake, "ffprobe").unwrap_err().to_string();
        assert!(message.contains("has no libx264 encoder"), "{message}");
    }

    #[test]
    fn an_old_version_is_refused_and_an_unnumbered_one_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let fake = script(folder.path(), "ffmpeg", r#"echo "ffmpeg version 4.4.2-0ubuntu Copyright""#);
        let message = Ffmpeg::at(&fake, "ffprobe").unwrap_err().to_string();
        assert_eq!(message, "ffmpeg 4.4.2-0ubuntu is too old: version 5 or newer is needed");
        assert_eq!(major_version("n7.1"), Some(7));
        assert_eq!(major_version("N-109542-g9b2e2a0"), None);
    }
}
