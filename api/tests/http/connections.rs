//! Clients that stall, leave halfway or come in crowds, over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use clapboard_api::{Options, serve};
use clapboard_jobs::JobState;
use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app::TestApp;
use crate::worker::film;

/// A limit that no test reaches.
const NEVER: Duration = Duration::from_secs(3600);
/// A limit that every test reaches at once.
const SOON: Duration = Duration::from_millis(50);

const BODY: &str = r#"{"prompt": "a cat", "size": "512x288"}"#;

/// The limits of a service that waits for everybody for ever.
fn patient() -> Options {
    Options {
        header_read_timeout: NEVER,
        write_timeout: NEVER,
        closing_grace: NEVER,
        body_timeout: NEVER,
        drain_timeout: NEVER,
        sync_poll: Duration::from_millis(5),
        ..Options::default()
    }
}

/// Waits for what a service without the limit under test would never come to.
pub(crate) async fn within<T>(waited: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), waited).await.expect("it does not come to an end")
}

/// A service that only answers `/health`, with "ok".
struct Small {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
}

impl Small {
    async fn start(options: &Options, router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = router.route("/health", get(async || "ok"));
        let served = tokio::spawn(serve(listener, router, stop.clone().cancelled_owned(), options));
        Self { address, stop, served }
    }

    async fn connect(&self, bytes: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(bytes.as_bytes()).await.unwrap();
        client
    }

    async fn stop(self) {
        self.stop.cancel();
        within(self.served).await.unwrap().unwrap();
    }
}

/// Asks for `/health` and waits for the answer.
async fn ask(client: &mut TcpStream) {
    client.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") {
        assert_ne!(within(client.read_buf(&mut answer)).await.unwrap(), 0);
    }
}

