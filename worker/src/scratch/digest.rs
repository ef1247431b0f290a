//! The SHA-256 of files and states, as stores keep it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// How much of a file is read at once.
const CHUNK_BYTES: usize = 128 * 1024;

/// Returns the SHA-256 of bytes as 64 lower-case hex digits.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a file as 64 lower-case hex digits. Blocks.
///
/// Errors: what the system said.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hasher, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&chunk[..count]),
        }
    }
}

/// Returns a digest as lower-case hex digits.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_digest_of_its_bytes() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of_bytes(b""), empty);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(of_file(file.path()).unwrap(), empty);
        let bytes = vec![7; 3 * CHUNK_BYTES + 1];
        std::fs::write(file.path(), &bytes).unwrap();
        assert_eq!(of_file(file.path()).unwrap(), of_bytes(&bytes));
    }
}
