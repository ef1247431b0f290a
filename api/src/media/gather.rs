//! Bringing together the media of a request, wherever they are.

use std::sync::Arc;

use clapboard_h3::prepare::{ReferenceKind, ReferenceLimits};
use clapboard_h3::{Invalid, Medium, ModelProfile, ReferenceCounts, VideoRequest};
use clapboard_jobs::{BlobKey, JobId, Tenant};
use clapboard_media::MediaTools;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::data_url::{DataUrl, DataUrlError};
use super::inspect::{Claims, invalid_media};
use super::spool::Spooled;
use super::{Intake, Rooms};
use crate::body::FilePart;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::fetch::FetchError;
use crate::fields::{Reference, Source};

/// How many files of one request are fetched or looked into at once.
const AT_ONCE: usize = 4;

/// What the media of a request are gathered for.
pub(crate) struct Wants<'a> {
    /// The request, whose rules come first: nothing is fetched for one that breaks them.
    pub(crate) video: &'a VideoRequest,
    /// What is served.
    pub(crate) profile: &'a ModelProfile,
    /// The programs that read media.
    pub(crate) tools: &'a Arc<MediaTools>,
    /// Whose job it will be.
    pub(crate) tenant: &'a Tenant,
    /// The job that it will be.
    pub(crate) job: JobId,
}

/// The media of a request, looked into.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// What the rules have to know of them, in the request's order.
    pub(crate) media: Vec<Medium>,
    /// Their files, and where each is to be stored.
    pub(crate) files: Vec<(BlobKey, Spooled)>,
    /// What each is and the field that carried it.
    used: Vec<(ReferenceKind, String)>,
    /// The room that they take.
    pub(crate) _rooms: Rooms,
}

/// Where the file of a reference is.
enum Place {
    Spooled(Spooled, Claims),
    At(Url),
}

impl Gathered {
    /// Makes the refusal of these media, in the words of the request.
    pub(crate) fn blamed(&self, invalid: Invalid) -> ApiError {
        blamed(invalid, &self.used)
    }
}

/// A reference whose file is in the spool.
struct Found {
    field: String,
    kind: ReferenceKind,
    file: Spooled,
    claims: Claims,
}

/// Gathers the references of a request, which holds `rooms` already.
///
/// Errors: those of [`VideoRequest::precheck`], before anything is fetched; `reference_url_forbidden`,
/// `reference_fetch_failed`, `invalid_reference_url` and `invalid_reference_media`, each of which names the field; and
/// `no_capacity`.
pub(crate) async fn gather(
    intake: &Intake,
    wants: Wants<'_>,
    references: Vec<Reference>,
    mut rooms: Rooms,
) -> Result<Gathered, ApiError> {
    rooms.hold_upload(intake).await?;
    let mut used = Vec::with_capacity(references.len());
    for reference in &references {
        used.push((intake.kind_of(reference).await?, reference.field.clone()));
    }
    let counts = ReferenceCounts::of(used.iter().map(|(kind, _)| *kind));
    wants.video.precheck(counts, wants.profile).map_err(|invalid| blamed(invalid, &used))?;
    let limits = Arc::new(ReferenceLimits::of(&wants.profile.geometry));
    let mut placed = Vec::with_capacity(references.len());
    for (Reference { source, .. }, (kind, field)) in references.into_iter().zip(&used) {
        placed.push((intake.place(source, field, most_bytes(*kind, &limits)).await?, *kind, field.as_str()));
    }
    rooms.large = None; // the long texts are gone
    let deadline = Instant::now() + intake.fetch_timeout;
    let fetches: Vec<_> = placed
        .into_iter()
        .map(|(place, kind, field)| intake.bring(place, kind, field, most_bytes(kind, &limits), deadline))
        .collect();
    let found: Vec<Found> = stream::iter(fetches).buffered(AT_ONCE).try_collect().await?;
    let looks: Vec<_> = found
        .iter()
        .map(|Found { field, kind, file, claims }| {
            intake.inspect(wants.tools, &limits, field, file.path().to_owned(), claims.clone(), *kind)
        })
        .collect();
    let facts: Vec<_> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    let mut gathered = Gathered { media: Vec::new(), files: Vec::new(), used, _rooms: rooms };
    for (index, (Found { field, file, .. }, facts)) in found.into_iter().zip(facts).enumerate() {
        let key = BlobKey::input(wants.tenant, wants.job, index, &file.sha256);
        gathered.media.push(Medium { field, object: key.as_str().to_owned(), size_bytes: file.size_bytes, facts });
        gathered.files.push((key, file));
    }
    Ok(gathered)
}