/// Reads until the server closes.
async fn rest(client: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    within(client.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A body without end, and what is cancelled when it is dropped.
fn endless() -> (Router, CancellationToken) {
    let dropped = CancellationToken::new();
    let token = dropped.clone();
    let answer = async move || {
        let guard = token.drop_guard();
        let chunks = stream::repeat_with(move || {
            let _held = &guard;
            Ok::<_, std::io::Error>(vec![0; 1 << 16])
        });
        Body::from_stream(chunks)
    };
    (Router::new().route("/endless", get(answer)), dropped)
}

#[tokio::test]
async fn half_a_head_is_not_waited_for() {
    let service = Small::start(&Options { header_read_timeout: SOON, ..patient() }, Router::new()).await;
    let mut client = service.connect("GET /health HTTP/1.1\r\nhost: x\r\ncon").await;
    rest(&mut client).await;
}

#[tokio::test]
async fn a_connection_without_another_request_is_not_kept() {
    let service = Small::start(&Options { header_read_timeout: SOON, ..patient() }, Router::new()).await;
    let mut client = service.connect("").await;
    ask(&mut client).await;
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn a_client_that_takes_no_bytes_is_cut_off() {
    let (router, dropped) = endless();
    let service = Small::start(&Options { write_timeout: SOON, ..patient() }, router).await;
    let _client = service.connect("GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
    within(dropped.cancelled()).await;
}

#[tokio::test]
async fn the_end_of_the_service_does_not_wait_for_clients_that_stall() {
    let (router, _) = endless();
    let service = Small::start(&Options { closing_grace: SOON, ..patient() }, router).await;
    let mut half = service.connect("GET /health HTTP/1.1\r\nhost: x\r\ncon").await;
    let mut deaf = service.connect("GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
    deaf.readable().await.unwrap();
    service.stop().await;
    assert_eq!(rest(&mut half).await, "");
    // What was under way comes still, and then an end.
    within(async { while deaf.read(&mut [0; 1 << 16]).await.is_ok_and(|read| read > 0) {} }).await;
}

#[tokio::test]
async fn the_end_of_the_service_closes_idle_connections_and_answers_requests() {
    let (arrived, go) = (CancellationToken::new(), CancellationToken::new());
    let slow = {
        let (arrived, go) = (arrived.clone(), go.clone());
        async move || {
            arrived.cancel();
            go.cancelled().await;
            "done"
        }
    };
    let service = Small::start(&patient(), Router::new().route("/slow", get(slow))).await;
    let mut idle = service.connect("").await;
    ask(&mut idle).await;
    let mut busy = service.connect("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    within(arrived.cancelled()).await;
    service.stop.cancel();
    assert_eq!(rest(&mut idle).await, "");
    assert!(!service.served.is_finished());
    go.cancel();
    let answer = rest(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    service.stop().await;
}

#[tokio::test]
async fn more_clients_than_there_are_places_wait_for_one() {
    let service = Small::start(&Options { max_connections: 1, ..patient() }, Router::new()).await;
    let mut first = service.connect("").await;
    ask(&mut first).await;
    let mut second = service.connect("GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    for _ in 0..100 {
        ask(&mut first).await;
    }
    let early = second.try_read(&mut [0; 1]);
    assert_eq!(early.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    drop(first);
    assert!(rest(&mut second).await.ends_with("ok"));
}

/// Sends a request, closes its half and reads the answer.
async fn half_closed(app: &TestApp, request: &str) -> String {
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    rest(&mut client).await
}

fn post(path: &str, headers: &str) -> String {
    let length = BODY.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{BODY}"
    )
}

#[tokio::test]
async fn a_client_that_closes_its_half_gets_its_answer() {
    let app = TestApp::start_with(patient()).await;
    for request in [post("/v1/videos", ""), "GET /v1/videos HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()] {
        let answer = half_closed(&app, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"queued\""), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_waits_and_closes_its_half_has_cancelled() {
    let app = TestApp::start_with(patient()).await;
    let answer = half_closed(&app, &post("/v1/videos/sync", "")).await;
    assert!(answer.starts_with("HTTP/1.1 422") && answer.contains("x-keep-job"), "{answer}");
    let job = app.until(async || app.jobs().await.pop().filter(|job| job.state.is_final())).await;
    assert_eq!(job.state, JobState::Cancelled);
    assert!(answer.contains(&job.id.to_string()), "{answer}");
}

#[tokio::test]
async fn a_client_that_keeps_its_job_may_close_its_half_and_gets_the_video() {
    let app = TestApp::start_with(patient()).await;
    let worker = app.worker();
    let work = async {
        app.until(async || app.jobs().await.pop()).await;
        worker.do_one().await;
    };
    let request = post("/v1/videos/sync", "x-keep-job: 1\r\nconnection: close\r\n");
    let (answer, ()) = within(async { tokio::join!(half_closed(&app, &request), work) }).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with(&*String::from_utf8_lossy(&film())));
}

#[tokio::test]
async fn a_client_that_hangs_up_behind_a_second_request_cancels_its_job() {
    let app = TestApp::start_with(patient()).await;
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    client.write_all(post("/v1/videos/sync", "").as_bytes()).await.unwrap();
    app.until(async || app.jobs().await.pop()).await;
    client.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    drop(client);
    let job = within(app.until(async || app.jobs().await.pop().filter(|job| job.state.is_final()))).await;
    assert_eq!(job.state, JobState::Cancelled);
}

#[tokio::test]
async fn a_body_that_is_announced_too_large_is_refused_before_it_comes() {
    let app = TestApp::start_with(patient()).await;
    let address = app.listen().await;
    for headers in ["", "expect: 100-continue\r\n"] {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /v1/videos HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}content-length: 16777217\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}}") {
            assert_ne!(within(client.read_buf(&mut answer)).await.unwrap(), 0);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("request_too_large"), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_told_to() {
    let app = TestApp::start_with(patient()).await;
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    let request = post("/v1/videos", "expect: 100-continue\r\nconnection: close\r\n");
    let (head, body) = request.split_at(request.len() - BODY.len());
    client.write_all(head.as_bytes()).await.unwrap();
    let mut go = [0; 25];
    within(client.read_exact(&mut go)).await.unwrap();
    assert_eq!(&go, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(body.as_bytes()).await.unwrap();
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 200"));
}
