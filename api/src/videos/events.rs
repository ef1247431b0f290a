//! `GET /v1/videos/{id}/events`: tells how a video goes on, while it does.
//!
//! The store is looked at every now and then, and whenever the video is not what was sent last, it is sent whole. So
//! nothing is lost that counts: a client that comes back gets what is the case, wherever it was cut off.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use clapboard_jobs::{Causes, Job, JobId, JobState, Phase, Status};
use futures_util::stream;
use tokio::time::Instant;

use super::id::VideoId;
use super::{DeletedVideo, PlaceInQueue, Video, VideoEvents};
use crate::app::{AppState, Shared};
use crate::auth::Access;
use crate::client::{self, Client};
use crate::error::{ApiError, ErrorBody};
use crate::streams::Place;

/// How often a client hears something, whatever happens.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Tells how a video goes on, as server-sent events, until it has ended.
///
/// Each event holds the video object: `video.progress` at once and whenever it changes, `video.completed` or `video.failed` at
/// its end, after which the stream ends too; that of `video.deleted`, which also ends it, is what a delete answers. Ids grow.
/// Where `Last-Event-ID` names the end, there is nothing to come.
#[utoipa::path(
    get, path = "/v1/videos/{id}/events", tag = "videos",
    params(
        ("id" = String, Path, description = "The video's id."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has."),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = VideoEvents, description = "`event: video.progress`, `video.completed`, `video.failed` or `video.deleted`; `data` is the video object, and of `video.deleted` what a delete answers."),
        (status = 204, description = "The client has the last event already."),
        (status = 404, description = "There is no such video.", body = ErrorBody),
        (status = 429, description = "As many streams are open as may.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn events(
    State(shared): State<Shared>,
    VideoId(id): VideoId,
    request: Request,
) -> Result<Response, ApiError> {
    let Shared { app: state, streams, .. } = shared;
    let access = Access::of(request.extensions())?.clone();
    let client = request.extensions().get::<Client>().cloned();
    let job = state.store.get(&access.tenant, id).await?.ok_or_else(ApiError::video_not_found)?;
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    if job.state.is_final() && last == Some(event_id(&job).as_str()) {
        // What makes a browser stop asking.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let place = streams.open(&access.tenant)?;
    let found = Some(job);
    let follow = Follow { state, access, client, id, found, sent: None, position: None, ended: false, _place: place };
    let events = stream::unfold(follow, Follow::next);
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    // Proxies of one kind hold answers back otherwise.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A client that follows a video.
struct Follow {
    state: AppState,
    access: Access,
    client: Option<Client>,
    id: JobId,
    /// The job as it was found before the first look.
    found: Option<Job>,
    /// What the client has.
    sent: Option<Video>,
    /// The place in the queue, and when it was asked for.
    position: Option<(Instant, Option<PlaceInQueue>)>,
    ended: bool,
    _place: Place,
}

impl Follow {
    /// Waits for the next event; none when there is none to come, or nobody to hear of it.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        while !self.ended {
            let Some(job) = self.look().await? else {
                self.ended = true;
                return Some((Ok(deleted(self.id)?), self));
            };
            let video = Video { queue_position: self.place(&job).await, ..Video::of(&job) };
            if self.sent.as_ref() == Some(&video) {
                continue;
            }
            self.ended = job.state.is_final();
            let event = event(&job, &video)?;
            self.sent = Some(video);
            return Some((Ok(event), self));
        }
        None
    }

    /// Returns the job as it is after a while, or at first; the inner none when it is deleted, the outer when the service
    /// stops, the client has gone, or its key is good for nothing any more.
    async fn look(&mut self) -> Option<Option<Job>> {
        if let Some(job) = self.found.take() {
            return Some(Some(job));
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.state.options.event_poll) => {}
                () = self.state.readiness.closed() => return None,
                // Writing to one that has gone would tell as much, but only at the second keep-alive.
                () = client::gone(self.client.clone()) => return None,
            }
            match self.access.look(&*self.state.store, self.id).await {
                Ok(job) => return job,
                // The client is kept alive meanwhile, and the store may come back.
                Err(error) => tracing::warn!(job.id = %self.id, error = %Causes(&error), "could not look at a job"),
            }
        }
    }

    /// Returns the place of a job in its queue, which costs more to look for than the job, and so is looked for as often as
    /// clients are asked to.
    async fn place(&mut self, job: &Job) -> Option<PlaceInQueue> {
        if job.status() != Status::Queued {
            self.position = None;
            return None;
        }
        if let Some((asked, position)) = self.position
            && asked.elapsed() < self.state.options.poll_after
        {
            return position;
        }
        let position = super::place(&self.state, job).await.unwrap_or_default();
        self.position = Some((Instant::now(), position));
        position
    }
}

fn event(job: &Job, video: &Video) -> Option<Event> {
    let name = match job.state {
        JobState::Queued | JobState::Running => "video.progress",
        JobState::Completed => "video.completed",
        JobState::Failed | JobState::Cancelled => "video.failed",
    };
    with_data(Event::default().event(name).id(event_id(job)), video)
}

fn deleted(id: JobId) -> Option<Event> {
    let video = DeletedVideo { id: id.to_string(), object: "video.deleted", deleted: true };
    with_data(Event::default().event("video.deleted"), &video)
}

fn with_data(event: Event, data: &impl serde::Serialize) -> Option<Event> {
    event.json_data(data).inspect_err(|error| tracing::error!(%error, "a video cannot be told as JSON")).ok()
}

/// Returns the id of an event: the number of the claim, how far that has come, and the step there. It grows, number by
/// number, as the job goes on.
fn event_id(job: &Job) -> String {
    let (stage, step) = match job.state {
        JobState::Running if job.begun_at.is_none() => (0, 0),
        JobState::Running => {
            let phase = Phase::ALL.iter().position(|phase| *phase == job.progress.phase).unwrap_or_default();
            (1 + phase, job.progress.step)
        }
        // What waits comes after the claim that it had, and before the next.
        JobState::Queued => (1 + Phase::ALL.len(), 0),
        JobState::Completed | JobState::Failed | JobState::Cancelled => (2 + Phase::ALL.len(), 0),
    };
    format!("{}-{stage}-{step}", job.fence)
}
