//! `GET` and `HEAD /v1/videos/{id}/content`: the finished file.

use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use clapboard_jobs::{BlobError, Job, JobError, JobState, ResultObject};

use super::VideoFile;
use super::id::VideoId;
use super::query::pairs;
use super::range::{Validators, Wanted};
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;

/// How long the address of a redirect works.
const LINK_LIFE: Duration = Duration::from_secs(300);

/// Sends the finished video, or some bytes of it, or says where they are.
///
/// Whatever the request's `Accept` says, an MP4 comes: OpenAI's clients ask for `application/binary`.
#[utoipa::path(
    get, path = "/v1/videos/{id}/content", tag = "videos",
    params(
        ("id" = String, Path, description = "The video's id."),
        ("variant" = Option<String>, Query, description = "Only `video`."),
        ("redirect" = Option<String>, Query, description = "`true`: be sent on to the media store, if that has addresses."),
    ),
    responses(
        (status = 200, content_type = "video/mp4", body = VideoFile, headers(
            ("ETag" = String, description = "The SHA-256 of the file."),
            ("Accept-Ranges" = String, description = "`bytes`."),
        )),
        (status = 206, content_type = "video/mp4", body = VideoFile, description = "The bytes that `Range` asked for."),
        (status = 304, description = "The client has it already."),
        (status = 307, description = "The file is at `Location` for five minutes."),
        (status = 400, description = "There is no such variant, or it is not supported.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 404, description = "There is no such video, or it is not finished.", body = ErrorBody),
        (status = 410, description = "The file was kept as long as files are.", body = ErrorBody),
        (status = 416, description = "The bytes are not within the file.", body = ErrorBody),
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
    let (job, object) = finished(&state, caller, id).await?;
    if asked.unwrap_or(state.options.redirect_content)
        && let Some(elsewhere) = redirect(&state, &job, &object, &headers).await?
    {
        return Ok(elsewhere);
    }
    respond(&state, &job, &object, &headers).await
}

/// Answers like the download, without the bytes.
#[utoipa::path(
    head, path = "/v1/videos/{id}/content", tag = "videos",
    params(
        ("id" = String, Path, description = "The video's id."),
        ("variant" = Option<String>, Query, description = "Only `video`."),
    ),
    responses(
        (status = 200, description = "The download would succeed."),
        (status = 401, description = "The API key is missing or not known."),
        (status = 404, description = "There is no such video, or it is not finished."),
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
    query(&uri)?;
    let (job, object) = finished(&state, caller, id).await?;
    let validators = validators(&job, &object);
    if validators.wanted(&headers) == Wanted::NotModified {
        return Ok(not_modified(&job, &validators));
    }
    let Some(info) = state.blob.head(&object.key).await? else {
        return Err(missing(&state, &job).await);
    };
    check_size(&job, &object, info.size_bytes)?;
    let mut response = file_headers(&job, &validators);
    response.insert(header::CONTENT_LENGTH, HeaderValue::from(object.size_bytes));
    Ok(response.into_response())
}

/// Sends a client on to the media store; none where that has no addresses, and for a client that has the file already.
async fn redirect(
    state: &AppState,
    job: &Job,
    object: &ResultObject,
    request: &HeaderMap,
) -> Result<Option<Response>, ApiError> {
    if validators(job, object).wanted(request) == Wanted::NotModified {
        return Ok(None);
    }
    let Some(link) = state.blob.link(&object.key, LINK_LIFE, &file_name(job)).await? else {
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
    object: &ResultObject,
    request: &HeaderMap,
) -> Result<Response, ApiError> {
    let validators = validators(job, object);
    let range = match validators.wanted(request) {
        Wanted::NotModified => return Ok(not_modified(job, &validators)),
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
        Err(BlobError::RangeOutside { size_bytes, .. }) => return Err(wrong_size(job, object, size_bytes)),
        opened => opened?,
    };
    let Some(opened) = opened else {
        return Err(missing(state, job).await);
    };
    check_size(job, object, opened.info.size_bytes)?;
    let sent = &opened.range;
    let mut headers = file_headers(job, &validators);
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
    let reason = job.error.as_ref().map(JobError::to_string).unwrap_or_default();
    ApiError::new(ErrorCode::VideoFailed, format!("the video has no content: {reason}")).with_video(job.id)
}

async fn finished(
    state: &AppState,
    Caller(tenant): Caller,
    VideoId(id): VideoId,
) -> Result<(Job, ResultObject), ApiError> {
    let job = state.store.get(&tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    match (job.state, job.result.clone()) {
        (JobState::Completed, Some(object)) => Ok((job, object)),
        _ => Err(without_result(&job)),
    }
}

/// Reads the query: whether a redirect is wanted, if it says.
fn query(uri: &Uri) -> Result<Option<bool>, ApiError> {
    let mut redirect = None;
    for (name, value) in pairs(uri)? {
        let unsupported = |what| Err(ApiError::unsupported_parameter(&name, format!("{what} is not supported yet")));
        match (name.as_str(), value.as_str()) {
            ("variant", "video") => {}
            ("redirect", "true" | "1") => redirect = Some(true),
            ("redirect", "false" | "0") => redirect = Some(false),
            ("variant", "thumbnail" | "spritesheet") => return unsupported(format!("the variant {value}")),
            ("variant", _) => {
                return Err(ApiError::invalid_value(&name, "variant must be video, thumbnail or spritesheet"));
            }
            ("redirect", _) => return Err(ApiError::invalid_value(&name, "redirect must be true or false")),
            _ => {}
        }
    }
    Ok(redirect)
}

fn validators(job: &Job, object: &ResultObject) -> Validators {
    let finished = job.finished_at.map_or(0, |at| at.unix_seconds());
    Validators::new(&object.sha256, u64::try_from(finished).unwrap_or_default(), object.size_bytes)
}

fn file_name(job: &Job) -> String {
    format!("{}.mp4", job.id)
}

fn file_headers(job: &Job, validators: &Validators) -> HeaderMap {
    let ascii = |text: String| HeaderValue::try_from(text).expect("ids, digests and dates are header values");
    HeaderMap::from_iter([
        (header::CONTENT_TYPE, HeaderValue::from_static("video/mp4")),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (header::ETAG, ascii(validators.etag.clone())),
        (header::LAST_MODIFIED, ascii(httpdate::fmt_http_date(validators.modified.max(SystemTime::UNIX_EPOCH)))),
        (header::CONTENT_DISPOSITION, ascii(format!("attachment; filename=\"{}\"", file_name(job)))),
    ])
}

fn not_modified(job: &Job, validators: &Validators) -> Response {
    let mut headers = file_headers(job, validators);
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_DISPOSITION);
    (StatusCode::NOT_MODIFIED, headers).into_response()
}

/// Refuses a file that is not the one that was stored: its length would be announced wrongly, and its bytes are not the
/// video.
fn check_size(job: &Job, object: &ResultObject, found_bytes: u64) -> Result<(), ApiError> {
    if found_bytes == object.size_bytes { Ok(()) } else { Err(wrong_size(job, object, found_bytes)) }
}

fn wrong_size(job: &Job, object: &ResultObject, found_bytes: u64) -> ApiError {
    tracing::error!(
        job.id = %job.id,
        stored_bytes = object.size_bytes,
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
