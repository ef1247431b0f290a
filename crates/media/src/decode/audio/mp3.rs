//! Whether an MP3 file has all the bytes that it announces, where it announces any.

use std::io::{self, Read, Seek, SeekFrom};

use super::Extent;
use crate::decode::boxes::MAX_PARTS;
use crate::decode::sniff::is_layer_3_header;

/// Looks for the number of bytes in the Xing or Info header of the first frame, and compares it with the file's size.
///
/// Files without such a header end anywhere. An ID3 tag longer than the file is cut short. Few bytes are read here and
/// there, so `file` should have no buffer.
pub(super) fn extent(mut file: impl Read + Seek, size_bytes: u64) -> io::Result<Extent> {
    let mut begin = 0;
    for _ in 0..MAX_PARTS {
        let head = read_at(&mut file, begin, 10)?;
        let [b'I', b'D', b'3', _, _, flags, a, b, c, d] = head[..] else {
            let frame = read_at(&mut file, begin, 64)?;
            let complete = announced_bytes(&frame).is_none_or(|announced| begin + announced <= size_bytes);
            return Ok(if complete { Extent::Whole } else { Extent::CutShort });
        };
        // Four digits of 7 bits; a footer doubles the header.
        let size = [a, b, c, d].iter().fold(0, |size, digit| size << 7 | u64::from(digit & 0x7F));
        begin += 10 + size + if flags & 0x10 == 0 { 0 } else { 10 };
        if begin >= size_bytes {
            return Ok(Extent::CutShort);
        }
    }
    Ok(Extent::Endless)
}

/// The bytes from the first frame on, by its Xing or Info header.
fn announced_bytes(frame: &[u8]) -> Option<u64> {
    if !is_layer_3_header(frame) {
        return None;
    }
    let (mpeg_1, mono) = (frame[1] & 0x08 != 0, frame[3] >> 6 == 3);
    let side_info = match (mpeg_1, mono) {
        (true, false) => 32,
        (false, true) => 9,
        _ => 17,
    };
    let header = frame.get(4 + side_info..)?;
    if !header.starts_with(b"Xing") && !header.starts_with(b"Info") {
        return None;
    }
    let number = |at: usize| Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let flags = number(4)?;
    let at = if flags & 1 == 0 { 8 } else { 12 };
    if flags & 2 == 0 { None } else { number(at).map(u64::from) }
}

fn read_at(file: &mut (impl Read + Seek), at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn complete(bytes: &[u8]) -> bool {
        extent(Cursor::new(bytes), bytes.len() as u64).unwrap() == Extent::Whole
    }

    #[test]
    fn a_file_shorter_than_its_header_says_is_cut_short() {
        let tag = b"ID3\x04\0\0\0\0\0\x02ab";
        let head = [b"\xFF\xFB\x90\x64", &[0; 32][..], b"Info\0\0\0\x03\0\0\0\x09\0\0\0\x64"].concat();
        let whole = [&tag[..], &head, &vec![0; 100 - head.len()]].concat();
        assert!(complete(&whole));
        assert!(!complete(&whole[..whole.len() - 1]));
        assert!(!complete(&tag[..11]));
        assert!(complete(b"\xFF\xFB\x90\x64"));
    }

    #[test]
    fn tags_without_an_end_are_not_walked_to_it() {
        let tags = |count| [&b"ID3\x04\0\0\0\0\0\0".repeat(count)[..], b"\xFF\xFB\x90\x64"].concat();
        let of = |bytes: Vec<u8>| extent(Cursor::new(&bytes), bytes.len() as u64).unwrap();
        assert_eq!(of(tags(3)), Extent::Whole);
        assert_eq!(of(tags(MAX_PARTS)), Extent::Endless);
    }
}
