//! What goes wrong between us and an S3 server, in words, without secrets and signed URLs.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use clapboard_jobs::BlobError;

use super::options::InvalidOption;
use super::watch::Stalled;

/// The longest message of a server that is repeated.
const MAX_MESSAGE_CHARS: usize = 300;

/// Codes by which servers say that they do not believe us.
const WRONG_CREDENTIALS: [&str; 10] = [
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSecurity",
    "InvalidToken",
    "NotSignedUp",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// Codes by which AWS says that a bucket lies elsewhere.
const WRONG_REGION: [&str; 4] =
    ["AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect"];

/// Why a bucket cannot serve as a media store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting breaks a rule.
    #[error(transparent)]
    Invalid(#[from] InvalidOption),
    /// No region is set, and none of the usual places names one.
    #[error("no S3 region is set: give one, or an endpoint")]
    NoRegion,
    /// No access key is set, and none of the usual places holds one.
    #[error("no S3 credentials were found for bucket {bucket}")]
    NoCredentials {
        /// The bucket.
        bucket: String,
        /// What each place said, where one was asked.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The server does not know the access key, or the secret is not its secret, or it has expired.
    #[error("the S3 credentials for bucket {bucket} are wrong ({code})")]
    WrongCredentials {
        /// The bucket.
        bucket: String,
        /// The server's code.
        code: String,
    },
    /// There is no such bucket.
    #[error("there is no S3 bucket {bucket} at {endpoint}")]
    MissingBucket {
        /// The bucket.
        bucket: String,
        /// Where it was looked for.
        endpoint: String,
    },
    /// The bucket lies in another region.
    #[error("the S3 bucket {bucket} is not in region {region}")]
    WrongRegion {
        /// The bucket.
        bucket: String,
        /// Where it was looked for.
        region: String,
        /// What the server said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The credentials are right but do not allow the bucket to be listed.
    #[error("the S3 credentials do not permit to list bucket {bucket}")]
    NoPermission {
        /// The bucket.
        bucket: String,
        /// What the server said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server does not answer.
    #[error("could not reach the S3 server {endpoint}")]
    Unreachable {
        /// Where it was looked for.
        endpoint: String,
        /// What went wrong.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server answered, but not as one that could hold media.
    #[error("could not use S3 bucket {bucket} at {endpoint}")]
    Refused {
        /// The bucket.
        bucket: String,
        /// Where it was looked for.
        endpoint: String,
        /// What the server said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Why one call did not succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server answered that it would not.
    #[error("the server answered {status}{}", said(code, message, request_id))]
    Refused {
        status: u16,
        code: Option<String>,
        message: Option<String>,
        /// By which the server's owner finds the request.
        request_id: Option<String>,
    },
    /// No byte moved any more.
    #[error(transparent)]
    Stalled(#[from] Stalled),
    /// The server could not be reached, or the connection was lost before its answer was whole: what was asked may have
    /// been done.
    #[error("the server gave no answer: {text}")]
    NoAnswer { text: String },
    /// The request could not be made.
    #[error("could not make the request: {text}")]
    Unsent { text: String },
    /// The answer is not one that the request can have.
    #[error("the server's answer makes no sense: {text}")]
    Nonsense { text: String },
}

fn said(code: &Option<String>, message: &Option<String>, request_id: &Option<String>) -> String {
    let mut text = String::new();
    if let Some(code) = code {
        text.push(' ');
        text.push_str(code);
    }
    if let Some(message) = message {
        text.push_str(": ");
        text.extend(message.chars().take(MAX_MESSAGE_CHARS));
    }
    if let Some(request_id) = request_id {
        text.push_str(&format!(" (request {request_id})"));
    }
    text
}

impl Failure {
    /// Reads what the client says of a call. The client's own error is not kept: it holds the whole answer.
    pub(super) fn of<E>(error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        if let Some(stalled) = find::<Stalled>(&error) {
            return Self::Stalled(*stalled);
        }
        match &error {
            SdkError::ServiceError(service) => Self::Refused {
                status: service.raw().status().as_u16(),
                code: service.err().code().map(str::to_owned),
                message: service.err().message().map(str::to_owned),
                request_id: service.raw().headers().get("x-amz-request-id").map(str::to_owned),
            },
            // A redirect without a body, say.
            SdkError::ResponseError(response) if !response.raw().status().is_success() => Self::Refused {
                status: response.raw().status().as_u16(),
                code: None,
                message: None,
                request_id: response.raw().headers().get("x-amz-request-id").map(str::to_owned),
            },
            SdkError::ConstructionFailure(_) => Self::Unsent { text: chain(&error) },
            _ => Self::NoAnswer { text: chain(&error) },
        }
    }

    pub(super) fn nonsense(text: impl Into<String>) -> Self {
        Self::Nonsense { text: text.into() }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => code.as_deref(),
            _ => None,
        }
    }

    /// The object is not there. A missing bucket is something else, where the server tells.
    pub(super) fn is_missing_object(&self) -> bool {
        self.status() == Some(404) && matches!(self.code(), None | Some("NoSuchKey" | "NotFound"))
    }

    /// An object lies there, and the request was not to overwrite.
    pub(super) fn is_precondition_failed(&self) -> bool {
        self.status() == Some(412)
    }

    /// Another request for the same key was under way: the whole put is to be tried again.
    pub(super) fn is_concurrent(&self) -> bool {
        self.status() == Some(409)
    }

    /// The bytes asked for are not there.
    pub(super) fn is_range_outside(&self) -> bool {
        self.status() == Some(416)
    }

    /// The server understood a part of the request that it does not know, and says so.
    pub(super) fn is_unsupported(&self) -> bool {
        let misunderstood = self.status() == Some(400) && self.code() != Some("RequestTimeout") && !self.is_denied();
        self.status() == Some(501) || misunderstood
    }

    /// The server knows the request, but not in this form.
    pub(super) fn is_not_implemented(&self) -> bool {
        self.status() == Some(501)
    }

    /// The upload was completed or aborted already.
    pub(super) fn is_missing_upload(&self) -> bool {
        self.status() == Some(404) && matches!(self.code(), None | Some("NoSuchUpload" | "NoSuchKey"))
    }

    /// What was asked may have been done all the same.
    ///
    /// An upload that is not there any more may have been completed by an earlier try. A stalled call is left out: the
    /// server would hardly answer the question either, and whoever tries again finds out.
    pub(super) fn may_have_stored(&self) -> bool {
        match self {
            Self::Refused { status, code, .. } => {
                *status == 412 || *status >= 500 || code.as_deref() == Some("NoSuchUpload")
            }
            Self::NoAnswer { .. } => true,
            Self::Stalled(_) | Self::Unsent { .. } | Self::Nonsense { .. } => false,
        }
    }

    /// The server does not let us in, or not do this: our credentials are wrong or have expired, lack a permission, or are
    /// signed by a clock that is wrong.
    fn is_denied(&self) -> bool {
        matches!(self.status(), Some(401 | 403)) || self.code().is_some_and(|code| WRONG_CREDENTIALS.contains(&code))
    }

    /// Turns this into the trait's error.
    pub(super) fn blob_error(self, doing: &'static str) -> BlobError {
        if self.is_denied() {
            BlobError::Denied { doing, source: self.into() }
        } else {
            BlobError::Unavailable { doing, source: self.into() }
        }
    }

    /// Turns what the first call met into the reason why the store cannot be opened.
    pub(super) fn refuse_to_open(self, bucket: String, endpoint: String, region: String) -> OpenError {
        let code = self.code().unwrap_or_default().to_owned();
        if WRONG_CREDENTIALS.contains(&code.as_str()) {
            return OpenError::WrongCredentials { bucket, code };
        }
        if WRONG_REGION.contains(&code.as_str()) || matches!(self.status(), Some(301 | 307)) {
            return OpenError::WrongRegion { bucket, region, source: self.into() };
        }
        match &self {
            Self::Refused { status: 404, .. } => OpenError::MissingBucket { bucket, endpoint },
            Self::Refused { status: 401 | 403, .. } if code != "RequestTimeTooSkewed" => {
                OpenError::NoPermission { bucket, source: self.into() }
            }
            Self::NoAnswer { .. } | Self::Stalled(_) => OpenError::Unreachable { endpoint, source: self.into() },
            _ => OpenError::Refused { bucket, endpoint, source: self.into() },
        }
    }
}

/// Joins an error and all that caused it.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: Option<&str>) -> Failure {
        Failure::Refused { status, code: code.map(str::to_owned), message: None, request_id: None }
    }

    fn opening(failure: Failure) -> String {
        failure.refuse_to_open("clips".to_owned(), "http://s3".to_owned(), "us-east-1".to_owned()).to_string()
    }

    #[test]
    fn an_answer_is_told_with_what_finds_it() {
        let failure = Failure::Refused {
            status: 503,
            code: Some("SlowDown".to_owned()),
            message: Some("Reduce your request rate.".to_owned()),
            request_id: Some("4442587FB7D0A2F9".to_owned()),
        };
        let text = "the server answered 503 SlowDown: Reduce your request rate. (request 4442587FB7D0A2F9)";
        assert_eq!(failure.to_string(), text);
    }

    #[test]
    fn reasons_not_to_open_are_told_apart() {
        let wrong_key = opening(refused(403, Some("SignatureDoesNotMatch")));
        assert_eq!(wrong_key, "the S3 credentials for bucket clips are wrong (SignatureDoesNotMatch)");
        assert_eq!(opening(refused(404, Some("NoSuchBucket"))), "there is no S3 bucket clips at http://s3");
        let forbidden = opening(refused(403, Some("AccessDenied")));
        assert_eq!(forbidden, "the S3 credentials do not permit to list bucket clips");
        assert_eq!(opening(refused(301, None)), "the S3 bucket clips is not in region us-east-1");
        let silent = Failure::NoAnswer { text: "connection refused".to_owned() };
        assert_eq!(opening(silent), "could not reach the S3 server http://s3");
        assert_eq!(opening(refused(503, Some("SlowDown"))), "could not use S3 bucket clips at http://s3");
    }

    #[test]
    fn a_server_that_does_not_let_us_in_is_told_from_one_that_is_away() {
        for (status, code) in [(403, Some("AccessDenied")), (401, None), (400, Some("ExpiredToken"))] {
            let failure = refused(status, code);
            assert!(!failure.is_unsupported());
            let error = failure.blob_error("storing an object");
            assert!(matches!(error, BlobError::Denied { .. }), "{status}: {error}");
            assert_eq!(error.to_string(), "the media store does not permit storing an object");
        }
        for (status, code) in [(503, Some("SlowDown")), (404, Some("NoSuchBucket")), (400, Some("RequestTimeout"))] {
            let error = refused(status, code).blob_error("storing an object");
            assert!(matches!(error, BlobError::Unavailable { .. }), "{status}: {error}");
        }
    }

    #[test]
    fn a_missing_bucket_is_no_missing_object() {
        assert!(refused(404, None).is_missing_object());
        assert!(refused(404, Some("NoSuchKey")).is_missing_object());
        assert!(!refused(404, Some("NoSuchBucket")).is_missing_object());
    }

    #[test]
    fn a_write_is_in_doubt_only_when_it_may_have_been_done() {
        assert!(refused(412, Some("PreconditionFailed")).may_have_stored());
        assert!(refused(500, None).may_have_stored());
        assert!(refused(404, Some("NoSuchUpload")).may_have_stored());
        assert!(Failure::NoAnswer { text: String::new() }.may_have_stored());
        assert!(!refused(403, Some("AccessDenied")).may_have_stored());
    }
}
