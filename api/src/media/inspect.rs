//! Looking into files, which costs processes, processors and memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clapboard_h3::MediumFacts;
use clapboard_h3::prepare::ReferenceKind;
use clapboard_jobs::{Causes, Tenant};
use clapboard_media::decode::image::{self, ImageLimits};
use clapboard_media::decode::{Claim, Error, Format, Kind};
use clapboard_media::{MediaTools, reference};
use tokio::time::{Instant, timeout_at};

use super::Intake;
use super::capacity::Held;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// The most memory of ffmpeg, and how much more for each pixel of the largest picture.
const FFMPEG_BYTES: (u64, u64) = (2 << 30, 96);
/// The largest cover picture in a file of sound that ffmpeg is let see, in pixels.
const COVER_PIXELS: u64 = 1 << 24;
/// The most memory of the program that decodes HEIC, and how much more for each pixel of the largest picture.
const HEIF_BYTES: (u64, u64) = (1 << 30, 24);
/// The most that decoding here takes for each pixel of a picture or frame, and besides.
const DECODED_BYTES: (u64, u64) = (64 << 20, 16);
/// The most that samples of sound take here.
const SAMPLES_BYTES: u64 = 64 << 20;

/// What is known of a file before it is looked into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) content_type: Option<String>,
    pub(super) file_name: Option<String>,
    /// Whether a web server says this and not the client, whose word counts for more.
    pub(super) served: bool,
}

impl Claims {
    fn as_claim(&self) -> Claim<'_> {
        match self.served {
            true => Claim::served(self.content_type.as_deref()),
            false => Claim { content_type: self.content_type.as_deref(), file_name: self.file_name.as_deref() },
        }
    }
}

/// A file to look into.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// The request's field that carried it.
    pub(super) field: String,
    pub(super) path: PathBuf,
    pub(super) claims: Claims,
    /// What it should be.
    pub(super) kind: ReferenceKind,
}

