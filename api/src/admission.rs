//! From an HTTP request to a committed job.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use clapboard_h3::GenerationSpec;
use clapboard_jobs::{BlobKey, Causes, Hint, Job, JobHook, JobId, NewJob, StoreError, Tenant, TraceParent};
use clapboard_telemetry::metrics::names;
use clapboard_telemetry::traces;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

use crate::app::{AppState, Shared};
use crate::auth::Access;
use crate::body::Decoded;
use crate::client::{self, Client};
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::fields::{Hook, Terms};
use crate::media::{Gathered, Rooms, Wants, gather, store};
use crate::options::Options;
use crate::submission::Mark;
use crate::{body, fields, health, models, webhooks};

/// How many ignored fields a reply names.
const MAX_IGNORED: usize = 20;
/// How much of an ignored field's name a reply shows, in characters.
const MAX_IGNORED_CHARS: usize = 64;

/// A request whose body has been read.
pub(crate) struct Received {
    /// Its head.
    pub(crate) headers: HeaderMap,
    /// Whose it is.
    pub(crate) tenant: Tenant,
    /// What it holds.
    pub(crate) decoded: Decoded,
    /// The room that its files and texts take.
    pub(crate) rooms: Rooms,
    /// By what it is known again.
    pub(crate) mark: Option<Mark>,
}

/// A request that has passed every rule and is not stored yet.
pub(crate) struct Admitted {
    /// The job to make.
    pub(crate) job: NewJob,
    /// Its media, which are not stored yet either.
    pub(crate) media: Option<Gathered>,
    /// By what its request is known again.
    pub(crate) mark: Option<Mark>,
    /// What `x-ignored-fields` says; none when nothing was ignored.
    pub(crate) ignored: Option<HeaderValue>,
}

/// What a request comes to that breaks no rule.
pub(crate) enum Admission {
    /// A job to make.
    New(Box<Admitted>),
    /// The job that it has made before, and what `x-ignored-fields` says.
    Known(Box<Job>, Option<HeaderValue>),
}

/// The job of a request.
pub(crate) struct Made {
    /// The job.
    pub(crate) job: Job,
    /// The same request had made it before.
    pub(crate) replayed: bool,
}

/// Who waits for what a request makes.
pub(crate) struct Waiting {
    /// The client that is watched while its media are brought together: nobody waits for what one has asked for that has gone.
    pub(crate) client: Option<Client>,
    /// The job stays when its client goes, so that a second try of the same request finds it.
    pub(crate) stays: bool,
}

impl Waiting {
    /// Nobody: the client hears that there is a job, and comes back for it.
    pub(crate) const fn nobody() -> Self {
        Self { client: None, stays: true }
    }
}

/// Reads the body of a request that is to make a job.
///
/// Errors: those of [`body::decode`], `no_capacity` where no jobs are taken now, and `invalid_value` for an `Idempotency-Key`.
pub(crate) async fn receive(
    shared: &Shared,
    request: Request,
    operation: &str,
    stays: bool,
) -> Result<Received, ApiError> {
    let arrived = Instant::now();
    let Shared { app: state, intake, .. } = shared;
    let headers = request.headers().clone();
    let Access { key, tenant, .. } = Access::of(request.extensions())?.clone();
    // The body is read first: a client that is answered in the middle of sending may miss the answer.
    let mut rooms = Rooms::new(shared, tenant.clone());
    let decoded = body::decode(request, &state.options, intake, &mut rooms).await?;
    let service = state.readiness.get();
    if !service.accepts_jobs() {
        return Err(health::not_ready(service));
    }
    let mark = Mark::of(&headers, key, operation, &decoded, arrived)?.filter(|_| stays);
    Ok(Received { headers, tenant, decoded, rooms, mark })
}

/// Reads a request, fetches what it refers to, and checks it against every rule that is known now.
///
/// Errors: an [`ApiError`] that names the parameter and the rule.
pub(crate) async fn admit(shared: &Shared, request: Request, waiting: Waiting) -> Result<Admission, ApiError> {
    let state = &shared.app;
    let Waiting { client, stays } = waiting;
    let Received { headers, tenant, decoded, rooms, mark } = receive(shared, request, "create", stays).await?;
    let mut request = fields::read(decoded)?;
    let ignored = ignored(&headers, &request.unknown)?;
    let model = served_model(state, request.model)?;
    let hook = hook(request.terms.hook.take(), &state.options)?;
    if let Some(job) = known(state, &tenant, mark.as_ref()).await? {
        return Ok(Admission::Known(Box::new(job), ignored));
    }
    let id = JobId::new();
    let mut media = None;
    if !request.references.is_empty() {
        let wants = Wants { video: &request.video, profile: &state.profile, tools: &state.tools, job: id };
        let mut gathered = tokio::select! {
            gathered = gather(wants, request.references, rooms) => gathered?,
            () = client::gone(client) => return Err(client::unwanted()),
        };
        request.video.media = std::mem::take(&mut gathered.media);
        media = Some(gathered);
    }
    let spec = request.video.resolve(&state.profile, seed(state)).map_err(|invalid| match &media {
        Some(gathered) => gathered.blamed(invalid),
        None => invalid.into(),
    })?;
    health::check_live(state, spec.partition).await?;
    has_memory_for(&spec, &state.options)?;
    let job = NewJob { id, hook, ..NewJob::new(tenant, model, &spec) };
    let job = under(request.terms, &headers, job, media.as_ref());
    Ok(Admission::New(Box::new(Admitted { job, media, mark, ignored })))
}

