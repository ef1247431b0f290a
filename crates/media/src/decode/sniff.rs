//! What a file is, by its first bytes.

use std::fmt;

use crate::decode::Kind;

/// How much of a file's beginning is looked at.
pub(crate) const HEAD_BYTES: usize = 4096;

/// The formats that are accepted for a kind of medium, as words.
pub(crate) fn formats(kind: Kind) -> &'static str {
    match kind {
        Kind::Image => "JPEG, PNG, WebP and HEIC",
        Kind::Video => "MP4 and MOV",
        Kind::Audio => "WAV, MP3 and AAC in MP4",
    }
}

/// A format that is accepted for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// JPEG, baseline or progressive.
    Jpeg,
    /// PNG.
    Png,
    /// WebP, lossy or lossless.
    WebP,
    /// HEIC and HEIF: HEVC images in an ISO base media file.
    Heif,
    /// MP4 and its relatives.
    Mp4,
    /// QuickTime.
    Mov,
    /// RIFF WAVE.
    Wav,
    /// MPEG audio, layer III, with or without ID3 tags.
    Mp3,
}

impl Format {
    /// Tells whether a file of this format can be what is wanted.
    pub fn may_be(self, kind: Kind) -> bool {
        match kind {
            Kind::Image => matches!(self, Self::Jpeg | Self::Png | Self::WebP | Self::Heif),
            Kind::Video => matches!(self, Self::Mp4 | Self::Mov),
            Kind::Audio => matches!(self, Self::Wav | Self::Mp3 | Self::Mp4 | Self::Mov),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Heif => "HEIC",
            Self::Mp4 => "MP4",
            Self::Mov => "MOV",
            Self::Wav => "WAV",
            Self::Mp3 => "MP3",
        }
    }

