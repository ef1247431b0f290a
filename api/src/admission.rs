//! From an HTTP request to a committed job.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use clapboard_jobs::{BlobKey, Causes, Hint, Job, JobId, NewJob, StoreError};
use uuid::Uuid;

use crate::app::{AppState, Shared};
use crate::auth::Caller;
use crate::client::{self, Client};
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::media::{Gathered, Rooms, Wants, gather, store};
use crate::{body, fields, health};

/// How many ignored fields a reply names.
const MAX_IGNORED: usize = 20;
/// How much of an ignored field's name a reply shows, in characters.
const MAX_IGNORED_CHARS: usize = 64;

/// A request that has passed every rule and is not stored yet.
pub(crate) struct Admitted {
    /// The job to make.
    pub(crate) job: NewJob,
    /// Its media, which are not stored yet either.
    pub(crate) media: Option<Gathered>,
    /// What `x-ignored-fields` says; none when nothing was ignored.
    pub(crate) ignored: Option<HeaderValue>,
}

/// Reads a request, fetches what it refers to, and checks it against every rule that is known now.
///
/// While its media are fetched and looked into, `watched` is: nobody waits for what a client that has gone has asked for.
///
/// Errors: an [`ApiError`] that names the parameter and the rule.
pub(crate) async fn admit(shared: &Shared, request: Request, watched: Option<Client>) -> Result<Admitted, ApiError> {
    let Shared { app: state, intake, .. } = shared;
    let headers = request.headers().clone();
    let Caller(tenant) = Caller::of(request.extensions())?;
    // The body is read first: a client that is answered in the middle of sending may miss the answer.
    let mut rooms = Rooms::new(shared, tenant.clone());
    let decoded = body::decode(request, &state.options, intake, &mut rooms).await?;
    let service = state.readiness.get();
    if !service.accepts_jobs() {
        return Err(health::not_ready(service));
    }
    check_headers(&headers)?;
    let mut request = fields::read(decoded)?;
    let ignored = ignored(&headers, &request.unknown)?;
    let model = served_model(state, request.model)?;
    let id = JobId::new();
    let mut media = None;
    if !request.references.is_empty() {
        let wants = Wants { video: &request.video, profile: &state.profile, tools: &state.tools, job: id };
        let mut gathered = tokio::select! {
            gathered = gather(wants, request.references, rooms) => gathered?,
            () = client::gone(watched) => return Err(client::unwanted()),
        };
        request.video.media = std::mem::take(&mut gathered.media);
        media = Some(gathered);
    }
    let spec = request.video.resolve(&state.profile, seed(state)).map_err(|invalid| match &media {
        Some(gathered) => gathered.blamed(invalid),
        None => invalid.into(),
    })?;
    let (priority, start_within) = (request.priority, request.start_within);
    let inputs: Vec<BlobKey> = media.iter().flat_map(|media| media.files.iter().map(|(key, _)| key.clone())).collect();
    let job = NewJob { id, inputs, priority, start_within, ..NewJob::new(tenant, model, &spec) };
    Ok(Admitted { job, media, ignored })
}

/// Stores the job, its media first, and hints at it. Once this has returned, the job exists whatever happens; where it
/// fails, or is dropped before, nothing of the media stays that no job has.
pub(crate) async fn commit(state: &AppState, new: NewJob, media: Option<Gathered>) -> Result<Job, ApiError> {
    let stored = match media {
        Some(media) => Some(store(state, new.id, media).await?),
        None => None,
    };
    let again = new.clone();
    let job = match state.store.create(new).await {
        Err(unheard @ StoreError::Unavailable { .. }) => create_again(state, again, unheard).await?,
        created => created?,
    };
    if let Some(stored) = stored {
        stored.keep();
    }
    let hint = Hint { queue: job.queue(), rank: job.rank, job: job.id };
    // A hint may be lost, which the dispatcher has told: the sweep finds the job in the store.
    let hinted = state.dispatch.push(&[hint]).await.is_ok();
    tracing::info!(job.id = %job.id, job.tenant = %job.tenant, cost_tflop = job.cost_tflop, hinted, "accepted a job");
    Ok(job)
}

