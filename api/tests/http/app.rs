//! A service to talk to, and clients that talk to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use clapboard_api::{AppState, Options, Readiness, ServiceState, router, serve};
use clapboard_blob::DiskBlob;
use clapboard_dispatch::{MemoryDispatch, MemoryLimiter};
use clapboard_h3::{ModelProfile, Partition};
use clapboard_jobs::fixtures::FaultyStore;
use clapboard_jobs::{CapacityClass, Clock, Job, JobId, ListQuery, Micros, Policy, Queue, Tenant};
use clapboard_store_sqlite::SqliteStore;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::media::{FORM, Form, tools};
use crate::openapi;
use crate::worker::Worker;

/// The moment at which everything happens: 2025-11-24 16:00:00 UTC.
pub(crate) const NOW: Micros = Micros(1_764_000_000_123_456);

/// A clock that stands still until a test moves it.
#[derive(Default)]
pub(crate) struct Standstill(AtomicI64);

impl Standstill {
    /// Lets `by` pass at once.
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Standstill {
    fn now(&self) -> Micros {
        Micros(NOW.0 + self.0.load(Ordering::SeqCst))
    }
}

/// A service over a folder of its own.
pub(crate) struct TestApp {
    pub(crate) state: AppState,
    pub(crate) clock: Arc<Standstill>,
    router: Router,
    folder: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Reads the body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json", "{}", String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns a header, or an empty text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Returns the body of a success.
    #[track_caller]
    pub(crate) fn good(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Checks the one shape of all errors, and returns status, code, param and message.
    #[track_caller]
    pub(crate) fn error(&self) -> (u16, String, Option<String>, String) {
        let body = self.json();
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        let error = body["error"].as_object().unwrap();
        let mut keys: Vec<&str> = error.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["code", "message", "param", "type"]);
        let expected = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            status if status >= 500 => "server_error",
            _ => "invalid_request_error",
        };
        assert_eq!(error["type"], expected);
        assert!(!self.header("x-request-id").is_empty());
        let text = |key: &str| error[key].as_str().map(str::to_owned);
        (self.status.as_u16(), text("code").unwrap(), text("param"), text("message").unwrap())
    }

    /// Checks status, code and param of an error, and returns its message.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str, param: Option<&str>) -> String {
        let (found_status, found_code, found_param, message) = self.error();
        assert_eq!((found_status, found_code.as_str(), found_param.as_deref()), (status, code, param), "{message}");
        message
    }
}

impl TestApp {
    /// Starts a ready service.
    pub(crate) async fn start() -> Self {
        let options = Options { sync_poll: Duration::from_millis(5), ..Options::default() };
        Self::start_with(options).await
    }

    /// Starts a ready service with its own limits.
    pub(crate) async fn start_with(options: Options) -> Self {
        Self::start_under(options, Policy::default()).await
    }

    /// Starts a ready service whose store goes by a policy.
    pub(crate) async fn start_under(options: Options, policy: Policy) -> Self {
        let folder = TempDir::new().unwrap();
        let options = Options { spool: folder.path().join("spool"), ..options };
        let file = folder.path().join("jobs.sqlite");
        let clock = Arc::new(Standstill::default());
        let store = SqliteStore::open(&file, policy, Arc::clone(&clock) as _).await.unwrap();
        let readiness = Readiness::new();
        readiness.set(ServiceState::Ready);
        let state = AppState {
            store: Arc::new(store),
            dispatch: Arc::new(MemoryDispatch::new(1000)),
            limiter: Arc::new(MemoryLimiter::new()),
            blob: Arc::new(DiskBlob::open(&folder.path().join("media")).await.unwrap()),
            profile: Arc::new(ModelProfile::released("MiniMax-H3", vec![Partition::Fl2va])),
            tools: tools(),
            readiness,
            options: Arc::new(options),
            tasks: TaskTracker::new(),
        };
        Self { router: router(state.clone()), state, clock, folder }
    }

    /// Starts a ready service over a store that fails when it is told to.
    pub(crate) async fn start_faulty() -> (Self, Arc<FaultyStore>) {
        Self::start().await.over_faulty()
    }

    /// Puts the service over a store that fails when it is told to.
    pub(crate) fn over_faulty(self) -> (Self, Arc<FaultyStore>) {
        let store = Arc::new(FaultyStore::over(Arc::clone(&self.state.store)));
        let state = AppState { store: Arc::clone(&store) as _, ..self.state.clone() };
        (self.with(state), store)
    }

    /// Starts a ready service that has all weights.
    pub(crate) async fn start_all(options: Options) -> Self {
        let app = Self::start_with(options).await;
        let profile = ModelProfile::released("MiniMax-H3", Partition::ALL.to_vec());
        let state = AppState { profile: Arc::new(profile), ..app.state.clone() };
        app.with(state)
    }

    /// Returns how many files lie in the spool.
    pub(crate) fn spooled(&self) -> usize {
        std::fs::read_dir(&self.state.options.spool).map_or(0, |entries| entries.count())
    }