/// Refuses a video that no worker would ever take.
///
/// Errors: `invalid_value`, naming the size: a shorter film does too.
pub(crate) fn has_memory_for(spec: &GenerationSpec, options: &Options) -> Result<(), ApiError> {
    let rows = spec.rows_bound() as u64;
    let Some(most) = options.max_rows.filter(|most| rows > *most) else {
        return Ok(());
    };
    let message = format!(
        "the video is up to {rows} rows of a sequence long, and this server has memory for {most}: ask for a smaller size, fewer \
         seconds or fewer references"
    );
    Err(ApiError::invalid_value("size", message))
}

/// Returns the job that a request has made before, if it has.
///
/// Errors: `idempotency_key_reused` when another request bore its name, or its job is deleted.
pub(crate) async fn known(state: &AppState, tenant: &Tenant, mark: Option<&Mark>) -> Result<Option<Job>, ApiError> {
    let Some(mark) = mark else {
        return Ok(None);
    };
    match state.store.submitted(tenant, &mark.submission()).await? {
        Some(id) => made_before(state, tenant, id).await.map(Some),
        None => Ok(None),
    }
}

async fn made_before(state: &AppState, tenant: &Tenant, id: JobId) -> Result<Job, ApiError> {
    let job = state.store.get(tenant, id).await?;
    job.ok_or_else(|| ApiError::key_reused(format!("this request has made {id}, which is deleted"), id))
}

/// Checks where a client wants to hear of its job.
///
/// Errors: `invalid_webhook_url` and `webhook_url_forbidden`, naming the field.
pub(crate) fn hook(hook: Option<Hook>, options: &Options) -> Result<Option<JobHook>, ApiError> {
    let Some(Hook { path, url, notices }) = hook else {
        return Ok(None);
    };
    let url = webhooks::url::check(&url, options).map_err(|refused| refused.with_param(path))?;
    Ok(Some(JobHook { url: url.into(), notices }))
}

/// Puts a job under the terms of its request, with the media that are to be its inputs.
pub(crate) fn under(terms: Terms, headers: &HeaderMap, job: NewJob, media: Option<&Gathered>) -> NewJob {
    let Terms { priority, start_within, result_life, metadata, told, hook: _ } = terms;
    let inputs: Vec<BlobKey> = media.iter().flat_map(|media| media.files.iter().map(|(key, _)| key.clone())).collect();
    NewJob { inputs, priority, start_within, result_life, metadata, told, trace: trace(headers), ..job }
}

