//! What the routes share, and how they are put together.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware;
use axum::routing::get;
use clapboard_h3::ModelProfile;
use clapboard_jobs::{Blob, Dispatch, Limiter, Store};
use clapboard_media::MediaTools;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::{self, Auth, Gate, Keys};
use crate::hints::Hints;
use crate::limits::{self, Limits};
use crate::media::Intake;
use crate::options::Options;
use crate::readiness::Readiness;
use crate::streams::Streams;
use crate::{docs, edge, models, openapi, unsupported};

/// What every handler has at hand.
#[derive(Clone)]
pub struct AppState {
    /// The truth about jobs.
    pub store: Arc<dyn Store>,
    /// Where hints about new jobs go. Whether such a job may run is not known here: what is pushed should push nothing out.
    pub dispatch: Arc<dyn Dispatch>,
    /// Who counts how often videos are asked for.
    pub limiter: Arc<dyn Limiter>,
    /// Where finished videos lie.
    pub blob: Arc<dyn Blob>,
    /// What the loaded checkpoint serves.
    pub profile: Arc<ModelProfile>,
    /// The programs that read media.
    pub tools: Arc<MediaTools>,
    /// Whether work is taken now.
    pub readiness: Readiness,
    /// Limits and habits.
    pub options: Arc<Options>,
    /// The cancels that outlive the requests whose clients went away; whoever stops the service waits for them.
    pub tasks: TaskTracker,
}

/// What the handlers share besides that.
#[derive(Clone, FromRef)]
pub(crate) struct Shared {
    /// What whoever runs the service has put together.
    pub(crate) app: AppState,
    /// Where media and long texts come in.
    pub(crate) intake: Arc<Intake>,
    /// The streams of events that are open.
    pub(crate) streams: Streams,
    /// When the service began.
    pub(crate) began: Began,
}

/// When the service began, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began(pub(crate) u64);

impl Began {
    fn now() -> Self {
        Self(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()))
    }
}

/// Puts the routes together. Options that [`Options::check`] refuses are followed as far as they go.
pub fn router(state: AppState) -> Router {
    let keys = match state.options.auth {
        Auth::Open => None,
        Auth::Keys => Some(Keys::of(Arc::clone(&state.store), state.options.key_memory)),
    };
    let gate = Gate { keys };
    let limits = Limits { limiter: Arc::clone(&state.limiter), options: Arc::clone(&state.options) };
    let options = Arc::clone(&state.options);
    let intake = Arc::new(Intake::new(&state.options, &state.profile.geometry));
    let app = AppState { dispatch: Arc::new(Hints::before(state.dispatch)), ..state };
    let streams = Streams::new(app.options.max_streams_per_tenant);
    let shared = Shared { app, intake, streams, began: Began::now() };
    let (documented, document) = openapi::routes().split_for_parts();
    let json: Arc<str> = openapi::completed(document).to_json().expect("the document has string keys only").into();
    documented
        // Some names of models have a slash.
        .route("/v1/models/{owner}/{model}", get(models::retrieve))
        .route("/docs", get(docs::page))
        .route("/openapi.json", get(move || openapi::serve(Arc::clone(&json))))
        .merge(unsupported::routes())
        .fallback(edge::unknown_route)
        .layer(DefaultBodyLimit::disable()) // each body has its own limit: Options::max_body_bytes
        .layer(middleware::from_fn_with_state(limits, limits::limit))
        .layer(middleware::from_fn_with_state(gate, auth::gate))
        .layer(CatchPanicLayer::custom(edge::after_panic))
        .layer(middleware::from_fn_with_state(options, edge::edge))
        .with_state(shared)
}
