//! Files that a request carries in a URL (RFC 2397).

use std::borrow::Cow;
use std::io::{self, Cursor, Read};

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::read::DecoderReader;
use percent_encoding::percent_decode;

use super::TooLarge;
use super::spool::{Spool, Spooled};

/// How many bytes are decoded at a time.
const STEP_BYTES: usize = 64 << 10;
/// With or without padding: clients differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A `data:` URL whose head has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataUrl {
    text: String,
    /// Where the data begins.
    data_at: usize,
    is_base64: bool,
    /// The MIME type, without parameters.
    pub(crate) media_type: String,
}

/// Why the data was not written down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataUrlError {
    /// It is no base64.
    #[error("the data is not base64")]
    Encoding,
    /// It is more than its kind may be.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// It could not be written down here.
    #[error("could not keep the file")]
    Spool(#[source] io::Error),
}

impl DataUrl {
    /// Reads the head of a URL; none when it is no `data:` URL, or has no data.
    pub(crate) fn parse(text: String) -> Option<Self> {
        let scheme = text.get(..5)?;
        if !scheme.eq_ignore_ascii_case("data:") {
            return None;
        }
        let comma = text.find(',')?;
        let head = &text[5..comma];
        let media_type = head.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_base64 = head.split(';').skip(1).any(|parameter| parameter.trim().eq_ignore_ascii_case("base64"));
        Some(Self { data_at: comma + 1, is_base64, media_type, text })
    }

    /// Decodes the data into a file of at most `most_bytes`. Blocks.
    ///
    /// Errors: [`DataUrlError`].
    pub(super) fn write(&self, most_bytes: u64, spool: &Spool) -> Result<Spooled, DataUrlError> {
        let data: Cow<'_, [u8]> = match self.text.as_bytes()[self.data_at..].contains(&b'%') {
            true => percent_decode(&self.text.as_bytes()[self.data_at..]).collect::<Vec<u8>>().into(),
            false => self.text.as_bytes()[self.data_at..].into(),
        };
        if !self.is_base64 {
            return copy(Cursor::new(data), most_bytes, spool);
        }
        // Some clients break the lines of what they encode. A space is nothing of theirs: it was a plus sign that was not
        // escaped.
        let data: Cow<'_, [u8]> = match data.iter().any(is_line_break) {
            true => data.iter().copied().filter(|byte| !is_line_break(byte)).collect::<Vec<u8>>().into(),
            false => data,
        };
        copy(DecoderReader::new(Cursor::new(data), &BASE64), most_bytes, spool)
    }
}

fn is_line_break(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n' | b'\t')
}

fn copy(mut from: impl Read, most_bytes: u64, spool: &Spool) -> Result<Spooled, DataUrlError> {
    let mut file = spool.begin();
    let mut step = vec![0; STEP_BYTES];
    loop {
        // Reading memory fails only where it is no base64.
        let read = from.read(&mut step).map_err(|_| DataUrlError::Encoding)?;
        if read == 0 {
            return file.finish_blocking().map_err(DataUrlError::Spool);
        }
        if file.size_bytes() + read as u64 > most_bytes {
            return Err(TooLarge(most_bytes).into());
        }
        file.write_blocking(&step[..read]).map_err(DataUrlError::Spool)?;
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &str, most_bytes: u64) -> Result<Vec<u8>, String> {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path().to_owned());
        let url = DataUrl::parse(text.to_owned()).unwrap();
        let file = url.write(most_bytes, &spool).map_err(|error| error.to_string());
        let bytes = file.map(|file| std::fs::read(file.path()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was left");
        bytes
    }

    #[test]
    fn heads_are_read() {
        for (text, media_type, is_base64) in [
            ("data:image/png;base64,AAAA", "image/png", true),
            ("DATA:Image/PNG;charset=x;BASE64,AAAA", "image/png", true),
            ("data:,hello", "", false),
            ("data:audio/wav,%00", "audio/wav", false),
        ] {
            let url = DataUrl::parse(text.to_owned()).unwrap();
            assert_eq!((url.media_type.as_str(), url.is_base64), (media_type, is_base64), "{text}");
        }
        for text in ["", "data", "data:", "data:image/png;base64", "https://a/,", "dät\u{e4}:,"] {
            assert_eq!(DataUrl::parse(text.to_owned()), None, "{text}");
        }
    }

    #[test]
    fn data_is_decoded_as_clients_write_it() {
        for text in [
            "data:image/png;base64,aGVsbG8=",
            "data:image/png;base64,aGVsbG8",
            "data:image/png;base64,aGVs\r\nbG8=\n",
            "data:image/png;base64,aGVsbG8%3D",
            "data:image/png,hell%6F",
        ] {
            assert_eq!(decoded(text, 5).unwrap(), b"hello", "{text}");
        }
        assert_eq!(decoded("data:image/png;base64,", 5).unwrap(), b"");
        for text in
            ["data:image/png;base64,aGV*bG8=", "data:image/png;base64,aGVs bG8=", "data:image/png;base64,aGVs%20bG8="]
        {
            assert_eq!(decoded(text, 5).unwrap_err(), "the data is not base64", "{text}");
        }
        let refused = decoded("data:image/png;base64,aGVsbG8=", 4).unwrap_err();
        assert_eq!(refused, "the file has more than 4 bytes, which is as many as are accepted");
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200_000)) {
            let text = format!("data:video/mp4;base64,{}", base64::engine::general_purpose::STANDARD.encode(&bytes));
            prop_assert_eq!(decoded(&text, 200_000).unwrap(), bytes);
        }
    }
}
