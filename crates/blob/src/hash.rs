//! SHA-256 of what passes through.

use std::fmt;
use std::io::{self, Read, Write};
use std::mem;

use sha2::{Digest, Sha256};

/// How much is read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// What [`copy`] has seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) size_bytes: u64,
    pub(crate) sha256: Sha256Sum,
}

/// The SHA-256 of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sha256Sum(pub(crate) [u8; 32]);

impl Sha256Sum {
    pub(crate) fn of(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Sha256Sum {
    /// Writes 64 lower-case hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a copy ended early.
#[derive(Debug)]
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies all of `source` into `sink`, calls `moved` after each chunk, and returns its length and hash.
pub(crate) fn copy(source: &mut dyn Read, sink: &mut dyn Write, moved: &dyn Fn()) -> Result<Seen, CopyError> {
    let mut hasher = Sha256::new();
    let mut size_bytes = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyError::Read(error)),
        };
        sink.write_all(&chunk[..length]).map_err(CopyError::Write)?;
        hasher.update(&chunk[..length]);
        size_bytes += length as u64;
        moved();
    }
    Ok(Seen { size_bytes, sha256: Sha256Sum::of(hasher) })
}

/// A sink that hashes each `part_size` bytes of what is written to it by themselves.
pub(crate) struct PartHasher {
    part_size: u64,
    filled: u64,
    hasher: Sha256,
    sums: Vec<Sha256Sum>,
}

impl PartHasher {
    pub(crate) fn new(part_size: u64) -> Self {
        Self { part_size, filled: 0, hasher: Sha256::new(), sums: Vec::new() }
    }

    /// Returns the hashes of the parts, the last of which may be shorter.
    pub(crate) fn finish(mut self) -> Vec<Sha256Sum> {
        if self.filled > 0 {
            self.sums.push(Sha256Sum::of(self.hasher));
        }
        self.sums
    }
}

impl Write for PartHasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = usize::try_from(self.part_size - self.filled).unwrap_or(usize::MAX);
        let taken = &bytes[..bytes.len().min(room)];
        self.hasher.update(taken);
        self.filled += taken.len() as u64;
        if self.filled == self.part_size {
            self.sums.push(Sha256Sum::of(mem::take(&mut self.hasher)));
            self.filled = 0;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_and_hashed() {
        let mut sink = Vec::new();
        let seen = copy(&mut b"abc".as_slice(), &mut sink, &|| ()).unwrap();
        assert_eq!(sink, b"abc");
        assert_eq!(seen.size_bytes, 3);
        // FIPS 180-2, appendix B.1.
        assert_eq!(seen.sha256.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn nothing_has_a_hash_too() {
        let seen = copy(&mut io::empty(), &mut io::sink(), &|| ()).unwrap();
        assert_eq!(seen.sha256.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn parts_are_hashed_by_themselves() {
        let mut parts = PartHasher::new(3);
        let seen = copy(&mut b"abcabcab".as_slice(), &mut parts, &|| ()).unwrap();
        assert_eq!(seen.size_bytes, 8);
        let abc = copy(&mut b"abc".as_slice(), &mut io::sink(), &|| ()).unwrap().sha256;
        let ab = copy(&mut b"ab".as_slice(), &mut io::sink(), &|| ()).unwrap().sha256;
        assert_eq!(parts.finish(), [abc, abc, ab]);
        assert_eq!(PartHasher::new(3).finish(), []);
    }
}
