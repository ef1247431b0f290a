//! Storing a file under a key where nothing lies yet.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::primitives::{ByteStream, Length};
use aws_sdk_s3::types::ServerSideEncryption;
use aws_smithy_types::base64;
use clapboard_jobs::blob::Put;
use clapboard_jobs::{BlobError, BlobKey};
use sha2::{Digest, Sha256};

use super::error::{Failure, chain};
use super::options::{S3Options, Sse};
use super::support::{self, PutSupport};
use super::watch::ToldBody;
use super::{Bucket, link, multipart, read};
use crate::hash::{self, CopyError, PartHasher, Sha256Sum};
use crate::ticks::Ticks;

const DOING: &str = "storing an object";

/// Under which name an object's SHA-256 stands in its metadata.
const SHA256_METADATA: &str = "sha256";

/// How much of a file is read at once.
const READ_CHUNK_BYTES: usize = 128 * 1024;

/// How often a put is made that met another one for the same key.
const TRIES: u32 = 5;

/// The first pause after such a meeting; it doubles from then on.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The most that S3 takes in one request.
const MAX_PART_BYTES: u64 = 5 * 1024 * MIB;

/// The most parts that an object may have.
const MAX_PARTS: u64 = 10_000;

const MIB: u64 = 1024 * 1024;

/// An object that is to be: where, what, and how to know it again.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) size_bytes: u64,
    pub(super) sha256: Sha256Sum,
}

/// A file that is to be an object. It is read again for every try, so that no more than a few chunks are in memory.
#[derive(Debug, Clone)]
pub(super) struct Source {
    file: PathBuf,
    size_bytes: u64,
    sha256: Sha256Sum,
    part_size: u64,
    /// The hash of each part; none when the object goes in one piece.
    part_sums: Vec<Sha256Sum>,
    /// Told of every chunk that is read, be it hashed or sent, and of every part that has arrived.
    pub(super) ticks: Ticks,
}

/// A piece of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// From 1 on.
    pub(super) number: i32,
    offset: u64,
    pub(super) length: u64,
    pub(super) sha256: Sha256Sum,
}

impl Part {
    /// Returns the one part of a small object.
    pub(super) fn only(object: &Object) -> Self {
        Self { number: 1, offset: 0, length: object.size_bytes, sha256: object.sha256 }
    }
}

impl Source {
    /// Reads a file once, for its length and hashes.
    async fn read(file: &Path, options: &S3Options, ticks: Ticks) -> Result<Self, BlobError> {
        let path = file.to_owned();
        let (threshold, wanted) = (options.multipart_threshold_bytes, options.part_size_bytes);
        let reading = tokio::task::spawn_blocking(move || Self::scan(&path, threshold, wanted, ticks));
        let read = reading.await.map_err(|error| BlobError::Unavailable { doing: DOING, source: error.into() })?;
        read.map_err(|source| BlobError::Source { path: file.to_owned(), source })
    }

