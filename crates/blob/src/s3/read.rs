//! Looking at objects and reading them.

use std::io;
use std::ops::Range;

use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use clapboard_jobs::blob::{self, ObjectInfo, Opened};
use clapboard_jobs::{BlobError, BlobKey, Micros};
use futures_util::stream;

use super::Bucket;
use super::error::{Failure, chain};

/// Above this, no server can be asked for a byte: S3's own numbers are signed.
const LAST_BYTE: u64 = i64::MAX as u64;

/// Asks for what the server says of an object; none when there is none.
pub(super) async fn look(bucket: &Bucket, path: &str) -> Result<Option<HeadObjectOutput>, Failure> {
    let found = bucket.client.head_object().bucket(&bucket.options.bucket).key(path).send().await;
    match found.map_err(Failure::of) {
        Ok(output) => Ok(Some(output)),
        Err(failure) if failure.is_missing_object() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns what is known of an object.
pub(super) async fn head(bucket: &Bucket, key: &BlobKey) -> Result<Option<ObjectInfo>, Failure> {
    let Some(found) = look(bucket, &bucket.path(key)).await? else {
        return Ok(None);
    };
    let size_bytes = size(found.content_length)?;
    Ok(Some(ObjectInfo { key: key.clone(), size_bytes, modified_at: moment(found.last_modified.as_ref())? }))
}

/// Opens an object, whole or the given bytes of it.
pub(super) async fn open(
    bucket: &Bucket,
    key: &BlobKey,
    range: Option<Range<u64>>,
) -> Result<Option<Opened>, BlobError> {
    let failed = |failure: Failure| failure.blob_error("opening an object");
    let outside = |range, size_bytes| BlobError::RangeOutside { key: key.clone(), range, size_bytes };
    // S3 cannot be asked for no bytes, so the object is only looked at.
    if let Some(range) = range.clone()
        && (range.is_empty() || range.end > LAST_BYTE)
    {
        let Some(info) = head(bucket, key).await.map_err(failed)? else {
            return Ok(None);
        };
        if range != (0..info.size_bytes) {
            return Err(outside(range, info.size_bytes));
        }
        return Ok(Some(Opened { info, range, stream: Box::pin(stream::empty()) }));
    }

    let mut request = bucket.client.get_object().bucket(&bucket.options.bucket).key(bucket.path(key));
    if let Some(range) = &range {
        request = request.range(format!("bytes={}-{}", range.start, range.end - 1));
    }
    let output = match request.send().await.map_err(Failure::of) {
        Ok(output) => output,
        Err(failure) if failure.is_missing_object() => return Ok(None),
        Err(failure) if failure.is_range_outside() => {
            let info = head(bucket, key).await.map_err(failed)?;
            return info.map_or(Ok(None), |info| Err(outside(range.unwrap_or_default(), info.size_bytes)));
        }
        Err(failure) => return Err(failed(failure)),
    };
    let length = size(output.content_length).map_err(failed)?;
    let (held, size_bytes) = match output.content_range.as_deref() {
        Some(text) => {
            content_range(text).ok_or_else(|| failed(Failure::nonsense(format!("content-range {text:?}"))))?
        }
        None => (0..length, length),
    };
    let range = range.unwrap_or(0..size_bytes);
    if range.end > size_bytes {
        return Err(outside(range, size_bytes));
    }
    if held != range || length != held.end - held.start {
        let text = format!("bytes {}..{} instead of {}..{}", held.start, held.end, range.start, range.end);
        return Err(failed(Failure::nonsense(text)));
    }
    let modified_at = moment(output.last_modified.as_ref()).map_err(failed)?;
    let info = ObjectInfo { key: key.clone(), size_bytes, modified_at };
    Ok(Some(Opened { info, range, stream: exactly(output.body, length) }))
}

/// Reads `bytes 3-7/10`: which bytes, of how many.
fn content_range(text: &str) -> Option<(Range<u64>, u64)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    Some((first..last.checked_add(1)?, size.parse().ok()?))
}

/// Passes on a body that must have `length` bytes; with fewer or more, it ends with an error.
fn exactly(body: ByteStream, length: u64) -> blob::ByteStream {
    Box::pin(stream::try_unfold((body, length), |(mut body, left)| async move {
        match body.try_next().await {
            Ok(Some(bytes)) => {
                let left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidData, "the object has more bytes than announced")
                })?;
                Ok(Some((bytes, (body, left))))
            }
            Ok(None) if left == 0 => Ok(None),
            Ok(None) => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("the object ended {left} bytes early")))
            }
            Err(error) => Err(io::Error::other(chain(&error))),
        }
    }))
}

pub(super) fn size(length: Option<i64>) -> Result<u64, Failure> {
    length.and_then(|length| u64::try_from(length).ok()).ok_or_else(|| Failure::nonsense("it names no length"))
}

pub(super) fn moment(modified: Option<&DateTime>) -> Result<Micros, Failure> {
    let modified = modified.ok_or_else(|| Failure::nonsense("it names no time"))?;
    let micros = modified.as_nanos().div_euclid(1000);
    Ok(Micros(i64::try_from(micros).map_err(|_| Failure::nonsense("its time is beyond all times"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_is_read() {
        assert_eq!(content_range("bytes 3-7/10"), Some((3..8, 10)));
        for wrong in ["", "bytes 3-7", "bytes */10", "items 3-7/10", "bytes 3-7/*", "bytes 0-18446744073709551615/1"] {
            assert_eq!(content_range(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_time_keeps_its_microseconds() {
        let modified = DateTime::from_secs_and_nanos(1_764_499_200, 123_456_789);
        assert_eq!(moment(Some(&modified)).unwrap(), Micros(1_764_499_200_123_456));
    }
}
