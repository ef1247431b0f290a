//! What a client is told about an endpoint.

use clapboard_jobs::{Endpoint, Secret};
use serde::Serialize;
use utoipa::ToSchema;

use crate::query::Listed;

/// How many characters of a secret its hint shows.
const HINT_CHARS: usize = 4;

/// Where something is told when a video has ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookEndpoint {
    /// Its id.
    pub(crate) id: String,
    /// Always `webhook_endpoint`.
    pub(crate) object: &'static str,
    /// When it was made, in seconds since 1970.
    pub(crate) created_at: i64,
    /// When what it is or what signs was last changed, in seconds since 1970; at first, when it was made.
    pub(crate) updated_at: i64,
    /// What it hears of: `video.completed`, `video.failed`.
    pub(crate) event_types: Vec<&'static str>,
    /// What its owner calls it.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) url: String,
    /// The last characters of its signing secret.
    pub(crate) signing_secret_hint: String,
    /// Whether anything is sent to it.
    pub(crate) enabled: bool,
    /// Since when nothing is sent to it, in seconds since 1970.
    #[schema(required = true)]
    pub(crate) disabled_at: Option<i64>,
    /// Why nothing is sent to it.
    #[schema(required = true)]
    pub(crate) disabled_reason: Option<String>,
}

impl Listed for WebhookEndpoint {
    fn id(&self) -> &str {
        &self.id
    }
}

impl WebhookEndpoint {
    /// Describes an endpoint.
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        let disabled = endpoint.disabled.as_ref();
        Self {
            id: endpoint.id.to_string(),
            object: "webhook_endpoint",
            created_at: endpoint.created_at.unix_seconds(),
            updated_at: endpoint.updated_at.unix_seconds(),
            event_types: endpoint.notices.iter().map(|notice| notice.as_str()).collect(),
            name: endpoint.name.clone(),
            url: endpoint.url.clone(),
            signing_secret_hint: hint(&endpoint.secret),
            enabled: disabled.is_none(),
            disabled_at: disabled.map(|(since, _)| since.unix_seconds()),
            disabled_reason: disabled.map(|(_, why)| why.clone()),
        }
    }
}

/// An endpoint with its signing secret, which is shown when it is made and when it is replaced, and never again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookEndpointWithSecret {
    #[serde(flatten)]
    endpoint: WebhookEndpoint,
    /// What signs: `whsec_` and 32 bytes in base64.
    signing_secret: Shown,
}

impl WebhookEndpointWithSecret {
    /// Describes an endpoint and shows its secret.
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        Self { endpoint: WebhookEndpoint::of(endpoint), signing_secret: Shown(endpoint.secret.clone()) }
    }
}

/// A secret on its way to whom it belongs to; logs do not show it.
#[derive(Debug, ToSchema)]
#[schema(value_type = String)]
pub(crate) struct Shown(pub(super) Secret);

impl Serialize for Shown {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.expose())
    }
}

fn hint(secret: &Secret) -> String {
    let text = secret.expose();
    let end = text.len().saturating_sub(HINT_CHARS);
    format!("{}\u{2026}{}", Secret::PREFIX, text.get(end..).unwrap_or_default())
}