    fn scan(path: &Path, threshold: u64, wanted_part_size: u64, ticks: Ticks) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let size_bytes = file.metadata()?.len();
        let part_size = part_size(size_bytes, wanted_part_size);
        if part_size > MAX_PART_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let moved = || ticks.tick();
        let (seen, part_sums) = if size_bytes > threshold {
            let mut parts = PartHasher::new(part_size);
            (hash::copy(&mut file, &mut parts, &moved), parts.finish())
        } else {
            (hash::copy(&mut file, &mut io::sink(), &moved), Vec::new())
        };
        let seen = seen.map_err(|(CopyError::Read(error) | CopyError::Write(error))| error)?;
        if seen.size_bytes != size_bytes {
            return Err(io::Error::other("the file is still being written"));
        }
        Ok(Self { file: path.to_owned(), size_bytes, sha256: seen.sha256, part_size, part_sums, ticks })
    }

    fn is_large(&self) -> bool {
        !self.part_sums.is_empty()
    }

    /// Returns the parts of a large file.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> {
        (0_i32..).zip(&self.part_sums).map(|(index, &sha256)| {
            let offset = u64::from(index.unsigned_abs()) * self.part_size;
            Part { number: index + 1, offset, length: self.part_size.min(self.size_bytes - offset), sha256 }
        })
    }

    /// Returns the bytes of a part as they are read from the file.
    pub(super) async fn part_body(&self, part: Part) -> Result<ByteStream, Failure> {
        self.body(part.offset, part.length).await
    }

    async fn body(&self, offset: u64, length: u64) -> Result<ByteStream, Failure> {
        if length == 0 {
            return Ok(ByteStream::default());
        }
        let body = ByteStream::read_from().path(&self.file).offset(offset).length(Length::Exact(length));
        let body = body.buffer_size(READ_CHUNK_BYTES).build().await;
        let body = body.map_err(|error| Failure::Unsent { text: chain(&error) })?;
        let ticks = self.ticks.clone();
        // Also around the bodies of the client's own further tries.
        let told = body.into_inner().map_preserve_contents(move |body| {
            let ticks = ticks.clone();
            ToldBody::around(body, move || ticks.tick())
        });
        Ok(ByteStream::new(told))
    }
}

/// Returns how large the parts of a file must be: as wanted, or more when there would be too many.
fn part_size(size_bytes: u64, wanted: u64) -> u64 {
    wanted.max(size_bytes.div_ceil(MAX_PARTS).div_ceil(MIB) * MIB)
}

/// Stores a file's bytes under a key.
pub(super) async fn put_file(bucket: &Arc<Bucket>, key: &BlobKey, file: &Path, ticks: Ticks) -> Result<Put, BlobError> {
    let failed = |failure: Failure| failure.blob_error(DOING);
    let source = Source::read(file, &bucket.options, ticks.clone()).await?;
    let support = support::of(bucket).await.map_err(failed)?;
    let object = Object {
        path: bucket.path(key),
        content_type: link::content_type(key),
        size_bytes: source.size_bytes,
        sha256: source.sha256,
    };
    let put = |created| Put { created, size_bytes: object.size_bytes, sha256: object.sha256.to_string() };

    // Before a large file is sent for nothing, and where nobody else would look.
    let look_first = source.is_large() || !support.conditional;
    let mut tries = 1;
    let mut pause = FIRST_PAUSE;
    loop {
        if look_first && is_there(bucket, key, &object, &ticks).await? {
            return Ok(put(false));
        }
        let sent = if source.is_large() {
            multipart::upload(bucket, &object, &source, support).await
        } else {
            let body = source.body(0, source.size_bytes).await.map_err(failed)?;
            send(bucket, &object, body, support).await
        };
        let Err(failure) = sent else {
            return Ok(put(true));
        };
        if failure.may_have_stored() && is_there(bucket, key, &object, &ticks).await? {
            return Ok(put(false));
        }
        // What was in the way is gone again, or both were asked to come back.
        let met_another = failure.is_concurrent() || failure.is_precondition_failed();
        if !met_another || tries == TRIES {
            return Err(failed(failure));
        }
        tokio::time::sleep(pause).await;
        tries += 1;
        pause *= 2;
    }
}

/// Sends an object in one piece.
pub(super) async fn send(
    bucket: &Bucket,
    object: &Object,
    body: ByteStream,
    support: PutSupport,
) -> Result<(), Failure> {
    let length = i64::try_from(object.size_bytes).map_err(|_| Failure::Unsent { text: "it is too long".to_owned() })?;
    let (encryption, kms_key) = encryption(&bucket.options);
    let mut request = bucket
        .client
        .put_object()
        .bucket(&bucket.options.bucket)
        .key(&object.path)
        .content_type(object.content_type)
        .content_length(length)
        .set_metadata(Some(metadata(object)))
        .set_server_side_encryption(encryption)
        .set_ssekms_key_id(kms_key)
        .body(body);
    if support.checksum {
        request = request.checksum_sha256(checksum(&object.sha256));
    }
    if support.conditional {
        request = request.if_none_match("*");
    }
    request.send().await.map_err(Failure::of)?;
    Ok(())
}

