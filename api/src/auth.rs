//! Whose request it is.

mod keys;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clapboard_jobs::Tenant;

use crate::body;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::options::Options;

pub(crate) use keys::Keys;

/// How clients say who they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Auth {
    /// They need not: everybody is the same tenant, and a key that is sent is not looked at.
    #[default]
    Open,
    /// By an API key, `Authorization: Bearer KEY`, on every route under `/v1`.
    Keys,
}

/// What the gate goes by.
#[derive(Clone)]
pub(crate) struct Gate {
    /// The keys there are; none where everybody may come in.
    pub(crate) keys: Option<Keys>,
    /// How a body that is refused unread is thrown away.
    pub(crate) options: std::sync::Arc<Options>,
}

/// Lets a request under `/v1` through with its [`Tenant`], and any other as it is.
///
/// It stands before the routes, so that a client without a key learns nothing about which of them there are.
pub(crate) async fn gate(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if !is_guarded(request.uri().path()) {
        return next.run(request).await;
    }
    let tenant = match &gate.keys {
        None => Ok(Tenant::default()),
        Some(keys) => tenant(keys, request.headers()).await,
    };
    match tenant {
        Ok(tenant) => {
            request.extensions_mut().insert(tenant);
            next.run(request).await
        }
        Err(refused) => {
            body::throw_away(request, &gate.options);
            refused.into_response()
        }
    }
}

/// Tells whether a path is one that needs a key. Routes match paths as they are written, so no other spelling reaches one.
fn is_guarded(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

async fn tenant(keys: &Keys, headers: &HeaderMap) -> Result<Tenant, ApiError> {
    let key = bearer(headers)?;
    let unknown = || ApiError::new(ErrorCode::InvalidApiKey, "the API key is not known here");
    keys.tenant(key).await?.ok_or_else(unknown)
}

/// Returns the key that a request brings.
fn bearer(headers: &HeaderMap) -> Result<&[u8], ApiError> {
    let refuse = |message| Err(ApiError::new(ErrorCode::InvalidApiKey, message));
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (given.next(), given.next()) {
        (None, _) => return refuse("an API key is needed: Authorization: Bearer KEY"),
        (Some(value), None) => value.as_bytes().trim_ascii(),
        (Some(_), Some(_)) => return refuse("Authorization must be given once"),
    };
    let (scheme, key) = match value.iter().position(|byte| *byte == b' ') {
        Some(end) => (&value[..end], value[end..].trim_ascii()),
        None => (value, &[][..]),
    };
    if !scheme.eq_ignore_ascii_case(b"bearer") || key.is_empty() {
        return refuse("the API key must come as Authorization: Bearer KEY");
    }
    Ok(key)
}

/// The tenant of a request, as the gate found it.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Tenant);

impl Caller {
    /// Returns the tenant of a request by its extensions.
    ///
    /// Errors: `internal_error` on a route that the gate does not guard.
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, ApiError> {
        match extensions.get::<Tenant>() {
            Some(tenant) => Ok(Self(tenant.clone())),
            None => {
                tracing::error!("a route of tenants is not behind the gate");
                Err(ApiError::internal())
            }
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(&parts.extensions)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn key(values: &[&'static str]) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
        }
        let found = bearer(&headers).map(|key| String::from_utf8_lossy(key).into_owned());
        found.map_err(|error| {
            assert_eq!(error.code, ErrorCode::InvalidApiKey);
            error.message
        })
    }

    #[test]
    fn the_scheme_has_no_case_and_the_key_has() {
        for value in ["Bearer sk-A b", "bearer sk-A b", "BEARER   sk-A b ", " bEaReR sk-A b"] {
            assert_eq!(key(&[value]).as_deref(), Ok("sk-A b"), "{value:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_told_how_to_send_one() {
        for value in ["", "Bearer", "Bearer ", "sk-1", "Basic sk-1", "Bearersk-1", "Bearer\tsk-1"] {
            let expected = Err("the API key must come as Authorization: Bearer KEY".to_owned());
            assert_eq!(key(&[value]), expected, "{value:?}");
        }
        assert_eq!(key(&[]), Err("an API key is needed: Authorization: Bearer KEY".to_owned()));
        assert_eq!(key(&["Bearer a", "Bearer a"]), Err("Authorization must be given once".to_owned()));
    }

    #[test]
    fn everything_under_v1_is_guarded_and_nothing_else() {
        for (path, guarded) in [
            ("/v1", true),
            ("/v1/", true),
            ("/v1/videos", true),
            ("/v1/nowhere", true),
            ("/v10/videos", false),
            ("/health", false),
            ("/ready", false),
            ("/openapi.json", false),
            ("/", false),
        ] {
            assert_eq!(is_guarded(path), guarded, "{path}");
        }
    }
}
