//! What the sender of a file says it is.

use crate::decode::{Error, Format, Kind};

/// The most of a claim that an error repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// The content type and the name that came with a file.
///
/// Nothing is decoded by them. A content type that names a format, and the ending of a name when it is one that media
/// or documents have, must agree with the content; `image/*`, `video/*` and `audio/*` must agree with what kind of medium it
/// is. `application/octet-stream`, other types with a `*`, an ending of another sort and an absent claim say nothing. MP4
/// and MOV are one format here, as are HEIC and HEIF, since senders mix them up.
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

impl<'a> Claim<'a> {
    /// What the content type of a file that came from a web server is worth: servers go by endings, or send all files
    /// alike, so it only tells kinds of media apart, and says nothing where it names none.
    pub fn served(content_type: Option<&'a str>) -> Self {
        let kind = content_type.and_then(main_type);
        Self { content_type: kind.map(any_of), file_name: None }
    }

    /// Tells whether the sender says that the file is sound, in words that go with MP4 too.
    pub(crate) fn is_of_sound(&self) -> bool {
        self.content_type.and_then(main_type) == Some(Kind::Audio)
            || self.file_name.and_then(ending).is_some_and(|ending| ending == "m4a")
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
            && contradicts(content_type, found)
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

/// The kind of medium that the part of a content type before the slash names.
fn main_type(content_type: &str) -> Option<Kind> {
    let (main, _) = content_type.split_once('/')?;
    let kinds = [("image", Kind::Image), ("video", Kind::Video), ("audio", Kind::Audio)];
    kinds.into_iter().find(|(name, _)| main.trim().eq_ignore_ascii_case(name)).map(|(_, kind)| kind)
}

/// The content type of everything of a kind.
fn any_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Image => "image/*",
        Kind::Video => "video/*",
        Kind::Audio => "audio/*",
    }
}

/// Tells whether a file of format `found` is none that `content_type` may be said of.
fn contradicts(content_type: &str, found: Format) -> bool {
    if essence(content_type).ends_with("/*") {
        return main_type(content_type).is_some_and(|kind| !found.may_be(kind));
    }
    of_content_type(content_type).is_some_and(|claimed| claimed != family(found))
}

/// A content type without its parameters, in lower case.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
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
    Some(match essence(content_type).as_str() {
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
    fn a_kind_of_media_must_be_that_of_the_content() {
        for (content_type, agrees, contradicts) in [
            ("image/*", &[Format::Png, Format::Heif][..], &[Format::Mp4, Format::Wav][..]),
            ("Video/*; q=0.8", &[Format::Mp4, Format::Mov], &[Format::Jpeg, Format::Mp3]),
            ("audio/*", &[Format::Mp3, Format::Mp4], &[Format::WebP]),
            ("*/*", &[Format::Png, Format::Mp4, Format::Wav], &[]),
        ] {
            for found in agrees {
                assert_eq!(check(Some(content_type), None, *found), None, "{content_type} {found}");
            }
            for found in contradicts {
                let message = format!("the content type says {content_type:?}, and the content is {found}");
                assert_eq!(check(Some(content_type), None, *found), Some(message));
            }
        }
    }

    #[test]
    fn of_what_a_web_server_says_only_another_kind_of_media_contradicts() {
        let served = |content_type, found| Claim::served(content_type).check(found).is_ok();
        for content_type in
            [None, Some(""), Some("application/force-download"), Some("text/plain; charset=utf-8"), Some("jpeg")]
        {
            assert_eq!(Claim::served(content_type), Claim::default());
            assert!(served(content_type, Format::Png), "{content_type:?}");
        }
        for (content_type, found, agrees) in [
            ("image/jpeg", Format::Png, true),
            ("IMAGE/vnd.unknown", Format::Heif, true),
            ("image/png", Format::Mp4, false),
            ("video/mp4", Format::WebP, false),
            ("audio/ogg", Format::Wav, true),
            ("audio/mp4", Format::Mp4, true),
            ("video/mp4", Format::Mp3, false),
        ] {
            assert_eq!(served(Some(content_type), found), agrees, "{content_type} {found}");
        }
        assert!(Claim::served(Some("audio/aac")).is_of_sound());
    }

    #[test]
    fn a_long_claim_is_shortened() {
        let message = check(Some(&"x".repeat(5000)), None, Format::Png).unwrap();
        assert!(message.len() < 200, "{message}");
    }
}
