//! Whether a JPEG file has its end: decoders fill in what is missing, which nobody wants to see.

use std::io::{self, BufRead, Read};

/// Walks the segments of a JPEG file to its end marker; what comes after it is not looked at.
pub(super) fn is_complete(file: &mut impl BufRead) -> io::Result<bool> {
    match walk(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends well at the end marker, and with an error at the end of the file.
fn walk(file: &mut impl BufRead) -> io::Result<()> {
    loop {
        // Entropy-coded bytes, and padding between segments: both reach to the next marker.
        if file.skip_until(0xFF)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut marker = 0xFF;
        while marker == 0xFF {
            marker = byte(file)?;
        }
        match marker {
            0xD9 => return Ok(()),
            // A stuffed zero, a restart, or the start of the image: no segment.
            0x00 | 0x01 | 0xD0..=0xD8 => {}
            _ => {
                let length = u64::from(u16::from_be_bytes([byte(file)?, byte(file)?]));
                let body = length.saturating_sub(2);
                if io::copy(&mut Read::by_ref(file).take(body), &mut io::sink())? != body {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

fn byte(file: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(bytes: &[u8]) -> bool {
        is_complete(&mut &bytes[..]).unwrap()
    }

    #[test]
    fn only_the_picture_s_own_end_marker_counts() {
        let thumbnail = b"\xFF\xE1\x00\x06\xFF\xD8\xFF\xD9";
        let whole =
            [b"\xFF\xD8", &thumbnail[..], b"\xFF\xDA\x00\x03\x00", b"12\xFF\x0034\xFF\xD05", b"\xFF\xD9tail"].concat();
        assert!(complete(&whole));
        for length in 0..whole.len() - 4 {
            assert!(!complete(&whole[..length]), "{length}");
        }
    }
}
