//! What an S3 store is told when it is opened.

use std::fmt;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// The least that S3 takes as a part which is not the last.
const MIN_PART_BYTES: u64 = 5 * MIB;

/// The most that S3 takes in one request.
const MAX_REQUEST_BYTES: u64 = 5 * 1024 * MIB;

/// The longest key prefix: with it and the longest key, S3's 1,024 bytes are not reached.
const MAX_PREFIX_LEN: usize = 400;

/// The most retries: with more, a call to a dead server hardly ends.
const MAX_RETRIES: u32 = 10;

/// Why a setting cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the S3 setting {setting} {rule}")]
pub struct InvalidOption {
    /// The field of [`S3Options`].
    pub setting: &'static str,
    /// The rule that it breaks, and its value unless that is a secret.
    pub rule: String,
}

/// How objects are encrypted where they lie; what the bucket itself prescribes when none is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sse {
    /// With keys that S3 manages (SSE-S3).
    Aes256,
    /// With a key of the key management service (SSE-KMS).
    Kms {
        /// Which key; the account's own S3 key when none is named.
        key_id: Option<String>,
    },
}

/// Whether puts carry `If-None-Match: *`, by which the server itself refuses to overwrite.
///
/// A server that does not know the header ignores it. Then an object is looked for before it is put, and of two writers
/// at one moment the later one wins; keys are private to a claim, so that no two writers should meet in the first place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConditionalPut {
    /// If the server honours it, which the first put finds out with two small objects that it deletes again.
    #[default]
    Auto,
    /// Always, without asking.
    Always,
    /// Never: an object is looked for before it is put.
    Never,
}

/// The settings of an [`S3Blob`](crate::S3Blob).
///
/// Its `Debug` output shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Options {
    /// The bucket, which must be there.
    pub bucket: String,
    /// What stands before every key, without the `/` that joins them; several stores can so share a bucket.
    pub prefix: Option<String>,
    /// The server's URL, `http://` or `https://`; that of AWS in the region when none is given.
    pub endpoint: Option<String>,
    /// The region; when none is given, the usual places are asked (environment, profile, instance), except for a server
    /// with an endpoint of its own, where it is `us-east-1`.
    pub region: Option<String>,
    /// Whether the bucket stands in the path of a URL instead of its host name; most servers besides AWS want that.
    pub path_style: bool,
    /// The access key; when none is given, the usual places are asked: environment, profile files, web identity
    /// (IRSA), container, instance. IAM Identity Center (SSO) and credential processes are not among them.
    pub access_key_id: Option<String>,
    /// The secret of the access key.
    pub secret_access_key: Option<String>,
    /// The token of a temporary access key.
    pub session_token: Option<String>,
    /// How objects are encrypted where they lie.
    pub sse: Option<Sse>,
    /// The size above which an object is put in several parts, in bytes.
    pub multipart_threshold_bytes: u64,
    /// The size of a part, in bytes; more where 10,000 parts would not suffice.
    pub part_size_bytes: u64,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a request may be under way without a byte moving. A large object may take as long as it needs.
    pub stall_timeout: Duration,
    /// How often a request is tried again that the server could not answer; one that has stalled is not.
    pub retries: u32,
    /// Whether the server is asked not to overwrite.
    pub conditional_put: ConditionalPut,
}

