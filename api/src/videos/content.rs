//! `GET` and `HEAD /v1/videos/{id}/content`: the finished file, and pictures of it.

use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use clapboard_jobs::{BlobError, Job, JobError, JobState, PreviewKind, ResultObject};

use super::id::VideoId;
use super::range::{Validators, Wanted};
use super::{PictureFile, VideoFile};
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;
use crate::query::{ignored_header, pairs};

/// How long the address of a redirect works.
const LINK_LIFE: Duration = Duration::from_secs(300);

/// A file of a finished video.
#[derive(Debug, Clone)]
pub(super) struct File {
    object: ResultObject,
    media_type: &'static str,
    /// Its name on the client's disk.
    name: String,
}

impl File {
    /// Returns the video itself, while it is kept.
    pub(super) fn video(job: &Job) -> Option<Self> {
        let object = job.result.clone()?;
        Some(Self { object, media_type: "video/mp4", name: format!("{}.mp4", job.id) })
    }

    /// Returns a picture of the video, if one was made and is kept.
    fn preview(job: &Job, kind: PreviewKind) -> Option<Self> {
        let preview = job.previews.iter().find(|preview| preview.kind == kind)?;
        let name = format!("{}-{}.{}", job.id, kind.as_str(), kind.extension());
        Some(Self { object: preview.object.clone(), media_type: kind.media_type(), name })
    }
}

/// What a request asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    /// A picture of the video, instead of the video.
    preview: Option<PreviewKind>,
    /// Whether it is to be sent on to the media store.
    redirect: Option<bool>,
    /// The parameters that nothing documents.
    unknown: Vec<String>,
}

