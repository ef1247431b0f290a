//! Looking into files, which costs processes and processors.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clapboard_h3::MediumFacts;
use clapboard_h3::prepare::{ReferenceKind, ReferenceLimits};
use clapboard_jobs::Causes;
use clapboard_media::decode::{Claim, Error, Kind};
use clapboard_media::{MediaTools, reference};

use super::Intake;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// What is known of a file before it is looked into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) content_type: Option<String>,
    pub(super) file_name: Option<String>,
}

impl Claims {
    fn as_claim(&self) -> Claim<'_> {
        Claim { content_type: self.content_type.as_deref(), file_name: self.file_name.as_deref() }
    }
}

/// Tells whoever works on it that nobody wants it any more.
struct Abort(Arc<AtomicBool>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Intake {
    /// Says by its content what kind of medium a file is.
    ///
    /// Errors: `invalid_reference_media` for one that is none, naming the field.
    pub(super) async fn kind(&self, field: &str, path: PathBuf, claims: Claims) -> Result<ReferenceKind, ApiError> {
        let found = self.look(field, move |_| reference::kind(&path, &claims.as_claim())).await?;
        match found {
            Some(Kind::Image) => Ok(ReferenceKind::Image),
            Some(Kind::Video) => Ok(ReferenceKind::Video),
            Some(Kind::Audio) => Ok(ReferenceKind::Audio),
            None => Err(invalid_media(field, "the content is none of JPEG, PNG, WebP, HEIC, MP4, MOV, WAV and MP3")),
        }
    }

    /// Says what a file is that should be of a kind.
    ///
    /// Errors: `invalid_reference_media`, naming the field.
    pub(super) async fn inspect(
        &self,
        tools: &Arc<MediaTools>,
        limits: &Arc<ReferenceLimits>,
        field: &str,
        path: PathBuf,
        claims: Claims,
        kind: ReferenceKind,
    ) -> Result<MediumFacts, ApiError> {
        let (tools, limits) = (Arc::clone(tools), Arc::clone(limits));
        let scratch = self.spool.scratch().map_err(|error| ApiError::unkept(&error))?;
        let wanted = match kind {
            ReferenceKind::Image => Kind::Image,
            ReferenceKind::Video => Kind::Video,
            ReferenceKind::Audio => Kind::Audio,
        };
        self.look(field, move |aborted| {
            reference::inspect(&tools, scratch.path(), &path, &claims.as_claim(), wanted, &limits, aborted)
        })
        .await
    }

    /// Looks into a file where that holds up no other request, when there is a processor for it.
    async fn look<T: Send + 'static>(
        &self,
        field: &str,
        look: impl FnOnce(&AtomicBool) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = Arc::clone(&self.inspections).acquire_owned().await.expect("nobody closes the semaphore");
        let aborted = Arc::new(AtomicBool::new(false));
        let _abort = Abort(Arc::clone(&aborted));
        let looked = tokio::task::spawn_blocking(move || {
            let looked = look(&aborted);
            drop(turn); // only now: whoever gave up does not know when the work has really ended
            looked
        })
        .await;
        match looked {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) if error.is_of_machine() => {
                tracing::error!(error = %Causes(&error), "could not look into a reference");
                Err(ApiError::internal())
            }
            Ok(Err(error)) => {
                if let Some(detail) = error.detail() {
                    tracing::debug!(detail, "a reference cannot be decoded");
                }
                Err(invalid_media(field, &error.to_string()))
            }
            Err(panic) => {
                tracing::error!(error = %panic, "looking into a reference failed");
                Err(ApiError::internal())
            }
        }
    }
}

/// Makes the refusal of a file.
pub(super) fn invalid_media(field: &str, message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidReferenceMedia, format!("{field}: {message}")).with_param(field)
}