/// Returns the trace that a request belongs to. One that cannot be read is as none, as the standard has it.
pub(crate) fn trace(headers: &HeaderMap) -> Option<TraceParent> {
    let mut given = headers.get_all("traceparent").iter();
    match (given.next(), given.next()) {
        (Some(trace), None) => trace.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// Makes the job of a request, unless it has made one before.
pub(crate) async fn make(state: &AppState, admission: Admission) -> Result<(Made, Option<HeaderValue>), ApiError> {
    match admission {
        Admission::New(admitted) => {
            let ignored = admitted.ignored.clone();
            Ok((commit(state, *admitted).await?, ignored))
        }
        Admission::Known(job, ignored) => Ok((Made { job: *job, replayed: true }, ignored)),
    }
}

/// Stores the job, its media first, and hints at it. Once this has returned, the job exists whatever happens; where it
/// fails, or is dropped before, nothing of the media stays that no job has.
///
/// Another try of the same request may have made its job meanwhile, which then is the answer.
async fn commit(state: &AppState, admitted: Admitted) -> Result<Made, ApiError> {
    let Admitted { job: new, media, mark, .. } = admitted;
    let stored = match media {
        Some(media) => Some(store(state, new.id, media).await?),
        None => None,
    };
    // As late as can be: what counts is how long ago the request came when its job is made.
    let new = NewJob { submission: mark.map(|mark| mark.submission()), ..new };
    // Whoever works on the job goes on from here.
    let span = traces::send(new.partition.as_str(), &new.id);
    let sent = traces::parent_of(&span).and_then(|text| text.parse().ok());
    let new = NewJob { trace: sent.or(new.trace), ..new };
    let again = new.clone();
    let made = match state.store.create(new).instrument(span).await {
        Err(unheard @ StoreError::Unavailable { .. }) => create_again(state, again, unheard).await?,
        Err(StoreError::Resubmitted { job }) => replayed(state, &again.tenant, job).await?,
        created => Made { job: created?, replayed: false },
    };
    if made.replayed {
        // What was stored is given up: the job that there is has its own.
        return Ok(made);
    }
    let job = &made.job;
    names::JOBS_SUBMITTED.increment([job.partition.as_str()]);
    if let Some(stored) = stored {
        stored.keep();
    }
    let hint = Hint { queue: job.queue(), rank: job.rank, job: job.id };
    // A hint may be lost, which the dispatcher has told: the sweep finds the job in the store.
    let hinted = state.dispatch.push(&[hint]).await.is_ok();
    tracing::info!(job.id = %job.id, job.tenant = %job.tenant, cost_tflop = job.cost_tflop, hinted, "accepted a job");
    Ok(made)
}

/// Makes a job of which it was not heard whether it was made: a client that is told of a failure would ask for another.
///
/// Under the same id, so that it is made once however the first try ends: looking whether it is there would miss one that
/// is still under way.
async fn create_again(state: &AppState, new: NewJob, unheard: StoreError) -> Result<Made, ApiError> {
    let (tenant, id, is_known_again) = (new.tenant.clone(), new.id, new.submission.is_some());
    let made = match state.store.create(new).await {
        Err(StoreError::Duplicate { .. }) => {
            tracing::warn!(job.id = %id, error = %Causes(&unheard), "a job was made and its answer lost");
            state.store.get(&tenant, id).await.map(|found| found.ok_or(unheard))
        }
        Err(StoreError::Resubmitted { job }) => return replayed(state, &tenant, job).await,
        made => made.map(Ok),
    };
    match made {
        Ok(Ok(job)) => Ok(Made { job, replayed: false }),
        // It was made, and deleted since.
        Ok(Err(unheard)) => Err(unheard.into()),
        Err(plain @ (StoreError::QueueFull { .. } | StoreError::KeyReused { .. })) => Err(plain.into()),
        // It may be there: another try of the request would find it.
        Err(error) if is_known_again => Err(ApiError::from(error).with_video(id)),
        // Or not find it: the client has to ask for it, and not for another one.
        Err(error) => Err(ApiError { should_retry: Some(false), ..ApiError::from(error) }.with_video(id)),
    }
}

/// Answers with the job that another try of the same request has made.
async fn replayed(state: &AppState, tenant: &Tenant, id: JobId) -> Result<Made, ApiError> {
    Ok(Made { job: made_before(state, tenant, id).await?, replayed: true })
}

/// Tells whether a header that switches something on is set.
pub(crate) fn asks(headers: &HeaderMap, name: &str) -> bool {
    headers.get(name).is_some_and(|value| value == "1" || value == "true")
}

fn served_model(state: &AppState, asked: Option<String>) -> Result<String, ApiError> {
    let served = &state.profile.name;
    match asked {
        None => Ok(served.clone()),
        Some(model) if models::is_served(state, &model) => Ok(model),
        Some(model) => Err(ApiError::new(
            ErrorCode::ModelNotFound,
            format!("the model \"{}\" is not served here, which serves {served:?}", shown(&model)),
        )
        .with_param("model")),
    }
}

/// Returns the seed of a request that names none.
pub(crate) fn seed(state: &AppState) -> u64 {
    let random = || {
        let (high, _) = Uuid::new_v4().as_u64_pair();
        high >> 32 // the first 32 bits of a random UUID are all random
    };
    state.options.default_seed.map_or_else(random, u64::from)
}

/// Returns what `x-ignored-fields` says of parameters that nothing documents; none when there are none.
///
/// Errors: `invalid_value` for one without a name, which could not be named, and `unknown_parameter` when the request asks for
/// strictness.
pub(crate) fn ignored(headers: &HeaderMap, unknown: &[String]) -> Result<Option<HeaderValue>, ApiError> {
    let Some(first) = unknown.first() else {
        return Ok(None);
    };
    if unknown.iter().any(|name| name.trim().is_empty()) {
        return Err(ApiError::new(ErrorCode::InvalidValue, "each field and parameter must have a name"));
    }
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
        for blank in ["", " ", "\u{3000}"] {
            let refused = ignored(&HeaderMap::new(), &["foo".to_owned(), blank.to_owned()]).unwrap_err();
            assert_eq!((refused.code, refused.param), (ErrorCode::InvalidValue, None), "{blank:?}");
        }
    }
}
