//! The bucket: whether it lets us in, and what its server can do.

use clapboard_blob::{Capability, S3Blob, S3Options};
use clapboard_jobs::Causes;

use super::finding::Finding;

const ABOUT: &str = "s3";

/// Examines the bucket, with a few small objects that are removed again.
pub(super) async fn examine(options: S3Options) -> Vec<Finding> {
    let bucket = options.bucket.clone();
    let blob = match S3Blob::open(options).await {
        Ok(blob) => blob,
        Err(error) => return vec![Finding::fail(ABOUT, Causes(&error).to_string())],
    };
    let mut findings = vec![Finding::ok(ABOUT, format!("bucket {bucket} answers, and takes our key"))];
    match blob.capabilities().await {
        Err(error) => findings.push(Finding::fail(ABOUT, Causes(&error).to_string())),
        Ok(capabilities) => {
            let lacking: Vec<Capability> = capabilities.lacking().collect();
            findings.extend(lacking.iter().map(|&capability| lack(capability)));
            if lacking.is_empty() {
                findings.push(Finding::ok(ABOUT, "the server can do all that is wanted of it"));
            }
        }
    }
    findings
}

fn lack(capability: Capability) -> Finding {
    let text = format!("the server lacks {capability}: {}", capability.without_it());
    if capability.is_needed() { Finding::fail(ABOUT, text) } else { Finding::warn(ABOUT, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_works_without_is_a_failure() {
        let line = lack(Capability::Links).to_string();
        assert_eq!(line, "warn  s3        the server lacks presigned URLs: downloads pass through the API");
        assert!(lack(Capability::Range).to_string().starts_with("fail  s3        the server lacks byte ranges: "));
    }
}