/// Makes a job of which it was not heard whether it was made: a client that is told of a failure would ask for another.
///
/// Under the same id, so that it is made once however the first try ends: looking whether it is there would miss one that
/// is still under way.
async fn create_again(state: &AppState, new: NewJob, unheard: StoreError) -> Result<Job, ApiError> {
    let (tenant, id) = (new.tenant.clone(), new.id);
    let made = match state.store.create(new).await {
        Err(StoreError::Duplicate { .. }) => {
            tracing::warn!(job.id = %id, error = %Causes(&unheard), "a job was made and its answer lost");
            state.store.get(&tenant, id).await.map(|found| found.ok_or(unheard))
        }
        made => made.map(Ok),
    };
    match made {
        Ok(Ok(job)) => Ok(job),
        // It was made, and deleted since.
        Ok(Err(unheard)) => Err(unheard.into()),
        Err(full @ StoreError::QueueFull { .. }) => Err(full.into()),
        // It may be there: the client has to ask for it, and not for another one.
        Err(error) => Err(ApiError { should_retry: Some(false), ..ApiError::from(error) }.with_video(id)),
    }
}

/// Tells whether a header that switches something on is set.
pub(crate) fn asks(headers: &HeaderMap, name: &str) -> bool {
    headers.get(name).is_some_and(|value| value == "1" || value == "true")
}

/// Refuses headers that promise what is not built.
fn check_headers(headers: &HeaderMap) -> Result<(), ApiError> {
    const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
    if headers.contains_key(IDEMPOTENCY_KEY) {
        return Err(ApiError::unsupported_parameter(
            "Idempotency-Key",
            "Idempotency-Key is not supported yet: a repeated request makes another video",
        ));
    }
    Ok(())
}

fn served_model(state: &AppState, asked: Option<String>) -> Result<String, ApiError> {
    let served = &state.profile.name;
    match asked {
        None => Ok(served.clone()),
        Some(model) if model == *served || state.options.model_aliases.contains(&model) => Ok(model),
        Some(model) => Err(ApiError::new(
            ErrorCode::ModelNotFound,
            format!("the model {:?} is not served here, which serves {served:?}", shown(&model)),
        )
        .with_param("model")),
    }
}

/// Returns the seed of a request that names none.
fn seed(state: &AppState) -> u64 {
    let random = || {
        let (high, _) = Uuid::new_v4().as_u64_pair();
        high >> 32 // the first 32 bits of a random UUID are all random
    };
    state.options.default_seed.map_or_else(random, u64::from)
}

/// Returns what `x-ignored-fields` says of parameters that nothing documents; none when there are none.
///
/// Errors: `unknown_parameter` when the request asks for strictness.
pub(crate) fn ignored(headers: &HeaderMap, unknown: &[String]) -> Result<Option<HeaderValue>, ApiError> {
    let Some(first) = unknown.first() else {
        return Ok(None);
    };
    if asks(headers, "x-strict") {
        let message = format!("{} is not a parameter", shown(first));
        return Err(ApiError::new(ErrorCode::UnknownParameter, message).with_param(first));
    }
    let names: Vec<String> = unknown.iter().take(MAX_IGNORED).map(|name| shown(name)).collect();
    Ok(Some(HeaderValue::try_from(names.join(", ")).expect("escaped names are ASCII")))
}

/// Cuts and escapes a client's text, so that it can stand in a header and in a sentence.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(MAX_IGNORED_CHARS).collect();
    cut.escape_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_names_are_cut_and_escaped() {
        let unknown = ["foo".to_owned(), "ä\r\nset-cookie: x".to_owned(), "y".repeat(1000)];
        let header = ignored(&HeaderMap::new(), &unknown).unwrap().unwrap();
        let expected = format!("foo, \\u{{e4}}\\r\\nset-cookie: x, {}", "y".repeat(MAX_IGNORED_CHARS));
        assert_eq!(header.to_str().unwrap(), expected);
        assert_eq!(ignored(&HeaderMap::new(), &[]).unwrap(), None);
    }
}