impl S3Options {
    /// Returns the default settings for a bucket of AWS.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: None,
            endpoint: None,
            region: None,
            path_style: false,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            sse: None,
            multipart_threshold_bytes: 16 * MIB,
            part_size_bytes: 16 * MIB,
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            retries: 2,
            conditional_put: ConditionalPut::Auto,
        }
    }

    /// Checks every setting by itself and with the others.
    ///
    /// Errors: the first [`InvalidOption`].
    pub fn validate(&self) -> Result<(), InvalidOption> {
        let refuse = |setting, rule: String| Err(InvalidOption { setting, rule });
        if !is_bucket_name(&self.bucket) {
            let rule = "must be 3 to 63 letters, digits, dots and dashes";
            return refuse("bucket", format!("{rule}, not {:?}", self.bucket));
        }
        if let Some(prefix) = &self.prefix
            && !is_prefix(prefix)
        {
            let rule =
                "must be segments of a-z, A-Z, 0-9, ., _ and - joined by /, at most 400 bytes, none of them . or ..";
            return refuse("prefix", format!("{rule}, not {prefix:?}"));
        }
        if let Some(endpoint) = &self.endpoint {
            check_endpoint(endpoint).or_else(|rule| refuse("endpoint", rule.to_owned()))?;
        }
        if let Some(region) = &self.region
            && !is_word(region)
        {
            return refuse("region", format!("must be letters, digits and dashes, not {region:?}"));
        }
        self.check_keys().or_else(|(setting, rule)| refuse(setting, rule.to_owned()))?;
        if let Some(Sse::Kms { key_id: Some(key_id) }) = &self.sse
            && (key_id.is_empty() || !key_id.bytes().all(|b| b.is_ascii_graphic()))
        {
            return refuse("sse", format!("must name a key, not {key_id:?}"));
        }
        let threshold = self.multipart_threshold_bytes;
        if !(1..=MAX_REQUEST_BYTES).contains(&threshold) {
            return refuse("multipart_threshold_bytes", format!("must be 1 byte to 5 GiB, not {threshold}"));
        }
        let part_size = self.part_size_bytes;
        if !(MIN_PART_BYTES..=MAX_REQUEST_BYTES).contains(&part_size) {
            return refuse("part_size_bytes", format!("must be 5 MiB to 5 GiB, not {part_size}"));
        }
        for (setting, timeout) in [("connect_timeout", self.connect_timeout), ("stall_timeout", self.stall_timeout)] {
            if timeout.is_zero() {
                return refuse(setting, "must be longer than nothing".to_owned());
            }
        }
        if self.retries > MAX_RETRIES {
            return refuse("retries", format!("must be at most {MAX_RETRIES}, not {}", self.retries));
        }
        Ok(())
    }

    fn check_keys(&self) -> Result<(), (&'static str, &'static str)> {
        let keys = [
            ("access_key_id", &self.access_key_id),
            ("secret_access_key", &self.secret_access_key),
            ("session_token", &self.session_token),
        ];
        for (setting, value) in keys {
            if value.as_ref().is_some_and(|value| value.is_empty() || !value.bytes().all(|b| b.is_ascii_graphic())) {
                return Err((setting, "must not be empty, and no blank may stand in it"));
            }
        }
        match (&self.access_key_id, &self.secret_access_key, &self.session_token) {
            (Some(_), None, _) => Err(("secret_access_key", "must be given with access_key_id")),
            (None, Some(_), _) => Err(("access_key_id", "must be given with secret_access_key")),
            (None, None, Some(_)) => Err(("access_key_id", "must be given with session_token")),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn hidden(value: Option<&String>) -> Option<&'static str> {
            value.map(|_| "[redacted]")
        }
        f.debug_struct("S3Options")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint.as_ref().map(|endpoint| without_user(endpoint)))
            .field("region", &self.region)
            .field("path_style", &self.path_style)
            .field("access_key_id", &hidden(self.access_key_id.as_ref()))
            .field("secret_access_key", &hidden(self.secret_access_key.as_ref()))
            .field("session_token", &hidden(self.session_token.as_ref()))
            .field("sse", &self.sse)
            .field("multipart_threshold_bytes", &self.multipart_threshold_bytes)
            .field("part_size_bytes", &self.part_size_bytes)
            .field("connect_timeout", &self.connect_timeout)
            .field("stall_timeout", &self.stall_timeout)
            .field("retries", &self.retries)
            .field("conditional_put", &self.conditional_put)
            .finish()
    }
}

/// Returns a URL without the user and password that may stand in it.
fn without_user(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Takes a little more than AWS does: other servers allow capitals and underscores.
fn is_bucket_name(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|&b| inside(b))
        && edge(bytes.first())
        && edge(bytes.last())
        && !text.contains("..")
}

fn is_prefix(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(legal);
    text.len() <= MAX_PREFIX_LEN && text.split('/').all(segment)
}

