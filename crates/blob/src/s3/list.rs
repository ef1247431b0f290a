//! Listing objects in the order of their keys.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use clapboard_jobs::BlobKey;
use clapboard_jobs::blob::ObjectInfo;

use super::Bucket;
use super::error::Failure;
use super::read;

/// The most names that S3 gives at once.
const MAX_PAGE: usize = 1000;

/// Asks for up to `limit` objects whose paths begin with the store's root and `prefix` and sort after `after`.
pub(super) async fn page(
    bucket: &Bucket,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<ListObjectsV2Output, Failure> {
    let limit = i32::try_from(limit.min(MAX_PAGE)).expect("a page is short");
    let request = bucket.client.list_objects_v2().bucket(&bucket.options.bucket).max_keys(limit);
    let request = request.prefix(format!("{}{prefix}", bucket.root)).set_start_after(after.map(str::to_owned));
    request.send().await.map_err(Failure::of)
}

/// Returns up to `limit` objects whose keys begin with `prefix` and sort after `after`.
///
/// Each page begins after the last name of the one before it, which every server understands, instead of with a token.
pub(super) async fn list(
    bucket: &Bucket,
    prefix: &str,
    after: Option<&BlobKey>,
    limit: usize,
) -> Result<Vec<ObjectInfo>, Failure> {
    let mut found = Vec::new();
    let mut after = after.map(|key| bucket.path(key));
    while found.len() < limit {
        let page = page(bucket, prefix, after.as_deref(), limit - found.len()).await?;
        for object in page.contents() {
            let path = object.key().ok_or_else(|| Failure::nonsense("a listed object has no key"))?;
            if after.as_deref().is_some_and(|after| path <= after) {
                return Err(Failure::nonsense("its list is not in the order of the keys"));
            }
            after = Some(path.to_owned());
            // What no put can have made is not ours.
            let Some(Ok(key)) = path.strip_prefix(&bucket.root).map(str::parse::<BlobKey>) else {
                continue;
            };
            let size_bytes = read::size(object.size())?;
            found.push(ObjectInfo { key, size_bytes, modified_at: read::moment(object.last_modified())? });
        }
        if page.contents().is_empty() || page.is_truncated() != Some(true) {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}
