//! What the routes share, and how they are put together.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::get;
use clapboard_h3::ModelProfile;
use clapboard_jobs::{Blob, Dispatch, Store};
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::{self, Auth, Gate, Keys};
use crate::hints::Hints;
use crate::readiness::Readiness;
use crate::{edge, openapi, unsupported};

/// The limits and habits of the HTTP side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How clients say who they are.
    pub auth: Auth,
    /// The names, apart from the profile's own, under which a request may ask for the served model.
    pub model_aliases: Vec<String>,
    /// The seed of a request without one; none for a random one. vLLM-Omni takes 42.
    pub default_seed: Option<u32>,
    /// The most that a body of fields may have.
    pub max_body_bytes: usize,
    /// How long a body may take to come.
    pub body_timeout: Duration,
    /// How much of a refused body is read and thrown away, so that its sender gets to read the answer.
    pub drain_bytes: u64,
    /// For how long that is done.
    pub drain_timeout: Duration,
    /// How many clients may be connected; the next ones wait until one leaves. Fewer where the process may not have as
    /// many files open.
    pub max_connections: usize,
    /// How long the head of a request may take to come, and a connection without a request to be kept.
    pub header_read_timeout: Duration,
    /// How long a client may take none of the bytes that are sent to it.
    pub write_timeout: Duration,
    /// How long the requests in flight get to end when the service stops; then their connections are closed.
    pub closing_grace: Duration,
    /// How long a synchronous request waits for its video. OpenAI's clients hang up after 600 s, and would cancel it.
    pub sync_timeout: Duration,
    /// How often a synchronous request looks for its video.
    pub sync_poll: Duration,
    /// How long clients are asked to wait between two looks at a job.
    pub poll_after: Duration,
    /// Whether a download is sent on to the media store, where that has addresses for it and the request does not say.
    pub redirect_content: bool,
}

impl Default for Options {
    fn default() -> Self {
        let aliases = ["sora-2", "sora-2-pro", "minimax-h3", "MiniMaxAI/MiniMax-H3"];
        Self {
            auth: Auth::default(),
            model_aliases: aliases.map(str::to_owned).to_vec(),
            default_seed: None,
            max_body_bytes: 1 << 20,
            body_timeout: Duration::from_secs(30),
            drain_bytes: 64 << 20,
            drain_timeout: Duration::from_secs(5),
            max_connections: 1024,
            header_read_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(300),
            closing_grace: Duration::from_secs(5),
            sync_timeout: Duration::from_secs(570),
            sync_poll: Duration::from_millis(250),
            poll_after: Duration::from_secs(2),
            redirect_content: false,
        }
    }
}

/// What every handler has at hand.
#[derive(Clone)]
pub struct AppState {
    /// The truth about jobs.
    pub store: Arc<dyn Store>,
    /// Where hints about new jobs go. Whether such a job may run is not known here: what is pushed should push nothing out.
    pub dispatch: Arc<dyn Dispatch>,
    /// Where finished videos lie.
    pub blob: Arc<dyn Blob>,
    /// What the loaded checkpoint serves.
    pub profile: Arc<ModelProfile>,
    /// Whether work is taken now.
    pub readiness: Readiness,
    /// Limits and habits.
    pub options: Arc<Options>,
    /// The cancels that outlive the requests whose clients went away; whoever stops the service waits for them.
    pub tasks: TaskTracker,
}

/// Puts the routes together.
pub fn router(state: AppState) -> Router {
    let keys = match state.options.auth {
        Auth::Open => None,
        Auth::Keys => Some(Keys::of(Arc::clone(&state.store))),
    };
    let gate = Gate { keys, options: Arc::clone(&state.options) };
    let state = AppState { dispatch: Arc::new(Hints::before(state.dispatch)), ..state };
    let (documented, document) = openapi::routes().split_for_parts();
    let json: Arc<str> = document.to_json().expect("the document has string keys only").into();
    documented
        .route("/openapi.json", get(move || openapi::serve(Arc::clone(&json))))
        .merge(unsupported::routes())
        .fallback(edge::unknown_route)
        .layer(DefaultBodyLimit::disable()) // each body has its own limit: Options::max_body_bytes
        .layer(middleware::from_fn_with_state(gate, auth::gate))
        .layer(CatchPanicLayer::custom(edge::after_panic))
        .layer(middleware::from_fn(edge::edge))
        .with_state(state)
}