/// Sends the finished video or a picture of it, whole or some bytes of it, or says where it is.
///
/// Whatever the request's `Accept` says, the file comes: OpenAI's clients ask for `application/binary`.
#[utoipa::path(
    get, path = "/v1/videos/{id}/content", tag = "videos",
    params(
        ("id" = String, Path, description = "The video's id."),
        ("variant" = Option<String>, Query, description = "`video`, `thumbnail` (one frame) or `spritesheet` (frames from all of it)."),
        ("redirect" = Option<String>, Query, description = "`true`: be sent on to the media store, if that has addresses."),
        ("Range" = Option<String>, Header, description = "One range of bytes; several are answered with the whole."),
        ("If-Range" = Option<String>, Header, description = "Obey `Range` only for this version of the file."),
        ("If-None-Match" = Option<String>, Header, description = "The versions that the client has."),
        ("If-Modified-Since" = Option<String>, Header, description = "When the client got its version."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown parameters instead of ignoring them."),
    ),
    responses(
        (status = 200, content(
            (VideoFile = "video/mp4"),
            (PictureFile = "image/webp"),
            (PictureFile = "image/jpeg"),
        ), headers(
            ("ETag" = String, description = "The SHA-256 of the file."),
            ("Last-Modified" = String, description = "When the video was finished."),
            ("Accept-Ranges" = String, description = "`bytes`."),
            ("Content-Disposition" = String, description = "The name of the file."),
            ("x-ignored-fields" = String, description = "The parameters that nothing documents, if there were any."),
        )),
        (status = 206, content(
            (VideoFile = "video/mp4"),
            (PictureFile = "image/webp"),
            (PictureFile = "image/jpeg"),
        ), description = "The bytes that `Range` asked for.", headers(
            ("Content-Range" = String, description = "Which bytes they are."),
            ("ETag" = String, description = "The SHA-256 of the whole file."),
        )),
        (status = 304, description = "The client has it already."),
        (status = 307, description = "The file is at `Location` for five minutes.", headers(
            ("Location" = String, description = "An address that needs no key."),
        )),
        (status = 400, description = "There is no such variant, or a parameter breaks another rule.", body = ErrorBody),
        (status = 404, description = "There is no such video, it is not finished, or it has no such picture.", body = ErrorBody),
        (status = 410, description = "The file was kept as long as files are.", body = ErrorBody),
        (status = 416, description = "The bytes are not within the file.", body = ErrorBody, headers(
            ("Content-Range" = String, description = "The length of the file."),
        )),
        (status = 422, description = "The video ended without a result.", body = ErrorBody),
        (status = 503, description = "The job store or the media store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn content(
    State(state): State<AppState>,
    caller: Caller,
    id: VideoId,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let asked = query(&uri)?;
    let ignored = ignored_header(&headers, &asked.unknown)?;
    let (job, file) = finished(&state, caller, id, asked.preview).await?;
    if asked.redirect.unwrap_or(state.options.redirect_content)
        && let Some(elsewhere) = redirect(&state, &job, &file, &headers).await?
    {
        return Ok((ignored, elsewhere).into_response());
    }
    Ok((ignored, respond(&state, &job, &file, &headers).await?).into_response())
}

/// Answers like the download, without the bytes.
#[utoipa::path(
    head, path = "/v1/videos/{id}/content", tag = "videos",
    params(
        ("id" = String, Path, description = "The video's id."),
        ("variant" = Option<String>, Query, description = "`video`, `thumbnail` or `spritesheet`."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown parameters instead of ignoring them."),
    ),
    responses(
        (status = 200, description = "The download would succeed."),
        (status = 304, description = "The client has it already."),
        (status = 400, description = "There is no such variant, or a parameter breaks another rule."),
        (status = 404, description = "There is no such video, it is not finished, or it has no such picture."),
        (status = 410, description = "The file was kept as long as files are."),
        (status = 422, description = "The video ended without a result."),
        (status = 503, description = "The job store or the media store cannot be reached now."),
    ),
)]
pub(crate) async fn content_head(
    State(state): State<AppState>,
    caller: Caller,
    id: VideoId,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Never a redirect: the media store's addresses are for GET alone.
    let asked = query(&uri)?;
    let ignored = ignored_header(&headers, &asked.unknown)?;
    let (job, file) = finished(&state, caller, id, asked.preview).await?;
    let validators = validators(&job, &file);
    if validators.wanted(&headers) == Wanted::NotModified {
        return Ok((ignored, not_modified(&file, &validators)).into_response());
    }
    let Some(info) = state.blob.head(&file.object.key).await? else {
        return Err(missing(&state, &job).await);
    };
    check_size(&job, &file, info.size_bytes)?;
    let mut response = file_headers(&file, &validators);
    response.insert(header::CONTENT_LENGTH, HeaderValue::from(file.object.size_bytes));
    Ok((ignored, response).into_response())
}

/// Sends a client on to the media store; none where that has no addresses, and for a client that has the file already.
async fn redirect(state: &AppState, job: &Job, file: &File, request: &HeaderMap) -> Result<Option<Response>, ApiError> {
    if validators(job, file).wanted(request) == Wanted::NotModified {
        return Ok(None);
    }
    let Some(link) = state.blob.link(&file.object.key, LINK_LIFE, &file.name).await? else {
        return Ok(None);
    };
    let Ok(location) = HeaderValue::try_from(link) else {
        tracing::error!(job.id = %job.id, "the media store's address of a file cannot stand in a header");
        return Err(ApiError::internal());
    };
    let headers = [(header::LOCATION, location), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok(Some((StatusCode::TEMPORARY_REDIRECT, headers).into_response()))
}

/// Sends a finished file as the request's conditions and range have it.
pub(super) async fn respond(
    state: &AppState,
    job: &Job,
    file: &File,
    request: &HeaderMap,
) -> Result<Response, ApiError> {
    let object = &file.object;
    let validators = validators(job, file);
    let range = match validators.wanted(request) {
        Wanted::NotModified => return Ok(not_modified(file, &validators)),
        Wanted::Unsatisfiable => {
            let message = format!("the range is not within the file, which has {} bytes", object.size_bytes);
            let refused = ApiError::new(ErrorCode::RangeNotSatisfiable, message).with_param("Range");
            return Err(ApiError { object_size_bytes: Some(object.size_bytes), ..refused });
        }
        Wanted::Whole => None,
        Wanted::Part(range) => Some(range),
    };
    let opened = match state.blob.open(&object.key, range.clone()).await {
        // The range is within the file that the row tells of.
        Err(BlobError::RangeOutside { size_bytes, .. }) => return Err(wrong_size(job, file, size_bytes)),
        opened => opened?,
    };
    let Some(opened) = opened else {
        return Err(missing(state, job).await);
    };
    check_size(job, file, opened.info.size_bytes)?;
    let sent = &opened.range;
    let mut headers = file_headers(file, &validators);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(sent.end - sent.start));
    let status = match range {
        None => StatusCode::OK,
        Some(_) => {
            let text = format!("bytes {}-{}/{}", sent.start, sent.end - 1, object.size_bytes);
            headers.insert(header::CONTENT_RANGE, HeaderValue::try_from(text).expect("digits are a header value"));
            StatusCode::PARTIAL_CONTENT
        }
    };
    Ok((status, headers, Body::from_stream(opened.stream)).into_response())
}

/// Says why a job has no file.
pub(super) fn without_result(job: &Job) -> ApiError {
    match job.state {
        JobState::Completed => {
            let message = "the video's file was kept as long as files are, and is deleted";
            ApiError::new(ErrorCode::VideoExpired, message).with_param("video_id")
        }
        JobState::Failed | JobState::Cancelled => failed(job),
        JobState::Queued | JobState::Running => {
            let message = format!("the video is not ready: it is {}", job.status());
            ApiError::new(ErrorCode::VideoNotReady, message).with_param("video_id")
        }
    }
}

fn failed(job: &Job) -> ApiError {
    let reason = match job.state {
        JobState::Cancelled => "it was cancelled".to_owned(),
        _ => job.error.as_ref().map(JobError::to_string).unwrap_or_default(),
    };
    let message = format!("the video has no content: {reason}");
    ApiError::new(ErrorCode::VideoFailed, message).with_param("video_id").with_video(job.id)
}

async fn finished(
    state: &AppState,
    Caller(tenant): Caller,
    VideoId(id): VideoId,
    preview: Option<PreviewKind>,
) -> Result<(Job, File), ApiError> {
    let job = state.store.get(&tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    let (JobState::Completed, Some(video)) = (job.state, File::video(&job)) else {
        return Err(without_result(&job));
    };
    let Some(kind) = preview else {
        return Ok((job, video));
    };
    match File::preview(&job, kind) {
        Some(picture) => Ok((job, picture)),
        None => {
            let message = format!("the video has no {}: none could be made of it", kind.as_str());
            Err(ApiError::new(ErrorCode::NotFound, message).with_param("variant"))
        }
    }
}

fn query(uri: &Uri) -> Result<Asked, ApiError> {
    let mut asked = Asked::default();
    for (name, value) in pairs(uri)? {
        match (name.as_str(), value.as_str()) {
            ("variant", "video") => asked.preview = None,
            ("variant", other) => {
                let wrong = |_| ApiError::invalid_value(&name, "variant must be video, thumbnail or spritesheet");
                asked.preview = Some(other.parse().map_err(wrong)?);
            }
            ("redirect", "true" | "1") => asked.redirect = Some(true),
            ("redirect", "false" | "0") => asked.redirect = Some(false),
            ("redirect", _) => return Err(ApiError::invalid_value(&name, "redirect must be true or false")),
            _ => asked.unknown.push(name),
        }
    }
    Ok(asked)
}

fn validators(job: &Job, file: &File) -> Validators {
    let finished = job.finished_at.map_or(0, |at| at.unix_seconds());
    Validators::new(&file.object.sha256, u64::try_from(finished).unwrap_or_default(), file.object.size_bytes)
}

fn file_headers(file: &File, validators: &Validators) -> HeaderMap {
    let ascii = |text: String| HeaderValue::try_from(text).expect("ids, digests and dates are header values");
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static(file.media_type)),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (header::ETAG, ascii(validators.etag.clone())),
        (header::LAST_MODIFIED, ascii(httpdate::fmt_http_date(validators.modified.max(SystemTime::UNIX_EPOCH)))),
        (header::CONTENT_DISPOSITION, ascii(format!("attachment; filename=\"{}\"", file.name))),
    ])
}

