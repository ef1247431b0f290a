//! `POST /v1/videos/{id}/remix`: makes a video once more, from another prompt.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use clapboard_h3::{GenerationSpec, ModelProfile, ReferenceCounts, VideoRequest};
use clapboard_jobs::{Causes, Job, JobId, NewJob};

use super::create::answer;
use super::id::VideoId;
use super::{RemixVideo, Video, schedule};
use crate::admission::{
    Admission, Admitted, Received, has_memory_for, hook, ignored, known, make, receive, seed, under,
};
use crate::app::{AppState, Shared};
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;
use crate::fields::{RemixRequest, read_remix};
use crate::health;
use crate::media::copy;
use crate::models::is_served;

/// Makes a video like another one, from another prompt: of the same size, length, steps, quality and references.
///
/// The original may be in any state, as long as its references are kept, if it has any: those of a video that is completed or
/// cancelled are not. The seed is a new random one unless the request names it.
#[utoipa::path(
    post, path = "/v1/videos/{id}/remix", tag = "videos",
    request_body(content(
        (RemixVideo = "application/json"),
        (RemixVideo = "application/x-www-form-urlencoded"),
        (RemixVideo = "multipart/form-data"),
    )),
    params(
        ("id" = String, Path, description = "The original's id."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown fields instead of ignoring them."),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters: the same request with the same key within 24 hours gets the first one's video."),
        ("traceparent" = Option<String>, Header, description = "The trace that the video belongs to, as W3C Trace Context has it."),
    ),
    responses(
        (status = 200, body = Video, headers(
            ("openai-poll-after-ms" = u64, description = "When to look again."),
            ("idempotency-replayed" = String, description = "`true`: the same request has made this video before."),
            ("x-ignored-fields" = String, description = "The fields that nothing documents, if there were any."),
        )),
        (status = 400, description = "A field breaks a rule, which the error names, or the references are not kept any more.", body = ErrorBody),
        (status = 404, description = "There is no such video.", body = ErrorBody),
        (status = 408, description = "The body did not come in time, or stood still.", body = ErrorBody),
        (status = 409, description = "Another request has used the idempotency key.", body = ErrorBody),
        (status = 413, description = "The texts of the body are too large.", body = ErrorBody),
        (status = 415, description = "The body is of another type.", body = ErrorBody),
        (status = 429, description = "As many videos are waiting as may, or too many were asked for lately.", body = ErrorBody),
        (status = 503, description = "No work is taken now, or there is no room for the references.", body = ErrorBody),
    ),
)]
pub(crate) async fn remix(
    State(shared): State<Shared>,
    VideoId(id): VideoId,
    request: Request,
) -> Result<(HeaderMap, Json<Video>), ApiError> {
    let state = &shared.app;
    let received = receive(&shared, request, &format!("remix {id}"), true).await?;
    let admission = admit(state, id, received).await?;
    let (made, ignored) = make(state, admission).await?;
    Ok(answer(state, made, ignored).await)
}

async fn admit(state: &AppState, id: JobId, received: Received) -> Result<Admission, ApiError> {
    let Received { headers, tenant, decoded, rooms, mark } = received;
    let mut request = read_remix(decoded)?;
    let ignored = ignored(&headers, &request.unknown)?;
    check_prompt(&request, &state.profile)?;
    let hook = hook(request.terms.hook.take(), &state.options)?;
    if let Some(job) = known(state, &tenant, mark.as_ref()).await? {
        return Ok(Admission::Known(Box::new(job), ignored));
    }
    let original = state.store.get(&tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    let mut spec = spec(state, &original)?;
    health::check_live(state, spec.partition).await?;
    spec.prompt = request.prompt.unwrap_or_default();
    spec.seed = request.seed.map_or_else(|| seed(state), i64::cast_unsigned);
    has_memory_for(&spec, &state.options).map_err(|refused| refused.with_param("video_id"))?;
    let new = JobId::new();
    let media = match spec.inputs.is_empty() {
        true => None,
        false => Some(copy(state, id, new, &mut spec.inputs, rooms).await?),
    };
    // What it was asked for by may be served no more.
    let model = if is_served(state, &original.model) { original.model } else { state.profile.name.clone() };
    let job = NewJob { id: new, hook, remixed_from: Some(id), ..NewJob::new(tenant, model, &spec) };
    let job = under(request.terms, &headers, job, media.as_ref());
    Ok(Admission::New(Box::new(Admitted { job, media, mark, ignored })))
}

/// Checks the prompt, which the rules look at first.
fn check_prompt(request: &RemixRequest, profile: &ModelProfile) -> Result<(), ApiError> {
    const FIELD: &str = "prompt";
    let prompted = VideoRequest { prompt: request.prompt.clone(), ..VideoRequest::default() };
    match prompted.precheck(ReferenceCounts::default(), profile) {
        Err(invalid) if invalid.field == FIELD => Err(invalid.into()),
        // What else such a request lacks, the original has.
        _ => Ok(()),
    }
}

/// Returns what the original is made from, if that can still be made here.
fn spec(state: &AppState, original: &Job) -> Result<GenerationSpec, ApiError> {
    let refuse = |why: &str| {
        let message = format!("the video cannot be remixed: {why}");
        Err(ApiError::new(ErrorCode::UnsupportedTask, message).with_param("video_id"))
    };
    let spec = match original.spec.decode() {
        Ok(spec) => spec,
        Err(error) => {
            tracing::warn!(job.id = %original.id, error = %Causes(&error), "could not read the spec of a job");
            return refuse("it was made by another version of this service");
        }
    };
    if !state.profile.serves(spec.task) {
        return refuse(&format!("task {} is not run here", spec.task));
    }
    if spec.geometry != state.profile.geometry {
        return refuse("it was made by a model of another geometry");
    }
    if ![&spec.video_sigmas, &spec.audio_sigmas].into_iter().all(|grid| schedule::fits(grid, &state.profile)) {
        return refuse("it was made in other steps than the model is distilled for");
    }
    Ok(spec)
}
