//! What the bodies of these routes hold.

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::HeaderMap;
use clapboard_jobs::{Notice, Tenant};
use serde_json::{Map, Value};

use super::url;
use crate::app::Shared;
use crate::auth::Caller;
use crate::body;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::fields::{Found, check_no_nul, is_absent, notices};
use crate::media::Rooms;
use crate::options::Options;
use crate::query::ignored_header;

/// The longest name of an endpoint, in characters.
const MAX_NAME_CHARS: usize = 256;

/// The fields of a body, each taken once.
pub(super) struct Fields {
    /// Whose request it is.
    pub(super) tenant: Tenant,
    headers: HeaderMap,
    tree: Map<String, Value>,
}

impl Fields {
    /// Reads a body, in any encoding; a request without one has no fields.
    ///
    /// Errors: those of [`body::decode`], and `unsupported_parameter` for a file.
    pub(super) async fn read(shared: &Shared, request: Request) -> Result<Self, ApiError> {
        let Caller(tenant) = Caller::of(request.extensions())?;
        let headers = request.headers().clone();
        if request.body().is_end_stream() {
            return Ok(Self { tenant, headers, tree: Map::new() });
        }
        let mut rooms = Rooms::new(shared, tenant.clone());
        let decoded = body::decode(request, &shared.app.options, &shared.intake, &mut rooms).await?;
        if decoded.refused_file.is_some() || !decoded.files.is_empty() {
            return Err(ApiError::new(ErrorCode::InvalidValue, "the request must hold no file"));
        }
        Ok(Self { tenant, headers, tree: decoded.tree })
    }

    /// Returns what `x-ignored-fields` says of the fields that were not taken.
    ///
    /// Errors: `unknown_parameter` when the request asks for strictness.
    pub(super) fn end(self) -> Result<HeaderMap, ApiError> {
        let unknown: Vec<String> = self.tree.into_iter().map(|(name, _)| name).collect();
        ignored_header(&self.headers, &unknown)
    }

    /// Takes the name of an endpoint.
    pub(super) fn name(&mut self) -> Result<Option<String>, ApiError> {
        let Some(name) = self.text("name")? else { return Ok(None) };
        check_no_nul("name", &name)?;
        if name.chars().count() > MAX_NAME_CHARS {
            let message = format!("name must have at most {MAX_NAME_CHARS} characters");
            return Err(ApiError::new(ErrorCode::StringAboveMaxLength, message).with_param("name"));
        }
        Ok(Some(name))
    }

    /// Takes the URL of an endpoint, as it will be asked.
    pub(super) fn url(&mut self, options: &Options) -> Result<Option<String>, ApiError> {
        let Some(text) = self.text("url")? else { return Ok(None) };
        let url = url::check(&text, options).map_err(|refused| refused.with_param("url"))?;
        Ok(Some(url.into()))
    }

    /// Takes what an endpoint hears of.
    pub(super) fn event_types(&mut self) -> Result<Option<Vec<Notice>>, ApiError> {
        self.take("event_types").map(notices).transpose()
    }

    /// Takes the event type of a test.
    pub(super) fn event_type(&mut self) -> Result<Notice, ApiError> {
        const FIELD: &str = "event_type";
        let name = self.text(FIELD)?.ok_or_else(|| missing(FIELD))?;
        let known = Notice::ALL.map(Notice::as_str).join(", ");
        name.parse().map_err(|_| ApiError::invalid_value(FIELD, format!("{FIELD} must be one of {known}")))
    }

    /// Takes something that is so or not.
    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        self.take(name).map(Found::boolean).transpose()
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.take(name).map(Found::strict_text).transpose()
    }

    /// Takes a field; null and an empty text are none.
    fn take(&mut self, name: &str) -> Option<Found> {
        let value = self.tree.remove(name).filter(|value| !is_absent(value))?;
        Some(Found { path: name.to_owned(), value })
    }
}

/// Makes the refusal of a request that lacks a field.
pub(super) fn missing(name: &str) -> ApiError {
    ApiError::new(ErrorCode::MissingRequiredParameter, format!("{name} is required")).with_param(name)
}
