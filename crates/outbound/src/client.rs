//! One request to one host, whose addresses have been looked at.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Response, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use url::{Host, Url};

use crate::error::{Error, Failed};
use crate::head_limit::limited;
use crate::net::{Net, SystemNet, unconnected, unresolved};
use crate::request::{Answer, Body, Method, Request};
use crate::rules::Rules;
use crate::tls::Tls;

/// The most that the head of an answer may have, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The most that may come until the head has: itself, what a host sends before it, and as much of the body as is read along.
const MAX_BYTES_TO_HEAD: usize = 4 * MAX_HEAD_BYTES;

/// Sends requests as far as its rules let it.
pub struct Client {
    net: Arc<dyn Net>,
    tls: Tls,
    rules: Rules,
}

impl Client {
    /// Makes a client in the machine's own network.
    pub fn new(rules: Rules) -> Self {
        Self::over(Arc::new(SystemNet), Tls::default(), rules)
    }

    /// Makes a client in a network of the caller's, such as one that records where requests would go.
    pub fn over(net: Arc<dyn Net>, tls: Tls, rules: Rules) -> Self {
        Self { net, tls, rules }
    }

    /// Sends one request, to an address that was looked at, and returns when the head of the answer is there. How long that
    /// may take is the caller's to say: when this is dropped, so is the connection.
    ///
    /// Errors: [`Error`]. A status is none, whatever it is.
    pub async fn send(&self, request: Request<'_>) -> Result<Answer, Error> {
        let url = request.url;
        let message = message(request)?;
        let stream = self.connect(url).await?;
        let (response, connection) = match url.scheme() {
            "https" => {
                let host = url.host().ok_or(Failed::UnknownHost)?;
                let stream = self.tls.handshake(&host, stream).await?;
                exchange(message, stream).await?
            }
            _ => exchange(message, stream).await?,
        };
        let (head, incoming) = response.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body: Body::new(incoming, connection) })
    }

    /// Connects to the host of a URL, at an address that was looked at.
    async fn connect(&self, url: &Url) -> Result<TcpStream, Error> {
        self.rules.check(url)?;
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Failed::UnknownHost.into());
        };
        let addresses = match host {
            Host::Ipv4(address) => vec![SocketAddr::from((address, port))],
            Host::Ipv6(address) => vec![SocketAddr::from((address, port))],
            Host::Domain(name) => self.net.resolve(name, port).await.map_err(unresolved)?,
        };
        if addresses.is_empty() {
            return Err(Failed::UnknownHost.into());
        }
        self.rules.admit(&host, addresses.iter().map(SocketAddr::ip))?;
        self.net.connect(&addresses).await.map_err(unconnected)
    }
}

/// Sends a request over a connection to its host.
async fn exchange<S>(
    message: hyper::Request<Full<Bytes>>,
    stream: S,
) -> Result<(Response<Incoming>, JoinSet<()>), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, head_came) = limited(stream, MAX_BYTES_TO_HEAD);
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(Failed::Broken.because())?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // Its errors reach whoever reads the answer.
        let _ = connection.await;
    });
    let response = sender.send_request(message).await.map_err(Failed::Broken.because())?;
    head_came.tell();
    Ok((response, driver))
}

fn message(request: Request<'_>) -> Result<hyper::Request<Full<Bytes>>, Error> {
    let Request { method, url, headers, body } = request;
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let method = match method {
        Method::Get => hyper::Method::GET,
        Method::Post => hyper::Method::POST,
    };
    let mut message = hyper::Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("clapboard/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "*/*")
        .header(header::ACCEPT_ENCODING, "identity");
    for (name, value) in headers {
        message = message.header(name, value);
    }
    message.body(Full::new(body)).map_err(Failed::Broken.because())
}
