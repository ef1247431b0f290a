//! Sending an object in parts.
//!
//! The object appears when the upload is completed, under the same condition as an object in one piece. Until then
//! there are only parts, which are removed when the upload fails or is dropped.

use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;

use super::Bucket;
use super::error::Failure;
use super::put::{self, Object, Part, Source};
use super::support::PutSupport;

/// How many parts are under way at once.
const PARTS_AT_ONCE: usize = 4;

/// Sends a large file and makes it an object.
pub(super) async fn upload(
    bucket: &Arc<Bucket>,
    object: &Object,
    source: &Source,
    support: PutSupport,
) -> Result<(), Failure> {
    let mut upload = Upload::begin(bucket, object, support).await?;
    let sent = match upload.send(source, support).await {
        Ok(parts) => upload.complete(parts, support).await,
        Err(failure) => Err(failure),
    };
    match sent {
        Ok(()) => {
            upload.is_open = false;
            Ok(())
        }
        // Dropping it asks for its end in the background: a server that has stalled would not answer that soon.
        Err(failure @ Failure::Stalled(_)) => Err(failure),
        Err(failure) => {
            upload.abort().await;
            Err(failure)
        }
    }
}

/// Where the parts of an upload are.
#[derive(Clone)]
struct Place {
    bucket: Arc<Bucket>,
    path: String,
    id: String,
}

impl Place {
    /// Removes the parts. What cannot be removed is left to the lifecycle rule of the bucket.
    async fn abort(self) {
        let client = &self.bucket.client;
        let request = client.abort_multipart_upload().bucket(&self.bucket.options.bucket).key(&self.path);
        if let Err(failure) = request.upload_id(&self.id).send().await.map_err(Failure::of)
            && !failure.is_missing_upload()
        {
            tracing::warn!(path = self.path, error = %failure, "could not remove the parts of an unfinished upload");
        }
    }
}

/// An upload that has begun. Dropped, its parts are removed in the background.
pub(super) struct Upload {
    place: Place,
    is_open: bool,
}

impl Upload {
    /// Begins an upload.
    ///
    /// It begins in a task of its own: who stops waiting for the server's answer would not learn what to remove.
    pub(super) async fn begin(bucket: &Arc<Bucket>, object: &Object, support: PutSupport) -> Result<Self, Failure> {
        let (bucket, object) = (Arc::clone(bucket), object.clone());
        let begun = tokio::spawn(async move {
            let (encryption, kms_key) = put::encryption(&bucket.options);
            let request = bucket.client.create_multipart_upload().bucket(&bucket.options.bucket).key(&object.path);
            let begun = request
                .content_type(object.content_type)
                .set_metadata(Some(put::metadata(&object)))
                .set_checksum_algorithm(support.checksum.then_some(ChecksumAlgorithm::Sha256))
                .set_server_side_encryption(encryption)
                .set_ssekms_key_id(kms_key)
                .send()
                .await
                .map_err(Failure::of)?;
            let id = begun.upload_id.ok_or_else(|| Failure::nonsense("an upload has no name"))?;
            let place = Place { bucket, path: object.path, id };
            Ok(Self { place, is_open: true })
        });
        begun.await.map_err(|error| Failure::Unsent { text: error.to_string() })?
    }

    /// Sends all parts of a file, some at once.
    async fn send(&self, source: &Source, support: PutSupport) -> Result<Vec<CompletedPart>, Failure> {
        let mut waiting = source.parts();
        let mut under_way = FuturesUnordered::new();
        let mut sent = Vec::new();
        loop {
            while under_way.len() < PARTS_AT_ONCE
                && let Some(part) = waiting.next()
            {
                under_way.push(self.send_part(source, part, support));
            }
            let Some(part) = under_way.try_next().await? else {
                break;
            };
            sent.push(part);
        }
        sent.sort_by_key(CompletedPart::part_number);
        Ok(sent)
    }

    async fn send_part(&self, source: &Source, part: Part, support: PutSupport) -> Result<CompletedPart, Failure> {
        let body = source.part_body(part).await?;
        let sent = self.send_bytes(part, body, support).await?;
        source.ticks.tick();
        Ok(sent)
    }

    /// Sends the bytes of one part.
    pub(super) async fn send_bytes(
        &self,
        part: Part,
        body: ByteStream,
        support: PutSupport,
    ) -> Result<CompletedPart, Failure> {
        let Place { bucket, path, id } = &self.place;
        let length = i64::try_from(part.length).map_err(|_| Failure::Unsent { text: "it is too long".to_owned() })?;
        let checksum = support.checksum.then(|| put::checksum(&part.sha256));
        let request = bucket.client.upload_part().bucket(&bucket.options.bucket).key(path).upload_id(id);
        let sent = request
            .part_number(part.number)
            .content_length(length)
            .set_checksum_sha256(checksum.clone())
            .body(body)
            .send()
            .await
            .map_err(Failure::of)?;
        let sent = CompletedPart::builder().set_e_tag(sent.e_tag).part_number(part.number);
        Ok(sent.set_checksum_sha256(checksum).build())
    }

    /// Makes the parts an object.
    pub(super) async fn complete(&self, parts: Vec<CompletedPart>, support: PutSupport) -> Result<(), Failure> {
        let Place { bucket, path, id } = &self.place;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let request = bucket.client.complete_multipart_upload().bucket(&bucket.options.bucket).key(path);
        let request = request.upload_id(id).multipart_upload(parts);
        if support.conditional {
            match request.clone().if_none_match("*").send().await.map_err(Failure::of) {
                Ok(_) => return Ok(()),
                // Known for single objects only. The key has been looked at before.
                Err(failure) if failure.is_not_implemented() => {}
                Err(failure) => return Err(failure),
            }
        }
        request.send().await.map_err(Failure::of)?;
        Ok(())
    }

    /// Removes the parts.
    pub(super) async fn abort(mut self) {
        self.is_open = false;
        self.place.clone().abort().await;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_open
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(self.place.clone().abort());
        }
    }
}
