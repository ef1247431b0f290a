//! Bringing together the media of a request, wherever they are.

use std::sync::Arc;

use clapboard_h3::prepare::ReferenceKind;
use clapboard_h3::{Invalid, Medium, MediumFacts, ModelProfile, ReferenceCounts, VideoRequest};
use clapboard_jobs::{BlobKey, Causes, JobId};
use clapboard_media::MediaTools;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::data_url::{DataUrl, DataUrlError};
use super::inspect::{Claims, Subject, invalid_media};
use super::spool::Spooled;
use super::{Intake, Rooms};
use crate::body::FilePart;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::fetch::FetchError;
use crate::fields::{Place, Reference, Source};

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
    /// The job that it will be.
    pub(crate) job: JobId,
}

/// The media of a request, looked into.
pub(crate) struct Gathered {
    /// What the rules have to know of them, in the request's order.
    pub(crate) media: Vec<Medium>,
    /// Their files, and where each is to be stored.
    pub(crate) files: Vec<(BlobKey, Spooled)>,
    /// The room that they take.
    pub(super) rooms: Rooms,
    used: Used,
}

/// What each reference is, and where it stood.
struct Used(Vec<(ReferenceKind, Place)>);

/// The bytes of a reference, or where they are.
enum Bytes {
    Spooled(Spooled, Claims),
    At(Url),
}

/// A reference whose file is in the spool.
struct Found {
    field: String,
    kind: ReferenceKind,
    file: Spooled,
    claims: Claims,
}

impl Gathered {
    /// Brings files together about which all is known.
    pub(super) fn of_known(files: Vec<(BlobKey, Spooled)>, rooms: Rooms) -> Self {
        Self { media: Vec::new(), files, rooms, used: Used(Vec::new()) }
    }

    /// Makes the refusal of these media, in the words of the request.
    pub(crate) fn blamed(&self, invalid: Invalid) -> ApiError {
        self.used.blamed(invalid)
    }
}

impl Used {
    /// Names the field that the client used, where a rule is about all references of a kind.
    fn blamed(&self, mut invalid: Invalid) -> ApiError {
        let used = self.0.iter().find(|(kind, _)| Some(*kind) == invalid.kind);
        if let Some((_, place)) = used {
            invalid.field = place.list().to_owned();
        }
        invalid.into()
    }
}

/// Gathers the references of a request, which holds `rooms` already.
///
/// Errors: those of [`VideoRequest::precheck`], before anything is fetched; `reference_url_forbidden`,
/// `reference_fetch_failed`, `invalid_reference_url` and `invalid_reference_media`, each of which names the field;
/// `queue_full` and `no_capacity`.
pub(crate) async fn gather(
    wants: Wants<'_>,
    references: Vec<Reference>,
    mut rooms: Rooms,
) -> Result<Gathered, ApiError> {
    rooms.hold_upload().await?;
    let intake = Arc::clone(&rooms.intake);
    let mut used = Vec::with_capacity(references.len());
    for reference in &references {
        used.push((intake.kind_of(reference).await?, reference.place.clone()));
    }
    let used = Used(used);
    let counts = ReferenceCounts::of(used.0.iter().map(|(kind, _)| *kind));
    wants.video.precheck(counts, wants.profile).map_err(|invalid| used.blamed(invalid))?;
    let mut placed = Vec::with_capacity(references.len());
    for (Reference { place, source }, (kind, _)) in references.into_iter().zip(&used.0) {
        placed.push((intake.write_down(source, &place, *kind).await?, place.to_string(), *kind));
    }
    rooms.let_text_go();
    let deadline = Instant::now() + intake.fetch_timeout;
    let fetches: Vec<_> =
        placed.into_iter().map(|(bytes, field, kind)| intake.bring(bytes, field, kind, deadline)).collect();
    let found: Vec<Found> = stream::iter(fetches).buffered(AT_ONCE).try_collect().await?;
    let facts = look_into(&intake, &wants, &rooms, &found).await?;
    let mut gathered = Gathered { media: Vec::new(), files: Vec::new(), rooms, used };
    for (index, (Found { field, file, .. }, facts)) in found.into_iter().zip(facts).enumerate() {
        let key = BlobKey::input(&gathered.rooms.tenant, wants.job, index, &file.sha256);
        gathered.media.push(Medium { field, object: key.as_str().to_owned(), size_bytes: file.size_bytes, facts });
        gathered.files.push((key, file));
    }
    Ok(gathered)
}

/// Looks into the files of a request, which has its time for all of them together.
async fn look_into(
    intake: &Intake,
    wants: &Wants<'_>,
    rooms: &Rooms,
    found: &[Found],
) -> Result<Vec<MediumFacts>, ApiError> {
    let deadline = Instant::now() + intake.inspection_timeout;
    let mut subjects = Vec::with_capacity(found.len());
    for Found { field, kind, file, claims } in found {
        let path = file.path().to_owned();
        let subject = Subject { field: field.clone(), path, claims: claims.clone(), kind: *kind };
        let bytes = intake.weigh(&subject).await?;
        subjects.push((subject, bytes));
    }
    // The request waits for its first turn as for other room; the next ones may have to wait for the first.
    let mut first = match subjects.first() {
        Some((_, bytes)) => Some(intake.turn(&rooms.tenant, *bytes, deadline.min(intake.capacity.deadline())).await?),
        None => None,
    };
    let looks: Vec<_> = subjects
        .into_iter()
        .map(|(subject, bytes)| {
            let first = first.take();
            async move {
                let turn = match first {
                    Some(turn) => turn,
                    None => intake.turn(&rooms.tenant, bytes, deadline).await?,
                };
                intake.inspect(wants.tools, subject, turn, deadline).await
            }
        })
        .collect();
    stream::iter(looks).buffered(AT_ONCE).try_collect().await
}

