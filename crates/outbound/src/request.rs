//! What is sent, and what comes back.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::{HeaderMap, StatusCode};
use tokio::task::JoinSet;
use url::Url;

use crate::error::{Error, Failed};

/// What is asked of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// For what it holds.
    Get,
    /// To take a body.
    Post,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a Url,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl<'a> Request<'a> {
    /// Asks for what a URL holds.
    pub fn get(url: &'a Url) -> Self {
        Self { method: Method::Get, url, headers: Vec::new(), body: Bytes::new() }
    }

    /// Brings a URL a body.
    pub fn post(url: &'a Url, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { method: Method::Post, url, headers, body: body.into() }
    }

    /// Adds a header. A value that is none lets the request fail as [`Failed::Broken`].
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// What follows them.
    pub body: Body,
}

/// The bytes of an answer as they come. With it the connection ends.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    /// Drives the connection, and ends with this.
    _connection: JoinSet<()>,
}

impl Body {
    pub(crate) fn new(incoming: Incoming, connection: JoinSet<()>) -> Self {
        Self { incoming, _connection: connection }
    }

    /// Returns how many bytes the head promised, at least.
    pub fn announced_bytes(&self) -> u64 {
        self.incoming.size_hint().lower()
    }

    /// Returns the next bytes; none at the end.
    ///
    /// Errors: [`Failed::Broken`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.incoming.frame().await {
            let frame = frame.map_err(Failed::Broken.because())?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads and throws away what is left, as far as it is no more than `most_bytes`.
    pub async fn discard(mut self, most_bytes: u64) {
        let mut read_bytes = 0;
        while read_bytes <= most_bytes
            && let Ok(Some(chunk)) = self.chunk().await
        {
            read_bytes += chunk.len() as u64;
        }
    }
}
