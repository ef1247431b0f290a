//! SHA-256 of what passes through.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// How much is read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// What [`copy`] has seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) size_bytes: u64,
    /// 64 lower-case hex digits.
    pub(crate) sha256: String,
}

/// Why a copy ended early.
#[derive(Debug)]
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies all of `source` into `sink` and returns its length and hash.
pub(crate) fn copy(source: &mut dyn Read, sink: &mut dyn Write) -> Result<Seen, CopyError> {
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
    }
    let mut sha256 = String::with_capacity(64);
    for byte in hasher.finalize() {
        write!(sha256, "{byte:02x}").expect("writing to a String cannot fail");
    }
    Ok(Seen { size_bytes, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_and_hashed() {
        let mut sink = Vec::new();
        let seen = copy(&mut b"abc".as_slice(), &mut sink).unwrap();
        assert_eq!(sink, b"abc");
        assert_eq!(seen.size_bytes, 3);
        // FIPS 180-2, appendix B.1.
        assert_eq!(seen.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn nothing_has_a_hash_too() {
        let seen = copy(&mut io::empty(), &mut io::sink()).unwrap();
        assert_eq!(seen.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
