//! What the sender of a file says it is.

use crate::decode::{Error, Format};

/// The most of a claim that an error repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// The content type and the name that came with a file.
///
/// Nothing is decoded by them. A content type that names a format, and the ending of a name when it is one that media
/// or documents have, must agree with the content; `application/octet-stream`, a type with a `*`, an ending of another
/// sort and an absent claim say nothing. MP4 and MOV are one format here, as are HEIC and HEIF, since senders mix them up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claim<'a> {
    /// The content type, with or without parameters.
    pub content_type: Option<&'a str>,
    /// The file name, or a path or URL path that ends in it.
    pub file_name: Option<&'a str>,
}

/// What a claim comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Jpeg,
    Png,
    WebP,
    Heif,
    IsoMedia,
    Wav,
    Mp3,
    /// None of those that are accepted.
    Other,
}

impl Claim<'_> {
    /// Tells whether the sender says that the file is sound, in words that go with MP4 too.
    pub(crate) fn is_of_sound(&self) -> bool {
        let content_type = self.content_type.unwrap_or_default().trim_start().as_bytes();
        let is_audio = content_type.get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case(b"audio/"));
        is_audio || self.file_name.and_then(ending).is_some_and(|ending| ending == "m4a")
    }

    /// Checks the claims against what the content is.
    ///
    /// Errors: [`Error::Contradiction`].
    pub(crate) fn check(&self, found: Format) -> Result<(), Error> {
        let contradiction = |what, claimed: &str| {
            let claimed = claimed.chars().take(MAX_SHOWN_CHARS).collect();
            Err(Error::Contradiction { what, claimed, found })
        };
        if let Some(content_type) = self.content_type
            && of_content_type(content_type).is_some_and(|claimed| claimed != family(found))
        {
            return contradiction("content type", content_type);
        }
        if let Some(ending) = self.file_name.and_then(ending)
            && of_ending(&ending).is_some_and(|claimed| claimed != family(found))
        {
            return contradiction("file name", &format!(".{ending}"));
        }
        Ok(())
    }
}

fn family(format: Format) -> Family {
    match format {
        Format::Jpeg => Family::Jpeg,
        Format::Png => Family::Png,
        Format::WebP => Family::WebP,
        Format::Heif => Family::Heif,
        Format::Mp4 | Format::Mov => Family::IsoMedia,
        Format::Wav => Family::Wav,
        Format::Mp3 => Family::Mp3,
    }
}

fn of_content_type(content_type: &str) -> Option<Family> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(match essence.as_str() {
        "" | "application/octet-stream" | "binary/octet-stream" | "application/binary" => return None,
        wildcard if wildcard.contains('*') => return None,
        "image/jpeg" | "image/jpg" | "image/pjpeg" => Family::Jpeg,
        "image/png" | "image/x-png" | "image/apng" => Family::Png,
        "image/webp" => Family::WebP,
        "image/heic" | "image/heif" | "image/heic-sequence" | "image/heif-sequence" => Family::Heif,
        "video/mp4" | "video/quicktime" | "video/x-m4v" | "video/mov" | "application/mp4" | "audio/mp4"
        | "audio/m4a" | "audio/x-m4a" | "audio/mp4a-latm" => Family::IsoMedia,
        "audio/wav" | "audio/wave" | "audio/x-wav" | "audio/vnd.wave" | "audio/x-pn-wav" => Family::Wav,
        "audio/mpeg" | "audio/mp3" | "audio/x-mp3" | "audio/mpeg3" | "audio/x-mpeg" => Family::Mp3,
        _ => Family::Other,
    })
}

/// The ending of a name, in lower case, when there is one.
fn ending(name: &str) -> Option<String> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let (stem, ending) = name.rsplit_once('.')?;
    (!stem.is_empty() && !ending.is_empty()).then(|| ending.to_ascii_lowercase())
}

fn of_ending(ending: &str) -> Option<Family> {
    Some(match ending {
        "jpg" | "jpeg" | "jpe" | "jfif" => Family::Jpeg,
        "png" | "apng" => Family::Png,
        "webp" => Family::WebP,
        "heic" | "heif" | "hif" => Family::Heif,
        "mp4" | "m4v" | "mov" | "qt" | "m4a" | "3gp" => Family::IsoMedia,
        "wav" | "wave" => Family::Wav,
        "mp3" => Family::Mp3,
        "gif" | "bmp" | "tif" | "tiff" | "avif" | "svg" | "ico" | "jxl" | "jp2" | "psd" | "dng" | "cr2" | "nef" => {
            Family::Other
        }
        "mkv" | "webm" | "avi" | "wmv" | "flv" | "mpg" | "mpeg" | "ts" | "m2ts" | "ogv" => Family::Other,
        "ogg" | "opus" | "flac" | "aac" | "wma" | "aif" | "aiff" | "amr" | "mid" => Family::Other,
        "txt" | "md" | "csv" | "json" | "html" | "htm" | "xml" | "pdf" | "doc" | "docx" | "zip" | "gz" | "m3u"
        | "m3u8" | "exe" | "js" | "py" | "sh" => Family::Other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: Option<&str>, file_name: Option<&str>, found: Format) -> Option<String> {
        Claim { content_type, file_name }.check(found).err().map(|error| error.to_string())
    }

    #[test]
    fn a_claim_must_agree_with_the_content() {
        assert_eq!(check(Some("Image/JPG; q=1"), Some("photo.JPEG"), Format::Jpeg), None);
        assert_eq!(check(Some("video/mp4"), Some("a.b.MOV"), Format::Mov), None);
        let message = "the content type says \"image/png\", and the content is JPEG";
        assert_eq!(check(Some("image/png"), None, Format::Jpeg).unwrap(), message);
        let message = "the file name says \".txt\", and the content is WAV";
        assert_eq!(check(None, Some("C:\\notes.txt"), Format::Wav).unwrap(), message);
        assert!(check(Some("text/plain"), None, Format::Png).is_some());
    }

    #[test]
    fn what_claims_nothing_is_not_held_against_the_file() {
        for content_type in [None, Some(""), Some("application/octet-stream"), Some("image/*")] {
            for name in [None, Some("blob"), Some(".png"), Some("IMG.2024"), Some("a.png/upload"), Some("x.")] {
                assert_eq!(check(content_type, name, Format::Jpeg), None, "{content_type:?} {name:?}");
            }
        }
    }

    #[test]
    fn a_long_claim_is_shortened() {
        let message = check(Some(&"x".repeat(5000)), None, Format::Png).unwrap();
        assert!(message.len() < 200, "{message}");
    }
}
