//! The ids in these routes.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use clapboard_jobs::{DeliveryId, EndpointId};

use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// The `{id}` of a route about endpoints. One that cannot be an id is answered like one that is not there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndpointPath(pub(crate) EndpointId);

impl<S: Send + Sync> FromRequestParts<S> for EndpointPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        read(parts, state).await.map(Self).ok_or_else(no_endpoint)
    }
}

/// The `{id}` of a route about deliveries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryPath(pub(crate) DeliveryId);

impl<S: Send + Sync> FromRequestParts<S> for DeliveryPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        read(parts, state).await.map(Self).ok_or_else(no_delivery)
    }
}

async fn read<T: FromStr>(parts: &mut Parts, state: &(impl Send + Sync)) -> Option<T> {
    let params = RawPathParams::from_request_parts(parts, state).await.ok()?;
    params.iter().find(|(name, _)| *name == "id").and_then(|(_, text)| text.parse().ok())
}

/// Makes the answer about an endpoint that the client does not have.
pub(super) fn no_endpoint() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "Webhook endpoint not found").with_param("webhook_endpoint_id")
}

/// Makes the answer about a delivery that the client does not have.
pub(super) fn no_delivery() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "Webhook delivery not found").with_param("webhook_delivery_id")
}
