//! `POST /v1/videos/sync`: makes a video and answers with its bytes.
//!
//! The job is the same as any other, in the same queue and as durable; only its maker waits for it. A client that goes
//! away, or closes its half of the connection, is taken to have lost interest, and its job is cancelled, unless it said `x-keep-job: 1`
//! or named its request (`Idempotency-Key`), and so may come back for it.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use clapboard_jobs::{Causes, Job, JobId, JobState, RunReport, Tenant};
use tokio::time::Instant;

use super::content::{File, respond, without_result};
use super::object::mebibytes;
use super::{CreateVideo, VideoFile};
use crate::admission::{Admission, Made, Waiting, admit, asks, make};
use crate::app::{AppState, Shared};
use crate::auth::Access;
use crate::client::{Client, gone, unwanted};
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;
use crate::{health, submission};

/// Makes a video and answers with it.
#[utoipa::path(
    post, path = "/v1/videos/sync", tag = "videos",
    request_body(content(
        (CreateVideo = "multipart/form-data"),
        (CreateVideo = "application/x-www-form-urlencoded"),
        (CreateVideo = "application/json"),
    )),
    params(
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them."),
        ("x-keep-job" = Option<String>, Header, description = "`1`: keep the job when the client disconnects."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters: the same request with the same key within 24 hours waits for the first one's video, which is kept when the client disconnects."),
        ("traceparent" = Option<String>, Header, description = "The trace that the video belongs to, as W3C Trace Context has it."),
    ),
    responses(
        (status = 200, content_type = "video/mp4", body = VideoFile, headers(
            ("x-video-id" = String, description = "The video's id."),
            ("X-Model" = String, description = "The model by the name that the request used."),
            ("X-Inference-Time-S" = String, description = "Seconds of the run."),
            ("X-Stage-Durations" = String, description = "Seconds per stage, as a JSON object."),
            ("X-Peak-Memory-MB" = String, description = "The most memory that the run's process held, in MiB."),
            ("idempotency-replayed" = String, description = "`true`: the same request has made this video before."),
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, which the error names.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known, or was taken away while the video was waited for, which goes on.", body = ErrorBody),
        (status = 404, description = "The video was deleted while it was waited for.", body = ErrorBody),
        (status = 408, description = "The body did not come in time, or stood still.", body = ErrorBody),
        (status = 410, description = "The video has been made before, and its file was kept as long as files are.", body = ErrorBody),
        (status = 413, description = "The texts of the body are too large.", body = ErrorBody),
        (status = 415, description = "The body is of another type.", body = ErrorBody),
        (status = 409, description = "Another request has used the idempotency key.", body = ErrorBody),
        (status = 422, description = "The video ended without a result.", body = ErrorBody),
        (status = 429, description = "As many videos are waiting as may, or too many were asked for lately.", body = ErrorBody),
        (status = 503, description = "No work is taken now, or there is no room for the references.", body = ErrorBody),
        (status = 504, description = "It takes longer than the client may wait; the job goes on.", body = ErrorBody),
    ),
)]
pub(crate) async fn create_sync(State(shared): State<Shared>, request: Request) -> Result<Response, ApiError> {
    let keeps = asks(request.headers(), "x-keep-job") || submission::is_named(request.headers());
    let access = Access::of(request.extensions())?.clone();
    let client = request.extensions().get::<Client>().cloned().filter(|_| !keeps);
    let admission = admit(&shared, request, Waiting { client: client.clone(), stays: keeps }).await?;
    let state = shared.app;
    let mut guard = CancelOnDrop { state: state.clone(), job: None };
    if let Admission::New(admitted) = &admission
        && !keeps
    {
        // Before the row is there: the client may go away while it is written.
        guard.job = Some((admitted.job.tenant.clone(), admitted.job.id));
    }
    let made = make(&state, admission).await;
    if made.is_err() {
        // There is an answer, and if the job may be there nevertheless, it names it.
        guard.job = None;
    }
    let (Made { job, replayed }, ignored) = made?;
    let waited = tokio::select! {
        waited = ended(&state, &access, job.id) => waited,
        () = tokio::time::sleep(state.options.sync_timeout) => Err(out_of_time(&state, job.id)),
        () = state.readiness.closed() => Err(interrupted(&state, job.id)),
        () = gone(client) => return Err(after_commit(unwanted(), job.id)),
    };
    // From here on there is an answer, and whatever it is, the job is not to be cancelled for it.
    guard.job = None;
    let answered = match waited {
        Ok(job) => answer(&state, &job).await,
        Err(error) => Err(error),
    };
    let mut response = answered.map_err(|error| after_commit(error, job.id))?;
    if let Some(ignored) = ignored {
        response.headers_mut().insert("x-ignored-fields", ignored);
    }
    if replayed {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Answers with the video of a job that has ended.
async fn answer(state: &AppState, job: &Job) -> Result<Response, ApiError> {
    let (JobState::Completed, Some(file)) = (job.state, File::video(job)) else {
        return Err(without_result(job));
    };
    let mut response = respond(state, job, &file, &HeaderMap::new()).await?;
    response.headers_mut().extend(run_headers(job));
    Ok(response)
}

/// Says in an error which job was made, and that asking again would make another one.
fn after_commit(mut error: ApiError, id: JobId) -> ApiError {
    if error.code.status().is_server_error() {
        error.should_retry = Some(false);
    }
    error.with_video(id)
}

/// Waits for the job's end, for as long as the key is good that it was asked for by.
///
/// Errors: `not_found` when the job is deleted, and `invalid_api_key` when the key is taken away.
async fn ended(state: &AppState, access: &Access, id: JobId) -> Result<Job, ApiError> {
    let mut found = state.store.get(&access.tenant, id).await.map(Some);
    loop {
        match found {
            Ok(Some(Some(job))) if job.state.is_final() => return Ok(job),
            Ok(Some(Some(_))) => {}
            Ok(Some(None)) => return Err(ApiError::video_not_found()),
            Ok(None) => return Err(key_revoked(id)),
            // The job is safe, the store may come back before the time is up, and nobody is shut out for what cannot be known.
            Err(error) => tracing::warn!(job.id = %id, error = %Causes(&error), "could not look at a job"),
        }
        tokio::time::sleep(state.options.sync_poll).await;
        found = access.look(&*state.store, id).await;
    }
}

fn out_of_time(state: &AppState, id: JobId) -> ApiError {
    let seconds = state.options.sync_timeout.as_secs();
    let message = format!("the video is not finished after {seconds} s; it goes on as {id}");
    ApiError::new(ErrorCode::SyncTimeout, message)
}

/// Makes the answer to a client whose key is taken away while it waits. Its job is its tenant's, as any that was made before.
fn key_revoked(id: JobId) -> ApiError {
    let message = format!("the API key was taken away before the video was finished, which goes on as {id}");
    ApiError::new(ErrorCode::InvalidApiKey, message)
}

/// Makes the answer of a service that stops while a client waits. The job stays in the queue, so the client must ask
/// for it and not for another one.
fn interrupted(state: &AppState, id: JobId) -> ApiError {
    let mut error = health::not_ready(state.readiness.get());
    error.message = format!("{}; the video stays in the queue as {id}", error.message);
    error
}

fn run_headers(job: &Job) -> HeaderMap {
    let report = job.report.clone().unwrap_or_default();
    let RunReport { inference_s, stage_durations_s, peak_memory_bytes } = report;
    let stages = serde_json::to_string(&stage_durations_s).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-video-id", job.id.to_string()),
        ("x-model", job.model.clone()),
        ("x-inference-time-s", format!("{inference_s:.3}")),
        ("x-stage-durations", stages),
        ("x-peak-memory-mb", format!("{:.3}", mebibytes(peak_memory_bytes))),
    ] {
        // A name that cannot stand in a header leaves it out: the video is what counts.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Cancels the job when the request is dropped before its answer is known.
struct CancelOnDrop {
    state: AppState,
    job: Option<(Tenant, JobId)>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some((tenant, id)) = self.job.take() else {
            return;
        };
        let state = self.state.clone();
        self.state.tasks.spawn(async move { cancel_abandoned(&state, &tenant, id).await });
    }
}

/// Cancels a job whose client has gone. Where the store is out of reach it is tried again for as long as the client might have
/// waited, and a last time when the service stops: nobody else would.
async fn cancel_abandoned(state: &AppState, tenant: &Tenant, id: JobId) {
    let until = Instant::now() + state.options.sync_timeout;
    let mut is_first = true;
    loop {
        // Asked before the try, so that one follows when the service stops meanwhile.
        let is_last = Instant::now() >= until || !state.readiness.get().accepts_jobs();
        match super::cancel::end(&*state.store, tenant, id).await {
            Ok(_) => return tracing::info!(job.id = %id, "cancelled a job whose client has gone"),
            Err(error) if is_first || is_last => {
                tracing::warn!(job.id = %id, error = %Causes(&error), is_last, "could not cancel a job whose client has gone");
            }
            Err(_) => {}
        }
        if is_last {
            return;
        }
        is_first = false;
        tokio::select! {
            () = tokio::time::sleep(state.options.poll_after) => {}
            () = state.readiness.closed() => {}
        }
    }
}
