//! One request to one host, whose addresses have been looked at.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use url::{Host, Url};

use super::address::is_public;
use super::net::{unconnected, unresolved};
use super::{Failed, FetchError, Fetcher, Forbidden, LEAST_HIGH_PORT, MAX_URL_BYTES};

/// The most that the head of an answer may have, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// What a host answered.
pub(super) enum Answer {
    /// The file.
    File(HeaderMap, Body),
    /// That it is elsewhere.
    Redirect(Url),
}

/// The bytes of an answer as they come.
pub(super) struct Body {
    incoming: Incoming,
    /// Drives the connection, and ends with this.
    _connection: JoinSet<()>,
}

impl Body {
    /// Returns how many bytes the head promised, at least.
    pub(super) fn announced_bytes(&self) -> u64 {
        self.incoming.size_hint().lower()
    }

    /// Returns the next bytes; none at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(Failed::Broken.because())?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

impl Fetcher {
    /// Sends one request, to an address that was looked at.
    pub(super) async fn hop(&self, url: &Url) -> Result<Answer, FetchError> {
        let stream = self.connect(url).await?;
        let (response, connection) = match url.scheme() {
            "https" => {
                let host = url.host().ok_or(Failed::UnknownHost)?;
                let stream = self.tls.handshake(&host, stream).await?;
                request(url, stream).await?
            }
            _ => request(url, stream).await?,
        };
        let (head, incoming) = response.into_parts();
        match head.status {
            StatusCode::OK => Ok(Answer::File(head.headers, Body { incoming, _connection: connection })),
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => Ok(Answer::Redirect(redirect(url, &head.headers)?)),
            status => Err(Failed::Status(status.as_u16()).into()),
        }
    }

    /// Connects to the host of a URL, at an address that was looked at.
    async fn connect(&self, url: &Url) -> Result<TcpStream, FetchError> {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Failed::UnknownHost.into());
        };
        if !matches!(port, 80 | 443 | LEAST_HIGH_PORT..) {
            return Err(Forbidden::Port(port).into());
        }
        let is_open = self.is_open(&host);
        let addresses = match host {
            Host::Ipv4(address) => vec![SocketAddr::from((address, port))],
            Host::Ipv6(address) => vec![SocketAddr::from((address, port))],
            Host::Domain(name) => self.net.resolve(name, port).await.map_err(unresolved)?,
        };
        if addresses.is_empty() {
            return Err(Failed::UnknownHost.into());
        }
        // One that is not public among those that are is no accident.
        if !is_open && !addresses.iter().all(|address| is_public(address.ip())) {
            return Err(Forbidden::Address.into());
        }
        self.net.connect(&addresses).await.map_err(unconnected)
    }
}

/// Asks for the file of a URL over a connection to its host.
async fn request<S>(url: &Url, stream: S) -> Result<(Response<Incoming>, JoinSet<()>), FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
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
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let request = Request::get(target)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("clapboard/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "*/*")
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Empty::<Bytes>::new())
        .map_err(Failed::Broken.because())?;
    let response = sender.send_request(request).await.map_err(Failed::Broken.because())?;
    Ok((response, driver))
}

/// Returns where a redirect leads, which is then looked at like any URL.
fn redirect(from: &Url, headers: &HeaderMap) -> Result<Url, FetchError> {
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok()).ok_or(Failed::Redirect)?;
    let next = from.join(location).map_err(|_| Failed::Redirect)?;
    if !matches!(next.scheme(), "http" | "https") {
        return Err(Forbidden::Scheme.into());
    }
    if next.as_str().len() > MAX_URL_BYTES || next.host().is_none() {
        return Err(Failed::Redirect.into());
    }
    if !next.username().is_empty() || next.password().is_some() {
        return Err(Forbidden::Credentials.into());
    }
    Ok(next)
}
