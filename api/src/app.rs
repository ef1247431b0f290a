//! What the routes share, and how they are put together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware;
use axum::routing::get;
use clapboard_h3::ModelProfile;
use clapboard_jobs::{Blob, Dispatch, Store};
use clapboard_media::MediaTools;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::{self, Auth, Gate, Keys};
use crate::hints::Hints;
use crate::media::Intake;
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
    /// The most that the texts of a body may have, data URLs among them. Files do not count.
    pub max_body_bytes: usize,
    /// How many bodies with more than a mebibyte of texts are in memory at once. Each may take four times `max_body_bytes`.
    pub max_large_bodies: usize,
    /// How long a body without files may take to come.
    pub body_timeout: Duration,
    /// How many requests with media are read, fetched for, looked into and stored at once. Each may take 600 MiB of the
    /// spool: twelve files of 50 MiB.
    pub max_uploads: usize,
    /// How long a body with files may stand still.
    pub upload_stall_timeout: Duration,
    /// How long a body with files may take to come.
    pub upload_timeout: Duration,
    /// How long a request with media or long texts waits for room, before it is answered that there is none.
    pub capacity_wait: Duration,
    /// The folder where the files of requests lie until they are stored. It needs room for `max_uploads` of them.
    pub spool: PathBuf,
    /// How long the URLs of one request may take to be fetched, together.
    pub input_fetch_timeout: Duration,
    /// How long a stored input may wait for its job to be made, before it is garbage: longer than storing all takes.
    pub input_grace: Duration,
    /// The hosts that a request's URLs may name although they are not on the public internet.
    pub allow_url_hosts: Vec<String>,
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
            max_body_bytes: 16 << 20,
            max_large_bodies: 8,
            body_timeout: Duration::from_secs(30),
            max_uploads: 16,
            upload_stall_timeout: Duration::from_secs(30),
            upload_timeout: Duration::from_secs(900),
            capacity_wait: Duration::from_secs(10),
            spool: std::env::temp_dir(),
            input_fetch_timeout: Duration::from_secs(60),
            input_grace: Duration::from_secs(3600),
            allow_url_hosts: Vec::new(),
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

/// Puts the routes together.
pub fn router(state: AppState) -> Router {
    let keys = match state.options.auth {
        Auth::Open => None,
        Auth::Keys => Some(Keys::of(Arc::clone(&state.store))),
    };
    let gate = Gate { keys, options: Arc::clone(&state.options) };
    let intake = Arc::new(Intake::new(&state.options));
    let app = AppState { dispatch: Arc::new(Hints::before(state.dispatch)), ..state };
    let shared = Shared { app, intake, began: Began::now() };
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
        .with_state(shared)
}