impl Intake {
    /// Says what kind of medium a reference is: a file tells by its content, a URL by its field.
    async fn kind_of(&self, reference: &Reference) -> Result<ReferenceKind, ApiError> {
        let field = || reference.place.to_string();
        match &reference.source {
            Source::Url { kind, .. } | Source::Data { kind, .. } => Ok(*kind),
            Source::File(part) if part.file.size_bytes == 0 => Err(empty(&field())),
            Source::File(part) => self.kind(&field(), part.file.path().to_owned(), claims_of(part)).await,
        }
    }

    /// Writes down what the request carries itself.
    async fn write_down(&self, source: Source, place: &Place, kind: ReferenceKind) -> Result<Bytes, ApiError> {
        match source {
            Source::Url { url, .. } => Ok(Bytes::At(url)),
            Source::File(part) => {
                let claims = claims_of(&part);
                Ok(Bytes::Spooled(part.file, claims))
            }
            Source::Data { data, .. } => {
                let claims = Claims { content_type: Some(data.media_type.clone()), ..Claims::default() };
                Ok(Bytes::Spooled(self.decode(place, data, self.most_bytes(kind)).await?, claims))
            }
        }
    }

    /// Brings the file of a reference into the spool, if it is not there.
    async fn bring(
        &self,
        bytes: Bytes,
        field: String,
        kind: ReferenceKind,
        deadline: Instant,
    ) -> Result<Found, ApiError> {
        let (file, claims) = match bytes {
            Bytes::Spooled(file, claims) => (file, claims),
            Bytes::At(url) => {
                let fetching = self.fetcher.fetch(&url, self.most_bytes(kind), &self.spool);
                let fetched = match timeout_at(deadline, fetching).await {
                    Ok(fetched) => fetched.map_err(|error| unfetched(&field, &error))?,
                    Err(_) => return Err(late(&field, self.fetch_timeout.as_secs_f64())),
                };
                // A path that ends in `.jpg` says little on the web, where hosts send what they like best.
                (fetched.file, Claims { content_type: fetched.content_type, file_name: None, served: true })
            }
        };
        if file.size_bytes == 0 {
            return Err(empty(&field));
        }
        Ok(Found { field, kind, file, claims })
    }

    async fn decode(&self, place: &Place, data: DataUrl, most_bytes: u64) -> Result<Spooled, ApiError> {
        let spool = self.spool.clone();
        let written = tokio::task::spawn_blocking(move || data.write(most_bytes, &spool)).await;
        match written {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error @ DataUrlError::Encoding)) => Err(place.invalid_url(&error.to_string())),
            Ok(Err(DataUrlError::TooLarge(error))) => Err(invalid_media(&place.to_string(), &error.to_string())),
            Ok(Err(error @ DataUrlError::Spool(_))) => Err(ApiError::unkept(&error)),
            Err(panic) => {
                tracing::error!(error = %panic, "decoding a data URL failed");
                Err(ApiError::internal())
            }
        }
    }
}

fn claims_of(part: &FilePart) -> Claims {
    Claims { content_type: part.content_type.clone(), file_name: part.file_name.clone(), served: false }
}

/// Makes the answer to a URL whose file did not come; the cause goes to the log.
fn unfetched(field: &str, error: &FetchError) -> ApiError {
    let code = match error {
        FetchError::Spool(_) => return ApiError::unkept(error),
        FetchError::Machine { .. } => {
            tracing::error!(error = %Causes(error), "could not fetch for a reason of this machine's own");
            return ApiError::away(&format!("{field}: the file could not be fetched now")).with_param(field);
        }
        FetchError::Forbidden(_) => ErrorCode::ReferenceUrlForbidden,
        FetchError::Failed { .. } => ErrorCode::ReferenceFetchFailed,
    };
    tracing::info!(error = %Causes(error), "a reference was not fetched");
    ApiError::new(code, format!("{field}: {error}")).with_param(field)
}

fn empty(field: &str) -> ApiError {
    invalid_media(field, "the file is empty")
}

fn late(field: &str, seconds: f64) -> ApiError {
    let message = format!("{field}: the files of the request did not come within {seconds} s");
    ApiError::new(ErrorCode::ReferenceFetchFailed, message).with_param(field)
}

#[cfg(test)]
mod tests {
    use clapboard_h3::{ModelProfile, Partition};

    use super::*;

    #[test]
    fn a_rule_about_a_kind_names_the_list_that_the_client_used_in_param_and_message() {
        let profile = ModelProfile::released("x", Partition::ALL.to_vec());
        let video = VideoRequest { prompt: Some("a cat".to_owned()), ..VideoRequest::default() };
        for (list, place) in [
            ("input_references", Place::file("input_references", Some(2))),
            (
                "extra_params.video_reference",
                Place::file("extra_params.video_reference", Some(0)).with_key("video_url"),
            ),
            ("input_reference", Place::file("input_reference", None)),
        ] {
            let used = Used(vec![(ReferenceKind::Video, place); 4]);
            let counts = ReferenceCounts { videos: 4, ..ReferenceCounts::default() };
            let refused = used.blamed(video.precheck(counts, &profile).unwrap_err());
            assert_eq!(refused.param.as_deref(), Some(list));
            assert!(refused.message.contains("at most 3 videos"), "{}", refused.message);
            assert!(refused.message.starts_with(&format!("{list}: ")), "{}", refused.message);
        }
    }
}
