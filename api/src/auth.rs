//! Whose request it is.

mod keys;

use std::collections::BTreeSet;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use clapboard_jobs::{ApiKeyId, Grant, Job, JobId, Rate, Scope, Store, StoreError, Tenant};

use crate::error::ApiError;
use crate::error_code::ErrorCode;

pub(crate) use keys::Keys;
use keys::Pass;

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
}

/// Who asks, and what they may.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The API key; none where there are none.
    pub(crate) key: Option<ApiKeyId>,
    /// Whose it is.
    pub(crate) tenant: Tenant,
    /// What it is good for.
    scopes: BTreeSet<Scope>,
    /// How often it may ask for a video; none for as often as the service lets everybody.
    pub(crate) rate: Option<Rate>,
    /// By what it is asked whether the key is still good; none where there are none.
    pass: Option<Pass>,
}

impl Access {
    /// What everybody has where there are no keys.
    fn open() -> Self {
        Self { key: None, tenant: Tenant::default(), scopes: Scope::ALL.into(), rate: None, pass: None }
    }

    fn by(grant: &Grant, pass: Pass) -> Self {
        let Grant { key, tenant, scopes, rate } = grant.clone();
        Self { key: Some(key), tenant, scopes, rate, pass: Some(pass) }
    }

    /// Looks at a job again, for an answer that goes on for long; the inner none when it is deleted, the outer when who was let
    /// in would not be any more.
    ///
    /// Errors: [`StoreError`] when either cannot be known now.
    pub(crate) async fn look(&self, store: &dyn Store, id: JobId) -> Result<Option<Option<Job>>, StoreError> {
        if let Some(pass) = &self.pass
            && pass.grant().await?.is_none()
        {
            return Ok(None);
        }
        store.get(&self.tenant, id).await.map(Some)
    }

    /// Returns what the gate has found out about a request, by its extensions.
    ///
    /// Errors: `internal_error` on a route that the gate does not guard.
    pub(crate) fn of(extensions: &Extensions) -> Result<&Self, ApiError> {
        extensions.get().ok_or_else(|| {
            tracing::error!("a route of tenants is not behind the gate");
            ApiError::internal()
        })
    }

    /// Errors: `insufficient_scope` when the key is not good for a request.
    fn check(&self, method: &Method, path: &str) -> Result<(), ApiError> {
        match needed(method, path) {
            Some(scope) if !self.scopes.contains(&scope) => {
                let message = format!("the API key is not good for this: it lacks the scope {scope}");
                Err(ApiError::new(ErrorCode::InsufficientScope, message))
            }
            _ => Ok(()),
        }
    }
}

/// Lets a request under `/v1` through with its [`Access`], and any other as it is.
///
/// It stands before the routes, so that a client without a key learns nothing about which of them there are.
pub(crate) async fn gate(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if !is_guarded(request.uri().path()) {
        return next.run(request).await;
    }
    match access(&gate, request.headers(), request.method(), request.uri().path()).await {
        Ok(access) => {
            request.extensions_mut().insert(access);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

async fn access(gate: &Gate, headers: &HeaderMap, method: &Method, path: &str) -> Result<Access, ApiError> {
    let access = match &gate.keys {
        None => Access::open(),
        Some(keys) => {
            let pass = keys.pass(bearer(headers)?);
            let unknown = || ApiError::new(ErrorCode::InvalidApiKey, "the API key is not known here");
            let grant = pass.grant().await?.ok_or_else(unknown)?;
            Access::by(&grant, pass)
        }
    };
    access.check(method, path)?;
    Ok(access)
}

/// Returns what a key must be good for; none where any key will do.
fn needed(method: &Method, path: &str) -> Option<Scope> {
    let below = |room: &str| path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if path.starts_with("/v1/webhook") {
        Some(Scope::Webhooks)
    } else if below("/v1/videos") {
        Some(if matches!(*method, Method::GET | Method::HEAD) { Scope::Read } else { Scope::Write })
    } else {
        None
    }
}

/// Tells whether a path is one that needs a key. Routes match paths as they are written, so no other spelling reaches one.
fn is_guarded(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
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
        Access::of(extensions).map(|access| Self(access.tenant.clone()))
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
    fn each_route_needs_its_scope() {
        use Scope::{Read, Webhooks, Write};
        for (method, path, scope) in [
            (Method::GET, "/v1/videos", Some(Read)),
            (Method::GET, "/v1/videos/x/events", Some(Read)),
            (Method::HEAD, "/v1/videos/x/content", Some(Read)),
            (Method::POST, "/v1/videos", Some(Write)),
            (Method::POST, "/v1/videos/x/cancel", Some(Write)),
            (Method::DELETE, "/v1/videos/x", Some(Write)),
            (Method::PUT, "/v1/videos", Some(Write)),
            (Method::GET, "/v1/webhook_endpoints", Some(Webhooks)),
            (Method::POST, "/v1/webhook_deliveries/x/replay", Some(Webhooks)),
            (Method::GET, "/v1/webhook_secret", Some(Webhooks)),
            (Method::GET, "/v1/models", None),
            (Method::GET, "/v1/videos_of_others", None),
        ] {
            assert_eq!(needed(&method, path), scope, "{method} {path}");
        }
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