fn check_endpoint(text: &str) -> Result<(), &'static str> {
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return Err("must begin with http:// or https://");
    };
    if rest.contains('@') {
        return Err("must not hold a user or password: use access_key_id and secret_access_key");
    }
    if rest.contains(['?', '#']) || !rest.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("must be a URL without blanks, ? and #");
    }
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') {
        return Err("must name a host");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut S3Options)) -> Option<&'static str> {
        let mut options = S3Options::new("clips");
        change(&mut options);
        options.validate().err().map(|refused| refused.setting)
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(S3Options::new("clips").validate(), Ok(()));
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for bucket in ["", "ab", "a b c", "-abc", "abc.", "a..b", "ä-bucket", &"x".repeat(64)] {
            assert_eq!(refusal(|o| o.bucket = bucket.to_owned()), Some("bucket"), "{bucket:?}");
        }
        for prefix in ["", "/", "a/", "/a", "a//b", "../a", "a b", &"x".repeat(401)] {
            assert_eq!(refusal(|o| o.prefix = Some(prefix.to_owned())), Some("prefix"), "{prefix:?}");
        }
        for endpoint in
            ["", "s3.example.com", "ftp://x", "http://", "http://:9000", "http://u:p@h", "http://h/?q", "http://h h"]
        {
            assert_eq!(refusal(|o| o.endpoint = Some(endpoint.to_owned())), Some("endpoint"), "{endpoint:?}");
        }
        assert_eq!(refusal(|o| o.region = Some("eu central".to_owned())), Some("region"));
        assert_eq!(refusal(|o| o.access_key_id = Some("key".to_owned())), Some("secret_access_key"));
        assert_eq!(refusal(|o| o.secret_access_key = Some("secret".to_owned())), Some("access_key_id"));
        assert_eq!(refusal(|o| o.session_token = Some("token".to_owned())), Some("access_key_id"));
        assert_eq!(refusal(|o| o.secret_access_key = Some("sec ret".to_owned())), Some("secret_access_key"));
        assert_eq!(refusal(|o| o.sse = Some(Sse::Kms { key_id: Some(String::new()) })), Some("sse"));
        assert_eq!(refusal(|o| o.multipart_threshold_bytes = 0), Some("multipart_threshold_bytes"));
        assert_eq!(refusal(|o| o.part_size_bytes = MIN_PART_BYTES - 1), Some("part_size_bytes"));
        assert_eq!(refusal(|o| o.connect_timeout = Duration::ZERO), Some("connect_timeout"));
        assert_eq!(refusal(|o| o.stall_timeout = Duration::ZERO), Some("stall_timeout"));
        assert_eq!(refusal(|o| o.retries = 11), Some("retries"));
    }

    #[test]
    fn a_refusal_is_a_sentence_with_the_value() {
        let options = S3Options { part_size_bytes: 12, ..S3Options::new("clips") };
        let refused = options.validate().unwrap_err();
        assert_eq!(refused.to_string(), "the S3 setting part_size_bytes must be 5 MiB to 5 GiB, not 12");
    }

    #[test]
    fn other_servers_are_welcome() {
        assert_eq!(refusal(|o| o.endpoint = Some("http://127.0.0.1:9000".to_owned())), None);
        assert_eq!(refusal(|o| o.endpoint = Some("https://s3.example.com/gateway".to_owned())), None);
        assert_eq!(refusal(|o| o.prefix = Some("team-a/clips_v1".to_owned())), None);
    }

    #[test]
    fn no_secret_is_shown() {
        let shown = format!(
            "{:?}",
            S3Options {
                access_key_id: Some("AKIDEXAMPLE".to_owned()),
                secret_access_key: Some("wJalrXUtnFEMI".to_owned()),
                session_token: Some("AQoDYXdzEJr".to_owned()),
                endpoint: Some("http://user:hunter2@host".to_owned()),
                ..S3Options::new("clips")
            }
        );
        for secret in ["AKIDEXAMPLE", "wJalrXUtnFEMI", "AQoDYXdzEJr", "hunter2"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("[redacted]") && shown.contains("clips"));
    }
}
