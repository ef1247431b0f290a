//! What the server can do for a put, found out once.

use super::Bucket;
use super::error::Failure;
use super::options::ConditionalPut;
use super::trial::Trial;

/// What a put may ask of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PutSupport {
    /// It refuses a put with `If-None-Match: *` where an object lies.
    pub(super) conditional: bool,
    /// It takes `x-amz-checksum-sha256`.
    pub(super) checksum: bool,
}

/// Returns what the server can do for a put, as it is set or as the first put finds out.
pub(super) async fn of(bucket: &Bucket) -> Result<PutSupport, Failure> {
    bucket.support.get_or_try_init(|| find(bucket)).await.copied()
}

async fn find(bucket: &Bucket) -> Result<PutSupport, Failure> {
    match bucket.options.conditional_put {
        ConditionalPut::Always => Ok(PutSupport { conditional: true, checksum: true }),
        // Checksums are older than conditions, but who sets this has an old server.
        ConditionalPut::Never => Ok(PutSupport { conditional: false, checksum: false }),
        ConditionalPut::Auto => {
            let trial = Trial::new(bucket);
            let found = probe(&trial).await;
            let cleaned = trial.clean().await;
            let found = found?;
            cleaned?;
            Ok(found)
        }
    }
}

/// Puts one object twice and looks at what the server makes of it.
pub(super) async fn probe(trial: &Trial<'_>) -> Result<PutSupport, Failure> {
    let mut refused = None;
    for (conditional, checksum) in [(true, true), (true, false), (false, true), (false, false)] {
        let support = PutSupport { conditional, checksum };
        match trial.put("put", b"first", support).await {
            Ok(()) if !conditional => return Ok(support),
            Ok(()) => {}
            // Our own, which has been tried again.
            Err(failure) if conditional && failure.is_precondition_failed() => return Ok(support),
            Err(failure) if failure.is_unsupported() => {
                refused = Some(failure);
                continue;
            }
            Err(failure) => return Err(failure),
        }
        return match trial.put("put", b"second", support).await {
            Ok(()) => Ok(PutSupport { conditional: false, checksum }),
            Err(failure) if failure.is_precondition_failed() || failure.is_concurrent() => Ok(support),
            Err(failure) => Err(failure),
        };
    }
    Err(refused.unwrap_or_else(|| Failure::nonsense("it refuses every put")))
}
