//! From a listener to the router: how many connections there are, how long each may keep others waiting, and how all
//! of them end.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::client::Socket;
use crate::options::Options;

/// How long nothing is accepted after the system could not: mostly the process has too many files open.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);
/// How many files of the process are not for connections.
const OTHER_FILES: u64 = 64;
/// How many files a connection may hold: itself, and the video that it sends.
const FILES_PER_CONNECTION: u64 = 2;

/// Serves until `shutdown` ends, then until the requests in flight are answered, but for no longer than
/// [`Options::closing_grace`].
///
/// A client that sends no request, or takes no answer, is cut off after its time, and cannot hold up the end.
///
/// Errors: none at present; that a connection cannot be accepted is logged, and tried again.
pub fn serve<S>(
    listener: TcpListener,
    router: Router,
    shutdown: S,
    options: &Options,
) -> impl Future<Output = io::Result<()>> + Send + use<S>
where
    S: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(places(options.max_connections)));
    let closing_grace = options.closing_grace;
    let connections = Connections {
        router,
        http: http(options),
        write_timeout: options.write_timeout,
        running: TaskTracker::new(),
        closing: CancellationToken::new(),
        cut: CancellationToken::new(),
    };
    async move {
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = async {
                // With no place left, the system's backlog keeps who comes next.
                let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes the semaphore");
                (accept(&listener).await, place)
            };
            let (stream, place) = tokio::select! {
                () = &mut shutdown => break,
                accepted = accepted => accepted,
            };
            let connection = connections.connection(stream);
            connections.running.spawn(async move {
                connection.await;
                drop(place);
            });
        }
        drop(listener);
        connections.close(closing_grace).await;
        Ok(())
    }
}

/// Returns how many connections there may be without taking the last files of the process.
fn places(max_connections: usize) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let possible = files.saturating_sub(OTHER_FILES) / FILES_PER_CONNECTION;
    let places = max_connections.min(usize::try_from(possible).unwrap_or(usize::MAX));
    if places < max_connections {
        tracing::info!(max_connections, places, files, "fewer connections are taken, since each may need two files");
    }
    places.clamp(1, Semaphore::MAX_PERMITS)
}

fn http(options: &Options) -> http1::Builder {
    let mut http = http1::Builder::new();
    // A client that closes its half after the request still waits for the answer: the handlers see to those that do not.
    http.timer(TokioTimer::new()).header_read_timeout(options.header_read_timeout).half_close(true);
    http
}

async fn accept(listener: &TcpListener) -> TcpStream {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client's own doing.
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {}
            Err(error) => {
                tracing::error!(%error, "could not accept a connection");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Takes away the length of an answer that has no body by its status: the router says 0 for want of one, and to HEAD it would be
/// sent, where it says of a 304 that the file is empty.
fn without_wrong_length(mut response: Response) -> Response {
    if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    response
}

/// The connections of a server.
struct Connections {
    router: Router,
    http: http1::Builder,
    write_timeout: Duration,
    running: TaskTracker,
    /// Each ends with the request that it is at.
    closing: CancellationToken,
    /// Each ends at once.
    cut: CancellationToken,
}

impl Connections {
    /// Answers the requests of one connection.
    fn connection(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + use<> {
        let socket = Socket::new(stream, self.write_timeout);
        let (router, client) = (self.router.clone(), socket.client());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(client.clone());
            let answered = router.clone().oneshot(request);
            async move { answered.await.map(without_wrong_length) }
        });
        let connection = self.http.serve_connection(TokioIo::new(socket), service);
        let (closing, cut) = (self.closing.clone(), self.cut.clone());
        async move {
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = connection => ended,
                        () = cut.cancelled() => return,
                    }
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
    }

    /// Ends all connections, within `grace`.
    async fn close(&self, grace: Duration) {
        self.closing.cancel();
        self.running.close();
        if timeout(grace, self.running.wait()).await.is_err() {
            tracing::info!(connections = self.running.len(), "cutting off the clients that take too long");
            self.cut.cancel();
            self.running.wait().await;
        }
    }
}