/// Returns the metadata of an object: what [`lying`] knows it by.
pub(super) fn metadata(object: &Object) -> HashMap<String, String> {
    HashMap::from([(SHA256_METADATA.to_owned(), object.sha256.to_string())])
}

/// Returns a hash as S3's headers hold it.
pub(super) fn checksum(sum: &Sha256Sum) -> String {
    base64::encode(sum.0)
}

/// Returns how an object is to be encrypted, and with which key.
pub(super) fn encryption(options: &S3Options) -> (Option<ServerSideEncryption>, Option<String>) {
    match &options.sse {
        None => (None, None),
        Some(Sse::Aes256) => (Some(ServerSideEncryption::Aes256), None),
        Some(Sse::Kms { key_id }) => (Some(ServerSideEncryption::AwsKms), key_id.clone()),
    }
}

/// Tells whether the object is there already: our own put, tried again. A server that keeps no metadata is read from.
///
/// Errors: [`BlobError::Conflict`] when something else is there.
async fn is_there(bucket: &Bucket, key: &BlobKey, object: &Object, ticks: &Ticks) -> Result<bool, BlobError> {
    let failed = |failure: Failure| failure.blob_error(DOING);
    let conflict = || Err(BlobError::Conflict { key: key.clone() });
    let Some(found) = read::look(bucket, &object.path).await.map_err(failed)? else {
        return Ok(false);
    };
    if read::size(found.content_length()).map_err(failed)? != object.size_bytes {
        return conflict();
    }
    let same = match found.metadata().and_then(|metadata| metadata.get(SHA256_METADATA)) {
        Some(sum) => *sum == object.sha256.to_string(),
        None => match hash_of(bucket, &object.path, ticks).await.map_err(failed)? {
            Some(sum) => sum == object.sha256,
            None => return Ok(false),
        },
    };
    if same { Ok(true) } else { conflict() }
}

/// Reads an object and returns its hash.
async fn hash_of(bucket: &Bucket, path: &str, ticks: &Ticks) -> Result<Option<Sha256Sum>, Failure> {
    let found = bucket.client.get_object().bucket(&bucket.options.bucket).key(path).send().await;
    let mut body = match found.map_err(Failure::of) {
        Ok(output) => output.body,
        Err(failure) if failure.is_missing_object() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let mut hasher = Sha256::new();
    while let Some(bytes) = body.try_next().await.map_err(|error| Failure::NoAnswer { text: chain(&error) })? {
        hasher.update(&bytes);
        ticks.tick();
    }
    Ok(Some(Sha256Sum::of(hasher)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_has_too_many_parts() {
        assert_eq!(part_size(1, 5 * MIB), 5 * MIB);
        assert_eq!(part_size(10_000 * 5 * MIB, 5 * MIB), 5 * MIB);
        assert_eq!(part_size(10_000 * 5 * MIB + 1, 5 * MIB), 6 * MIB);
        for gib in [1, 100, 1000, 50_000] {
            let size = gib * 1024 * MIB - 1;
            assert!(size.div_ceil(part_size(size, 16 * MIB)) <= MAX_PARTS, "{gib} GiB");
        }
    }

    #[test]
    fn the_parts_of_a_file_are_all_of_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, [7; 25]).unwrap();
        let source = Source { part_size: 10, ..Source::scan(&file, 100, 5 * MIB, Ticks::unheard()).unwrap() };
        assert!(!source.is_large());
        let source = Source { part_sums: vec![source.sha256; 3], ..source };
        let parts: Vec<_> = source.parts().map(|part| (part.number, part.offset, part.length)).collect();
        assert_eq!(parts, [(1, 0, 10), (2, 10, 10), (3, 20, 5)]);
    }

    #[test]
    fn a_checksum_is_written_in_base64() {
        // FIPS 180-2, appendix B.1, in base64.
        let abc = hash::copy(&mut b"abc".as_slice(), &mut io::sink(), &|| ()).unwrap();
        assert_eq!(checksum(&abc.sha256), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }
}