fn not_modified(file: &File, validators: &Validators) -> Response {
    let mut headers = file_headers(file, validators);
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_DISPOSITION);
    (StatusCode::NOT_MODIFIED, headers).into_response()
}

/// Refuses a file that is not the one that was stored: its length would be announced wrongly, and its bytes are not the
/// video.
fn check_size(job: &Job, file: &File, found_bytes: u64) -> Result<(), ApiError> {
    if found_bytes == file.object.size_bytes { Ok(()) } else { Err(wrong_size(job, file, found_bytes)) }
}

fn wrong_size(job: &Job, file: &File, found_bytes: u64) -> ApiError {
    tracing::error!(
        job.id = %job.id,
        stored_bytes = file.object.size_bytes,
        found_bytes,
        "the file of a completed job has changed its size"
    );
    ApiError::internal()
}

/// Says why the file of a completed job is not there: it may have been deleted or have expired since its row was read.
async fn missing(state: &AppState, job: &Job) -> ApiError {
    match state.store.get(&job.tenant, job.id).await {
        Ok(None) => ApiError::video_not_found(),
        Ok(Some(now)) if now.result.is_none() => without_result(&now),
        Ok(Some(_)) => {
            tracing::error!(job.id = %job.id, "the file of a completed job is missing");
            ApiError::internal()
        }
        Err(error) => error.into(),
    }
}