    /// Waits until nothing lies in the spool any more: a file that is being written goes when that is done.
    pub(crate) async fn until_spool_is_empty(&self) {
        self.until(async || (self.spooled() == 0).then_some(())).await;
    }

    /// Posts a form to make a video.
    pub(crate) async fn post_form(&self, form: Form) -> Reply {
        self.post("/v1/videos", FORM, form.body()).await
    }

    /// Lets the service work with something else.
    pub(crate) fn with(self, state: AppState) -> Self {
        Self { router: router(state.clone()), state, ..self }
    }

    /// Removes the job store's file under the running service.
    pub(crate) fn remove_jobs(&self) {
        std::fs::remove_file(self.folder.path().join("jobs.sqlite")).unwrap();
    }

    /// Returns a worker of this service.
    pub(crate) fn worker(&self) -> Worker {
        Worker::new(self.state.clone(), self.folder.path().to_owned())
    }

    /// Sends a request as it is, and leaves its answer's body where it is. Whatever a test asks for, the document has to know of
    /// such an answer.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        assert_ne!(
            openapi::documents(&method, &path, status),
            Some(false),
            "{method} {path} is not to answer {status}"
        );
        response
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.answer(request).await;
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 24).await.unwrap().to_vec();
        Reply { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request without a body.
    pub(crate) async fn call(&self, method: Method, path: &str) -> Reply {
        self.send(Request::builder().method(method).uri(path).body(Body::empty()).unwrap()).await
    }

    /// Gets a page.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path).await
    }

    /// Gets a page under conditions.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// Posts a body of a type.
    pub(crate) async fn post(&self, path: &str, content_type: &str, body: impl Into<Body>) -> Reply {
        let request = Request::post(path).header(header::CONTENT_TYPE, content_type);
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Posts JSON to make a video.
    pub(crate) async fn create(&self, fields: Value) -> Reply {
        self.post("/v1/videos", "application/json", fields.to_string()).await
    }

    /// Posts JSON to make a video, under headers.
    pub(crate) async fn create_with(&self, fields: Value, headers: &[(&str, &str)]) -> Reply {
        self.post_with("/v1/videos", fields, headers).await
    }

    /// Posts JSON under headers.
    pub(crate) async fn post_with(&self, path: &str, fields: Value, headers: &[(&str, &str)]) -> Reply {
        self.post_bytes_with(path, "application/json", fields.to_string(), headers).await
    }

    /// Posts a body of a type under headers.
    pub(crate) async fn post_bytes_with(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<Body>,
        headers: &[(&str, &str)],
    ) -> Reply {
        let request = Request::post(path).header(header::CONTENT_TYPE, content_type);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Makes a small video that will pass every rule, and returns its id.
    pub(crate) async fn create_any(&self) -> String {
        let reply = self.create(serde_json::json!({"prompt": "a cat", "size": "512x288", "seed": 7})).await;
        reply.good()["id"].as_str().unwrap().to_owned()
    }

    /// Returns the only job there is.
    pub(crate) async fn only_job(&self) -> Job {
        let jobs = self.jobs().await;
        assert_eq!(jobs.len(), 1);
        jobs.into_iter().next().unwrap()
    }

    /// Returns all jobs.
    pub(crate) async fn jobs(&self) -> Vec<Job> {
        let query = ListQuery { limit: 100, ..ListQuery::default() };
        self.state.store.list(&Tenant::default(), &query).await.unwrap().jobs
    }

    /// Returns a job by the id on the wire.
    pub(crate) async fn job(&self, id: &str) -> Job {
        let id: JobId = id.parse().unwrap();
        self.state.store.get(&Tenant::default(), id).await.unwrap().unwrap()
    }

    /// Returns how many hints wait.
    pub(crate) async fn hints(&self) -> u64 {
        let mut hints = 0;
        for class in CapacityClass::all() {
            hints += self.state.dispatch.len(Queue::of(Partition::Fl2va, class)).await.unwrap();
        }
        hints
    }

    /// Waits until a look at the service is as wished.
    pub(crate) async fn until<T>(&self, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Serves on a port of its own, until the test ends.
    pub(crate) async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, self.router.clone(), std::future::pending(), &self.state.options));
        address
    }

    /// Puts other bytes where a finished video lies.
    pub(crate) fn spoil(&self, job: &Job, bytes: &[u8]) {
        let key = job.result.as_ref().unwrap().key.as_str();
        let file = self.folder.path().join("media/objects").join(key);
        assert!(file.exists());
        std::fs::write(&file, bytes).unwrap();
    }
}

/// Replaces what differs from run to run.
pub(crate) fn redacted(reply: &Reply) -> Value {
    let text = String::from_utf8(reply.body.clone()).unwrap();
    let mut parts = text.split("video_gen_");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str("video_gen_[id]");
        clean.push_str(&part[32..]);
    }
    serde_json::from_str(&clean).unwrap()
}