/// Tells whoever works on it that nobody wants it any more.
struct Abort(Arc<AtomicBool>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Why looking into a file came to nothing.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Media(#[from] Error),
    #[error("could not make a folder to decode in")]
    Scratch(#[source] std::io::Error),
}

impl Intake {
    /// Says by its content what kind of medium a file is.
    ///
    /// Errors: `invalid_reference_media` for one that is none, naming the field.
    pub(super) async fn kind(&self, field: &str, path: PathBuf, claims: Claims) -> Result<ReferenceKind, ApiError> {
        // A few kilobytes are read: this waits for nobody.
        let found = look(field, move |_| Ok(reference::kind(&path, &claims.as_claim())?)).await?;
        found.ok_or_else(|| invalid_media(field, "the content is none of JPEG, PNG, WebP, HEIC, MP4, MOV, WAV and MP3"))
    }

    /// Returns how much memory looking into a file may take, here and in the programs that do it, in bytes.
    ///
    /// Errors: `invalid_reference_media`, naming the field.
    pub(super) async fn weigh(&self, subject: &Subject) -> Result<u64, ApiError> {
        let max_side = *self.limits.sides.end();
        let max_pixels = u64::from(max_side).pow(2);
        let bytes = |(base, each): (u64, u64), pixels: u64| base.saturating_add(each.saturating_mul(pixels));
        match subject.kind {
            // How large its pictures are shows only once ffmpeg runs, within this bound.
            ReferenceKind::Video => {
                Ok(bytes(FFMPEG_BYTES, max_pixels) + bytes(DECODED_BYTES, max_pixels) + SAMPLES_BYTES)
            }
            ReferenceKind::Audio => Ok(bytes(FFMPEG_BYTES, COVER_PIXELS) + SAMPLES_BYTES),
            ReferenceKind::Image => {
                let Subject { field, path, claims, .. } = subject.clone();
                let limits = ImageLimits { max_file_bytes: self.limits.image_bytes, max_side, max_pixels };
                let facts = look(&field, move |_| Ok(image::inspect(&path, &claims.as_claim(), &limits)?)).await?;
                let pixels = u64::from(facts.width) * u64::from(facts.height);
                let decoding = bytes(DECODED_BYTES, pixels) + facts.size_bytes;
                let is_heif = facts.format == Format::Heif;
                Ok(if is_heif { decoding + bytes(HEIF_BYTES, max_pixels) } else { decoding })
            }
        }
    }

    /// Waits until there is memory for looking into a file.
    ///
    /// Errors: `no_capacity`.
    pub(super) async fn turn(&self, tenant: &Tenant, bytes: u64, deadline: Instant) -> Result<Held, ApiError> {
        self.capacity.inspection(tenant, bytes, deadline).await
    }

    /// Says what a file is that should be of a kind. The turn is over when the work has really ended, also when this is
    /// dropped before.
    ///
    /// Errors: `invalid_reference_media`, naming the field; `no_capacity` when it takes too long.
    pub(super) async fn inspect(
        &self,
        tools: &Arc<MediaTools>,
        subject: Subject,
        turn: Held,
        deadline: Instant,
    ) -> Result<MediumFacts, ApiError> {
        let (tools, limits, spool) = (Arc::clone(tools), Arc::clone(&self.limits), self.spool.clone());
        let Subject { field, path, claims, kind } = subject;
        let looking = look(&field, move |aborted| {
            let _turn = turn;
            let scratch = match kind {
                ReferenceKind::Image => Some(spool.scratch().map_err(LookError::Scratch)?),
                ReferenceKind::Video | ReferenceKind::Audio => None,
            };
            let folder = scratch.as_ref().map_or(Path::new(""), |scratch| scratch.path());
            Ok(reference::inspect(&tools, folder, &path, &claims.as_claim(), kind, &limits, aborted)?)
        });
        timeout_at(deadline, looking).await.unwrap_or_else(|_| {
            tracing::warn!("the files of a request could not be looked into in time");
            Err(ApiError::away("the files of the request could not be looked into in time"))
        })
    }
}

/// Looks into a file where that holds up no other request.
async fn look<T: Send + 'static>(
    field: &str,
    look: impl FnOnce(&AtomicBool) -> Result<T, LookError> + Send + 'static,
) -> Result<T, ApiError> {
    let aborted = Arc::new(AtomicBool::new(false));
    let _abort = Abort(Arc::clone(&aborted));
    let looked = tokio::task::spawn_blocking(move || look(&aborted)).await;
    match looked {
        Ok(looked) => looked.map_err(|error| refusal(field, &error)),
        Err(panic) => {
            tracing::error!(error = %panic, "looking into a reference failed");
            Err(ApiError::internal())
        }
    }
}

/// Makes the answer to a file that could not be looked into.
fn refusal(field: &str, error: &LookError) -> ApiError {
    let LookError::Media(error) = error else {
        return ApiError::unkept(error);
    };
    match error {
        Error::HeifToolMissing { .. } | Error::HeifCodecMissing => {
            tracing::error!(error = %Causes(error), "could not look into a reference");
            let message = format!("{field}: HEIC is not read here; send the picture as JPEG, PNG or WebP");
            let refused = ApiError::new(ErrorCode::InternalError, message).with_param(field);
            // The same again would fare no better.
            ApiError { should_retry: Some(false), ..refused }
        }
        error if error.is_of_machine() => {
            tracing::error!(error = %Causes(error), "could not look into a reference");
            ApiError::internal()
        }
        error if error.is_hung() => {
            tracing::warn!(error = %Causes(error), "looking into a reference took too long");
            ApiError::away(&format!("{field}: {error}")).with_param(field)
        }
        Error::NoStream { wanted: Kind::Video } => {
            let hint = "a sound in MP4 is sent with the content type audio/mp4, or as an audio_reference";
            invalid_media(field, &format!("{error}; {hint}"))
        }
        error => {
            if let Some(detail) = error.detail() {
                tracing::debug!(detail, "a reference cannot be decoded");
            }
            invalid_media(field, &error.to_string())
        }
    }
}

/// Makes the refusal of a file.
pub(crate) fn invalid_media(field: &str, message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidReferenceMedia, format!("{field}: {message}")).with_param(field)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_may_be_no_fault_of_the_file_is_not_held_against_it() {
        let hung = Error::Hung { what: ReferenceKind::Video, limit: Duration::from_secs(60) };
        let refused = refusal("input_reference", &hung.into());
        assert_eq!((refused.code, refused.retry_after_s), (ErrorCode::NoCapacity, Some(5)));
        assert_eq!(refused.message, "input_reference: the video took longer than 60 seconds to read");
        let missing = refusal("input_reference", &Error::HeifCodecMissing.into());
        assert_eq!((missing.code, missing.should_retry), (ErrorCode::InternalError, Some(false)));
        let sound = refusal("input_reference", &Error::NoStream { wanted: Kind::Video }.into());
        assert_eq!(sound.code, ErrorCode::InvalidReferenceMedia);
        let message =
            "input_reference: the file holds no video; a sound in MP4 is sent with the content type audio/mp4";
        assert!(sound.message.starts_with(message), "{}", sound.message);
        let damaged = Error::Nothing { what: ReferenceKind::Video, unit: "frame" };
        assert_eq!(refusal("input_reference", &damaged.into()).code, ErrorCode::InvalidReferenceMedia);
    }
}
