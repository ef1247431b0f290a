//! A sent file on the disk, looked at before anything reads it in earnest.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::Error as ToolError;
use crate::decode::boxes::{BoxSpan, TopLevel, top_level};
use crate::decode::sniff::{HEAD_BYTES, Sniffed, sniff};
use crate::decode::{Claim, Error, Format, Kind};

/// A file that is one and has bytes, whatever they are.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file, after its first bytes.
    file: File,
    /// Its size.
    size_bytes: u64,
    /// Its first bytes, at most [`HEAD_BYTES`].
    pub(crate) head: Vec<u8>,
}

impl Opened {
    /// Opens the file at `path` and reads its beginning.
    ///
    /// Errors: [`Error::Empty`], [`Error::Machine`] also for what is no regular file.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        // Looked at before it is opened: opening a pipe would wait for its writer.
        let metadata = fs::metadata(path).map_err(machine("read", path))?;
        if !metadata.is_file() {
            return Err(machine("read as a file", path)(std::io::ErrorKind::InvalidInput.into()));
        }
        let mut file = File::open(path).map_err(machine("open", path))?;
        let size_bytes = metadata.len();
        if size_bytes == 0 {
            return Err(Error::Empty);
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        Read::by_ref(&mut file).take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(machine("read", path))?;
        Ok(Self { file, size_bytes, head })
    }
}

/// A file whose first bytes are of a format that may be what is wanted.
#[derive(Debug)]
pub(crate) struct Source {
    /// The file, at its beginning.
    pub(crate) file: File,
    /// Its size.
    pub(crate) size_bytes: u64,
    /// What its content says it is.
    pub(crate) format: Format,
}

impl Source {
    /// Opens the file at `path`, of at most `limit_bytes`, that should be a `wanted`.
    ///
    /// Errors: [`Error::Empty`], [`Error::TooManyBytes`], [`Error::Unrecognised`], [`Error::NotAccepted`],
    /// [`Error::Contradiction`], [`Error::Machine`] also for what is no regular file.
    pub(crate) fn open(path: &Path, claim: &Claim<'_>, wanted: Kind, limit_bytes: u64) -> Result<Self, Error> {
        let Opened { mut file, size_bytes, head } = Opened::open(path)?;
        if size_bytes > limit_bytes {
            return Err(Error::TooManyBytes { size_bytes, limit_bytes });
        }
        let format = match sniff(&head) {
            Sniffed::Accepted(format) if format.may_be(wanted) => format,
            Sniffed::Accepted(format) => return Err(Error::NotAccepted { found: format.name(), wanted }),
            Sniffed::Other(found) => return Err(Error::NotAccepted { found, wanted }),
            Sniffed::Unknown => return Err(Error::Unrecognised { wanted }),
        };
        claim.check(format)?;
        file.seek(SeekFrom::Start(0)).map_err(machine("read", path))?;
        Ok(Self { file, size_bytes, format })
    }
}

impl Source {
    /// Finds the top-level box of `kind` that says where everything in an MP4, MOV or HEIF file is.
    ///
    /// Errors: [`Error::Truncated`] for a file that ends within a box or has no such box, [`Error::Undecodable`],
    /// [`Error::Machine`].
    pub(crate) fn index_box(&self, path: &Path, wanted: Kind, kind: &[u8; 4]) -> Result<BoxSpan, Error> {
        let boxes = match top_level(&self.file, self.size_bytes).map_err(machine("read", path))? {
            TopLevel::Whole(boxes) => boxes,
            TopLevel::CutShort => return Err(Error::Truncated { missing: "its end is missing" }),
            TopLevel::Nonsense => return Err(Error::undecodable(wanted, "the boxes make no sense")),
        };
        let index = boxes.into_iter().find(|span| &span.kind == kind);
        index.ok_or(Error::Truncated { missing: "it has no index" })
    }
}

/// Makes the closure that dresses an I/O error with what was tried on which path.
pub(crate) fn machine(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Machine(ToolError::io(doing, path)(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_the_machines_fault_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/zero"), Path::new("/nowhere/file")] {
            let error = Source::open(path, &Claim::default(), Kind::Image, 100).unwrap_err();
            assert!(error.is_of_machine(), "{error}");
        }
    }
}
