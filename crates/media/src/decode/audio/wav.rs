//! Whether a WAV file has all the samples that it announces.

use std::io::{self, Read, Seek, SeekFrom};

use super::Extent;
use crate::decode::boxes::MAX_PARTS;

/// Looks for the `data` chunk and compares its size with the file's.
///
/// Writers that could not know the size leave a placeholder there; the samples then go to the end of the file. A file
/// without the chunk is cut short too. Few bytes are read here and there, so `file` should have no buffer.
pub(super) fn extent(mut file: impl Read + Seek, size_bytes: u64) -> io::Result<Extent> {
    let mut at = 12;
    for _ in 0..MAX_PARTS {
        if at + 8 > size_bytes {
            return Ok(Extent::CutShort);
        }
        file.seek(SeekFrom::Start(at))?;
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let [kind @ .., a, b, c, d] = head;
        let size = u32::from_le_bytes([a, b, c, d]);
        if kind == *b"data" {
            let unknown = size == 0 || size >= u32::MAX - 0xFF;
            let complete = unknown || at + 8 + u64::from(size) <= size_bytes;
            return Ok(if complete { Extent::Whole } else { Extent::CutShort });
        }
        // Chunks are padded to an even size.
        at += 8 + u64::from(size) + u64::from(size & 1);
    }
    Ok(Extent::Endless)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn complete(data_size: u32, data: &[u8]) -> bool {
        let list = b"LIST\x03\0\0\0abc\0";
        let bytes = [b"RIFF\0\0\0\0WAVE", &list[..], b"data", &data_size.to_le_bytes(), data].concat();
        extent(Cursor::new(&bytes), bytes.len() as u64).unwrap() == Extent::Whole
    }

    #[test]
    fn samples_that_are_announced_must_be_there() {
        assert!(complete(4, b"1234"));
        assert!(complete(3, b"123\0"));
        assert!(!complete(5, b"1234"));
        assert!(complete(0, b"1234") && complete(u32::MAX, b"1234"));
        assert_eq!(extent(Cursor::new(b"RIFF\0\0\0\0WAVEfmt "), 16).unwrap(), Extent::CutShort);
    }

    #[test]
    fn chunks_without_an_end_are_not_walked_to_it() {
        let chunks = |count| [b"RIFF\0\0\0\0WAVE", &b"junk\0\0\0\0".repeat(count)[..], b"data\0\0\0\0"].concat();
        let of = |bytes: Vec<u8>| extent(Cursor::new(&bytes), bytes.len() as u64).unwrap();
        assert_eq!(of(chunks(3)), Extent::Whole);
        assert_eq!(of(chunks(MAX_PARTS)), Extent::Endless);
    }
}
