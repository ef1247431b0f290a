//! The boxes of ISO base media files (MP4, MOV, HEIF), as far as their sizes and a HEIF image's properties go.

use std::io::{self, Read, Seek, SeekFrom};

/// The most parts of a file (top-level boxes, chunks, tags) that are walked; a file in fragments has two boxes for each.
pub(crate) const MAX_PARTS: usize = 100_000;

/// A box within a file or a slice: its type, and where its body begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BoxSpan {
    /// Its four letters.
    pub(crate) kind: [u8; 4],
    /// Where its body begins.
    pub(crate) begin: u64,
    /// Where it ends, which may be beyond the end of the file.
    pub(crate) end: u64,
}

/// The header of the box at `at`, of which at most 16 bytes are given; `None` when it makes no sense.
fn header(head: &[u8], at: u64, file_end: u64) -> Option<BoxSpan> {
    let size = u32::from_be_bytes(*head.first_chunk()?);
    let kind = *head.get(4..8)?.first_chunk()?;
    let (length, header_bytes) = match size {
        0 => (file_end - at, 8),
        1 => (u64::from_be_bytes(*head.get(8..16)?.first_chunk()?), 16),
        size => (u64::from(size), 8),
    };
    (length >= header_bytes).then_some(BoxSpan { kind, begin: at + header_bytes, end: at.saturating_add(length) })
}

/// What walking the top level of a file found.
#[derive(Debug)]
pub(crate) enum TopLevel {
    /// All boxes are there.
    Whole(Vec<BoxSpan>),
    /// The file ends within a box.
    CutShort,
    /// What follows a box is none.
    Nonsense,
}

/// Walks the top-level boxes of `file`, reading their headers only.
///
/// Bytes after the last box that are too few or too odd to be one are forgiven when a `moov` or `meta` box came before.
pub(crate) fn top_level(mut file: impl Read + Seek, size_bytes: u64) -> io::Result<TopLevel> {
    let mut boxes: Vec<BoxSpan> = Vec::new();
    let mut at = 0;
    while at < size_bytes {
        if boxes.len() == MAX_PARTS {
            return Ok(TopLevel::Nonsense);
        }
        file.seek(SeekFrom::Start(at))?;
        let mut head = Vec::with_capacity(16);
        Read::by_ref(&mut file).take(16).read_to_end(&mut head)?;
        let plausible = |span: &BoxSpan| span.kind.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte >= 0xA0);
        let Some(span) = header(&head, at, size_bytes).filter(plausible) else {
            let complete = boxes.iter().any(|span| matches!(&span.kind, b"moov" | b"meta"));
            return Ok(if complete { TopLevel::Whole(boxes) } else { TopLevel::Nonsense });
        };
        if span.end > size_bytes {
            return Ok(TopLevel::CutShort);
        }
        boxes.push(span);
        at = span.end;
    }
    Ok(TopLevel::Whole(boxes))
}

/// The boxes within `body`, each with its own body; stops at the first that makes no sense.
pub(crate) fn children(body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let span = header(body.get(at as usize..)?, at, body.len() as u64)?;
        let content = body.get(usize::try_from(span.begin).ok()?..usize::try_from(span.end).ok()?)?;
        at = span.end;
        Some((span.kind, content))
    })
}

/// A reader of big-endian numbers that ends with the slice.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    /// The next `bytes` bytes, up to 4, as a number.
    pub(crate) fn number(&mut self, bytes: usize) -> Option<u32> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        [&(8 + body.len() as u32).to_be_bytes(), &kind[..], body].concat()
    }

    fn walk(bytes: &[u8]) -> TopLevel {
        top_level(Cursor::new(bytes), bytes.len() as u64).unwrap()
    }

    #[test]
    fn a_file_cut_anywhere_within_a_box_is_seen_to_be() {
        let whole = [boxed(b"ftyp", b"isom"), boxed(b"moov", b"index"), boxed(b"mdat", &[0; 100])].concat();
        assert!(matches!(walk(&whole), TopLevel::Whole(boxes) if boxes.len() == 3));
        for length in [1, 5, 20, 60, whole.len() - 1] {
            assert!(!matches!(walk(&whole[..length]), TopLevel::Whole(_)), "{length}");
        }
    }

    #[test]
    fn sizes_that_lie_end_the_walk() {
        let long = [&1u32.to_be_bytes()[..], b"mdat", &u64::MAX.to_be_bytes()].concat();
        assert!(matches!(walk(&long), TopLevel::CutShort));
        assert!(matches!(walk(&boxed(b"\x01\x02\x03\x04", b"")), TopLevel::Nonsense));
        assert!(matches!(walk(&[0, 0, 0, 4, b'f', b'r', b'e', b'e']), TopLevel::Nonsense));
        let to_the_end = [&0u32.to_be_bytes()[..], b"mdat", b"1234"].concat();
        assert!(matches!(walk(&to_the_end), TopLevel::Whole(boxes) if boxes[0].end == 12));
        assert_eq!(children(&boxed(b"ispe", b"1234")[..10]).count(), 0);
    }
}
