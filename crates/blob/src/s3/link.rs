//! Addresses that anybody can download from.

use std::time::Duration;

use aws_sdk_s3::presigning::PresigningConfig;
use clapboard_jobs::BlobKey;

use super::Bucket;
use super::error::{Failure, chain};

/// The longest life of a signature.
const MAX_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The shortest: a signature counts whole seconds.
const MIN_LIFE: Duration = Duration::from_secs(1);

/// Signs an address of an object.
pub(super) async fn link(bucket: &Bucket, key: &BlobKey, life: Duration, file_name: &str) -> Result<String, Failure> {
    let life = life.clamp(MIN_LIFE, MAX_LIFE);
    let life = PresigningConfig::expires_in(life).map_err(|error| Failure::Unsent { text: chain(&error) })?;
    let request = bucket.client.get_object().bucket(&bucket.options.bucket).key(bucket.path(key));
    let request = request.response_content_disposition(attachment(file_name));
    let signed = request.response_content_type(content_type(key)).presigned(life).await.map_err(Failure::of)?;
    Ok(signed.uri().to_owned())
}

/// Returns the media type of what lies under a key.
pub(super) fn content_type(key: &BlobKey) -> &'static str {
    let (_, extension) = key.as_str().rsplit_once('.').unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "wav" => "audio/wav",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

/// Returns a header that has a browser save the file under its name (RFC 6266): a plain name for every reader, and the
/// true one when that is not plain.
fn attachment(file_name: &str) -> String {
    let plain: String = file_name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let mut header = format!("attachment; filename=\"{plain}\"");
    if plain != file_name {
        header.push_str("; filename*=UTF-8''");
        for byte in file_name.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
                header.push(char::from(byte));
            } else {
                header.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    header
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ' ' | '(' | ')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_cannot_leave_its_header() {
        assert_eq!(attachment("clip (1).mp4"), "attachment; filename=\"clip (1).mp4\"");
        assert_eq!(attachment("ä.mp4"), "attachment; filename=\"_.mp4\"; filename*=UTF-8''%C3%A4.mp4");
        let hostile = attachment("a\"; x=\"\r\nset-cookie: y");
        assert!(!hostile.contains(['\r', '\n']) && hostile.matches('"').count() == 2, "{hostile}");
    }

    #[test]
    fn a_media_type_follows_the_extension() {
        let of = |key: &str| content_type(&key.parse().unwrap());
        assert_eq!(of("v1/a/1-0a1b2c3d.mp4"), "video/mp4");
        assert_eq!(of("v1/a/1-0a1b2c3d-step4.safetensors"), "application/octet-stream");
        assert_eq!(of("v1/a/plain"), "application/octet-stream");
    }
}