/// Names the field that a client used, where a rule is about all references of a kind.
fn blamed(invalid: Invalid, references: &[(ReferenceKind, String)]) -> ApiError {
    let kind = match invalid.field.as_str() {
        "image_reference" => Some(ReferenceKind::Image),
        "video_reference" => Some(ReferenceKind::Video),
        "audio_reference" => Some(ReferenceKind::Audio),
        _ => None,
    };
    let used = references.iter().find(|(used, _)| Some(*used) == kind).map(|(_, field)| field.as_str());
    let root = used.map(|field| field.split(['[', '.']).next().unwrap_or(field).to_owned());
    let error = ApiError::from(invalid);
    match root {
        Some(root) => error.with_param(root),
        None => error,
    }
}

fn most_bytes(kind: ReferenceKind, limits: &ReferenceLimits) -> u64 {
    match kind {
        ReferenceKind::Image => limits.image_bytes,
        ReferenceKind::Video => limits.video_bytes,
        ReferenceKind::Audio => limits.audio_bytes,
    }
}

impl Intake {
    /// Says what kind of medium a reference is: a file tells by its content, a URL by its field.
    async fn kind_of(&self, reference: &Reference) -> Result<ReferenceKind, ApiError> {
        match &reference.source {
            Source::Url { kind, .. } | Source::Data { kind, .. } => Ok(*kind),
            Source::File(part) if part.file.size_bytes == 0 => Err(empty(&reference.field)),
            Source::File(part) => {
                let claims = Claims { content_type: part.content_type.clone(), file_name: part.file_name.clone() };
                self.kind(&reference.field, part.file.path().to_owned(), claims).await
            }
        }
    }

    /// Writes down what the request carries itself.
    async fn place(&self, source: Source, field: &str, most_bytes: u64) -> Result<Place, ApiError> {
        match source {
            Source::Url { url, .. } => Ok(Place::At(url)),
            Source::File(FilePart { content_type, file_name, file, .. }) => {
                Ok(Place::Spooled(file, Claims { content_type, file_name }))
            }
            Source::Data { data, .. } => {
                let claims = Claims { content_type: Some(data.media_type.clone()), file_name: None };
                Ok(Place::Spooled(self.decode(field, data, most_bytes).await?, claims))
            }
        }
    }

    /// Brings the file of a reference into the spool, if it is not there.
    async fn bring(
        &self,
        place: Place,
        kind: ReferenceKind,
        field: &str,
        most_bytes: u64,
        deadline: Instant,
    ) -> Result<Found, ApiError> {
        let (file, claims) = match place {
            Place::Spooled(file, claims) => (file, claims),
            Place::At(url) => {
                let fetched = match timeout_at(deadline, self.fetcher.fetch(&url, most_bytes, &self.spool)).await {
                    Ok(fetched) => fetched.map_err(|error| unfetched(field, error))?,
                    Err(_) => return Err(late(field, self.fetch_timeout.as_secs_f64())),
                };
                // A path that ends in `.jpg` says little on the web, where hosts send what they like best.
                (fetched.file, Claims { content_type: fetched.content_type, file_name: None })
            }
        };
        if file.size_bytes == 0 {
            return Err(empty(field));
        }
        Ok(Found { field: field.to_owned(), kind, file, claims })
    }

    async fn decode(&self, field: &str, data: DataUrl, most_bytes: u64) -> Result<Spooled, ApiError> {
        let spool = self.spool.clone();
        let written = tokio::task::spawn_blocking(move || data.write(most_bytes, &spool)).await;
        match written {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error @ DataUrlError::Encoding)) => {
                Err(ApiError::new(ErrorCode::InvalidReferenceUrl, format!("Invalid {field}: {error}"))
                    .with_param(field))
            }
            Ok(Err(error @ DataUrlError::TooLarge(_))) => Err(invalid_media(field, &error.to_string())),
            Ok(Err(error @ DataUrlError::Spool(_))) => Err(ApiError::unkept(&error)),
            Err(panic) => {
                tracing::error!(error = %panic, "decoding a data URL failed");
                Err(ApiError::internal())
            }
        }
    }
}

fn unfetched(field: &str, error: FetchError) -> ApiError {
    let code = match &error {
        FetchError::Spool(_) => {
            return ApiError::unkept(&error);
        }
        FetchError::Forbidden(_) => ErrorCode::ReferenceUrlForbidden,
        FetchError::Failed(_) => ErrorCode::ReferenceFetchFailed,
    };
    ApiError::new(code, format!("{field}: {error}")).with_param(field)
}

fn empty(field: &str) -> ApiError {
    invalid_media(field, "the file is empty")
}

fn late(field: &str, seconds: f64) -> ApiError {
    let message = format!("{field}: the files of the request did not come within {seconds} s");
    ApiError::new(ErrorCode::ReferenceFetchFailed, message).with_param(field)
}