    /// ffmpeg's only demuxer that may read it.
    pub(crate) fn demuxer(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Mp3 => "mp3",
            _ => "mov",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sniffed {
    /// One of the accepted formats.
    Accepted(Format),
    /// Another format, by its name.
    Other(&'static str),
    /// Nothing that is known.
    Unknown,
}

/// Formats that are known only to be named when they are refused, by how they begin.
const OTHERS: [(&[u8], &str); 14] = [
    (b"GIF8", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\0\0\x01\0", "an icon"),
    (b"\x1A\x45\xDF\xA3", "Matroska or WebM"),
    (b"OggS", "Ogg"),
    (b"fLaC", "FLAC"),
    (b"RF64", "RF64"),
    (b"%PDF", "PDF"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"#EXTM3U", "a playlist"),
    (b"ffconcat", "a list of files"),
    (b"<", "XML or HTML"),
];

/// Says what a file that begins with `head` is.
pub(crate) fn sniff(head: &[u8]) -> Sniffed {
    if head.starts_with(b"\xFF\xD8\xFF") {
        return Sniffed::Accepted(Format::Jpeg);
    }
    if head.starts_with(b"\x89PNG\r\n\x1A\n") {
        return Sniffed::Accepted(Format::Png);
    }
    if head.starts_with(b"RIFF") {
        return match head.get(8..12) {
            Some(b"WEBP") => Sniffed::Accepted(Format::WebP),
            Some(b"WAVE") => Sniffed::Accepted(Format::Wav),
            Some(b"AVI ") => Sniffed::Other("AVI"),
            _ => Sniffed::Unknown,
        };
    }
    match head.get(4..8) {
        Some(b"ftyp") => return sniff_brands(head),
        // QuickTime files older than brands.
        Some(b"moov" | b"mdat" | b"wide" | b"free" | b"skip" | b"pnot") => return Sniffed::Accepted(Format::Mov),
        _ => {}
    }
    if head.starts_with(b"ID3") || is_layer_3_header(head) {
        return Sniffed::Accepted(Format::Mp3);
    }
    if head.starts_with(b"\xFF\xF1") || head.starts_with(b"\xFF\xF9") {
        return Sniffed::Other("AAC without a container");
    }
    OTHERS.iter().find(|(begin, _)| head.starts_with(begin)).map_or(Sniffed::Unknown, |(_, name)| Sniffed::Other(name))
}

/// Tells the relatives of MP4 apart by their brands.
fn sniff_brands(head: &[u8]) -> Sniffed {
    let size = head.first_chunk().map_or(0, |size| u32::from_be_bytes(*size) as usize);
    let brands = head.get(8..size.min(head.len())).unwrap_or_default();
    // The second word is the minor version, no brand.
    let brand = |wanted: &[&[u8; 4]]| {
        let mut words = brands.chunks_exact(4).enumerate().filter(|(i, _)| *i != 1);
        words.any(|(_, word)| wanted.iter().any(|brand| *brand == word))
    };
    let Some(major) = brands.first_chunk::<4>() else { return Sniffed::Unknown };
    if brand(&[b"avif", b"avis"]) {
        return Sniffed::Other("AVIF");
    }
    match major {
        b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"mif2" | b"msf1" | b"heif" => {
            Sniffed::Accepted(Format::Heif)
        }
        b"qt  " => Sniffed::Accepted(Format::Mov),
        b"crx " => Sniffed::Other("a raw photograph"),
        _ => Sniffed::Accepted(Format::Mp4),
    }
}

/// Tells whether a file that begins with `head` says by its own brand that it is MP4 with sound alone.
pub(crate) fn is_branded_sound(head: &[u8]) -> bool {
    head.get(4..8) == Some(b"ftyp") && matches!(head.get(8..12), Some(b"M4A " | b"M4B " | b"M4P "))
}

/// Tells whether `head` begins with the header of an MPEG audio frame of layer III.
pub(crate) fn is_layer_3_header(head: &[u8]) -> bool {
    let Some([0xFF, second, third, _]) = head.first_chunk() else { return false };
    let (version, layer) = ((second >> 3) & 3, (second >> 1) & 3);
    let (bit_rate, sample_rate) = (third >> 4, (third >> 2) & 3);
    second >> 5 == 7 && version != 1 && layer == 1 && bit_rate != 15 && sample_rate != 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brands_tell_the_relatives_of_mp4_apart() {
        let file = |brands: &[&[u8; 4]]| {
            let mut head = (8 + 4 * brands.len() as u32).to_be_bytes().to_vec();
            head.extend(b"ftyp");
            head.extend(brands.iter().copied().flatten());
            head.extend(b"avif");
            sniff(&head)
        };
        assert_eq!(file(&[b"isom", b"\0\0\x02\0", b"avc1"]), Sniffed::Accepted(Format::Mp4));
        assert_eq!(file(&[b"qt  ", b"\0\0\0\0", b"qt  "]), Sniffed::Accepted(Format::Mov));
        assert_eq!(file(&[b"mif1", b"\0\0\0\0", b"heic"]), Sniffed::Accepted(Format::Heif));
        assert_eq!(file(&[b"mif1", b"\0\0\0\0", b"avif"]), Sniffed::Other("AVIF"));
        // A minor version is no brand.
        assert_eq!(file(&[b"isom", b"avif"]), Sniffed::Accepted(Format::Mp4));
        assert_eq!(file(&[]), Sniffed::Unknown);
    }

    #[test]
    fn layer_3_is_told_from_what_begins_like_it() {
        assert_eq!(sniff(b"\xFF\xFB\x90\x64"), Sniffed::Accepted(Format::Mp3));
        assert_eq!(sniff(b"\xFF\xF1\x50\x80"), Sniffed::Other("AAC without a container"));
        assert_eq!(sniff(b"\xFF\xFEa\0"), Sniffed::Unknown);
        assert_eq!(sniff(b"\xFF"), Sniffed::Unknown);
        assert_eq!(sniff(b"just text"), Sniffed::Unknown);
    }
}
