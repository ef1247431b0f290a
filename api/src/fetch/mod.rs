//! Files behind the URLs of clients, fetched without being led astray.
//!
//! Where a request may go is for `clapboard-outbound` to say, and a redirect is a new URL that goes through all of that
//! again. What comes is written down as it is, up to a number of bytes; nothing is unpacked.

mod error;
#[cfg(test)]
mod tests;

use axum::http::{HeaderMap, StatusCode, header};
use clapboard_outbound::{AllowedHost, Answer, Body, Client, Request, Rules};
use url::Url;

use crate::media::{Spool, Spooled, TooLarge};
pub(crate) use error::{Failed, FetchError};

/// The most that a URL may have that is not one of data, in bytes; also one to which a host redirects.
pub(crate) const MAX_URL_BYTES: usize = 8192;
/// How many redirects are followed.
const MAX_REDIRECTS: usize = 3;

/// Fetches files.
pub(crate) struct Fetcher {
    client: Client,
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
        Self::over(Client::new(Rules::new(open_hosts)))
    }

    fn over(client: Client) -> Self {
        Self { client }
    }

    /// Fetches a file of at most `most_bytes` into the spool. How long that may take is the caller's to say.
    ///
    /// Errors: [`FetchError`].
    pub(crate) async fn fetch(&self, url: &Url, most_bytes: u64, spool: &Spool) -> Result<Fetched, FetchError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let Answer { status, headers, body } = self.client.send(Request::get(&url)).await?;
            match status {
                StatusCode::OK => return keep(&headers, body, most_bytes, spool).await,
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => url = redirect(&url, &headers)?,
                status => return Err(Failed::Status(status.as_u16()).into()),
            }
        }
        Err(Failed::TooManyRedirects.into())
    }
}

/// Returns where a redirect leads, which is then looked at like any URL.
fn redirect(from: &Url, headers: &HeaderMap) -> Result<Url, FetchError> {
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok()).ok_or(Failed::Redirect)?;
    let next = from.join(location).map_err(|_| Failed::Redirect)?;
    if next.as_str().len() > MAX_URL_BYTES { Err(Failed::Redirect.into()) } else { Ok(next) }
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
