//! The file that a video is to become.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Why a path cannot become the output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It ends in no name, or in one that says it is something else.
    #[error("output {} does not end in .mp4, and an MP4 is all that is written", path.display())]
    Name { path: PathBuf },
    /// There is a file, and overwriting was not asked for.
    #[error("output {} exists already; --force overwrites it", path.display())]
    Exists { path: PathBuf },
    /// There is something that is not a file: it would be replaced, not written to.
    #[error("output {} is not a regular file, and is not replaced", path.display())]
    NotRegular { path: PathBuf },
    /// The operating system refused.
    #[error("could not {doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// An output, and the hidden file beside it that becomes it; the hidden file goes when this value does.
#[derive(Debug)]
pub(crate) struct Target {
    output: PathBuf,
    unfinished: PathBuf,
    force: bool,
}

impl Target {
    /// Checks the output and makes the hidden file, so that a folder without permission, a name that is too long or a full
    /// disk is found before anything is computed.
    ///
    /// Errors: [`Error::Name`], [`Error::Exists`], [`Error::NotRegular`], [`Error::Io`].
    pub(crate) fn open(output: &Path, force: bool) -> Result<Self, Error> {
        let path = output.to_owned();
        let mp4 = output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mp4"));
        let (true, Some(name)) = (mp4 && !ends_in_separator(output), output.file_name()) else {
            return Err(Error::Name { path });
        };
        match fs::symlink_metadata(output) {
            Ok(found) if !found.is_file() => return Err(Error::NotRegular { path }),
            Ok(_) if !force => return Err(Error::Exists { path }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Io { doing: "look at", path, source }),
        }
        let hidden = format!(".{}.{}.mp4", name.to_string_lossy(), std::process::id());
        let unfinished = output.with_file_name(hidden);
        let made = OpenOptions::new().write(true).create_new(true).open(&unfinished);
        made.map_err(|source| Error::Io { doing: "create", path: unfinished.clone(), source })?;
        Ok(Self { output: path, unfinished, force })
    }

    /// The file to write; it exists and is empty.
    pub(crate) fn unfinished(&self) -> &Path {
        &self.unfinished
    }

    /// The output as it was named.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    /// Gives the finished file its name, without replacing what has appeared there meanwhile unless that was asked for.
    ///
    /// Errors: [`Error::Exists`], [`Error::Io`].
    pub(crate) fn publish(self) -> Result<(), Error> {
        let flags = if self.force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(CWD, &self.unfinished, CWD, &self.output, flags).map_err(|error| {
            let path = self.output.clone();
            match io::Error::from(error) {
                error if error.kind() == io::ErrorKind::AlreadyExists => Error::Exists { path },
                source => Error::Io { doing: "rename the finished file to", path, source },
            }
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After a publish there is nothing left; otherwise nothing of the attempt may stay.
        let _ = fs::remove_file(&self.unfinished);
    }
}

fn ends_in_separator(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_finished_file_gets_its_name_and_an_unfinished_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("fox.mp4");
        drop(Target::open(&output, false).unwrap());
        assert!(entries(folder.path()).is_empty());
        let target = Target::open(&output, false).unwrap();
        fs::write(target.unfinished(), "film").unwrap();
        target.publish().unwrap();
        assert_eq!(entries(folder.path()), ["fox.mp4"]);
        assert_eq!(fs::read(&output).unwrap(), b"film");
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_overwritten_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("fox.mp4");
        for (force, kept) in [(false, "theirs"), (true, "")] {
            let _ = fs::remove_file(&output);
            let target = Target::open(&output, force).unwrap();
            fs::write(&output, "theirs").unwrap();
            assert_eq!(target.publish().is_ok(), force);
            assert_eq!(fs::read_to_string(&output).unwrap(), kept);
            assert_eq!(entries(folder.path()), ["fox.mp4"]);
        }
    }

    #[test]
    fn only_regular_files_are_ever_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("link.mp4");
        symlink("nowhere", &output).unwrap();
        for force in [false, true] {
            assert!(matches!(Target::open(&output, force), Err(Error::NotRegular { .. })));
            assert!(matches!(Target::open(Path::new("/dev/null"), force), Err(Error::Name { .. })));
        }
        assert!(matches!(Target::open(&folder.path().join("film.avi"), false), Err(Error::Name { .. })));
        assert!(matches!(Target::open(&folder.path().join("film.mp4/"), false), Err(Error::Name { .. })));
        fs::create_dir(folder.path().join("dir.mp4")).unwrap();
        assert!(matches!(Target::open(&folder.path().join("dir.mp4"), true), Err(Error::NotRegular { .. })));
        let absent = Target::open(&folder.path().join("absent/film.mp4"), false).unwrap_err();
        assert!(matches!(absent, Error::Io { doing: "create", .. }), "{absent}");
    }
}
