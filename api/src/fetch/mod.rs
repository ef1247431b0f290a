//! Files behind the URLs of clients, fetched without being led astray.
//!
//! A URL may name a machine that this one can reach and its sender cannot. So every host is resolved here, every address
//! that it has must be one of the public internet ([`address`]), and the connection goes to those addresses and not to
//! the name again, which may by now mean another. A redirect is a new URL that goes through all of this again. What comes
//! is written down as it is, up to a number of bytes; nothing is unpacked. No cookie and no password is sent.
//!
//! Hosts that the operator names may be anywhere.

mod address;
mod error;
mod hop;
mod hosts;
mod net;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use url::{Host, Url};

use crate::media::{Spool, Spooled, TooLarge};
pub(crate) use error::{Failed, FetchError, Forbidden};
use hop::{Answer, Body};
pub use hosts::{AllowedHost, InvalidHost};
use net::{Net, SystemNet};
use tls::Tls;

/// The most that a URL may have that is not one of data, in bytes; also one to which a host redirects.
pub(crate) const MAX_URL_BYTES: usize = 8192;
/// How many redirects are followed.
const MAX_REDIRECTS: usize = 3;
/// The lowest port, besides those of HTTP itself, that a URL may name: the ones below are of other services.
const LEAST_HIGH_PORT: u16 = 1024;

/// Fetches files.
pub(crate) struct Fetcher {
    net: Arc<dyn Net>,
    tls: Tls,
    /// The hosts that may be anywhere.
    open_hosts: Vec<AllowedHost>,
}

/// A file that was fetched.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Its bytes.
    pub(crate) file: Spooled,
    /// The content type that came with it.
    pub(crate) content_type: Option<String>,
}

impl Fetcher {
    /// Makes a fetcher to whom these hosts may be anywhere.
    pub(crate) fn new(open_hosts: Vec<AllowedHost>) -> Self {
        Self::over(Arc::new(SystemNet), Tls::default(), open_hosts)
    }

    fn over(net: Arc<dyn Net>, tls: Tls, open_hosts: Vec<AllowedHost>) -> Self {
        Self { net, tls, open_hosts }
    }

    /// Fetches a file of at most `most_bytes` into the spool. How long that may take is the caller's to say.
    ///
    /// Errors: [`FetchError`].
    pub(crate) async fn fetch(&self, url: &Url, most_bytes: u64, spool: &Spool) -> Result<Fetched, FetchError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            match self.hop(&url).await? {
                Answer::File(headers, body) => return keep(&headers, body, most_bytes, spool).await,
                Answer::Redirect(next) => url = next,
            }
        }
        Err(Failed::TooManyRedirects.into())
    }

    /// Tells whether a host may be anywhere.
    fn is_open(&self, host: &Host<&str>) -> bool {
        self.open_hosts.iter().any(|open| open.is(host))
    }
}

/// Writes down what an answer holds.
async fn keep(headers: &HeaderMap, mut body: Body, most_bytes: u64, spool: &Spool) -> Result<Fetched, FetchError> {
    let is_encoded = headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_encoded {
        return Err(Failed::Encoded.into());
    }
    if body.announced_bytes() > most_bytes {
        return Err(Failed::from(TooLarge(most_bytes)).into());
    }
    let mut file = spool.begin();
    while let Some(chunk) = body.chunk().await? {
        if file.size_bytes() + chunk.len() as u64 > most_bytes {
            return Err(Failed::from(TooLarge(most_bytes)).into());
        }
        file = file.write(chunk).await.map_err(FetchError::Spool)?;
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Fetched { file: file.finish().await.map_err(FetchError::Spool)?, content_type })
}
