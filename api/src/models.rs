//! `GET /v1/models` and `/v1/models/{model}`: what is served.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::{AppState, Began};
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;

/// The models that are served.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    pub object: &'static str,
    /// The models: one.
    pub data: Vec<Model>,
}

/// A model that is served.
#[derive(Debug, Serialize, ToSchema)]
pub struct Model {
    /// The name by which a request asks for it.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// When this service began to serve it, in seconds since 1970.
    pub created: u64,
    /// Always `clapboard`.
    pub owned_by: &'static str,
    /// The tasks that it is asked for: `t2va`, `fl2va`, `ref2va`.
    pub tasks: Vec<&'static str>,
    /// The sets of weights that it has: `fl2va`, `ref2va`. Whether workers run them now, `/ready` tells.
    pub partitions: Vec<&'static str>,
}

/// Lists the models that are served.
#[utoipa::path(get, path = "/v1/models", tag = "models", responses(
    (status = 200, body = ModelList),
))]
pub(crate) async fn list(State(state): State<AppState>, State(began): State<Began>) -> Json<ModelList> {
    Json(ModelList { object: "list", data: vec![model(&state, began)] })
}

/// Describes a model that is served, by its name or by another one that requests may use.
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "models",
    params(("model" = String, Path, description = "The name; a slash in it may be written as it is.")),
    responses(
        (status = 200, body = Model),
        (status = 404, description = "The model is not served here.", body = ErrorBody),
    ),
)]
pub(crate) async fn retrieve(
    State(state): State<AppState>,
    State(began): State<Began>,
    uri: Uri,
) -> Result<Json<Model>, ApiError> {
    let name = uri.path().strip_prefix("/v1/models/").unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8_lossy();
    if is_served(&state, &name) {
        return Ok(Json(model(&state, began)));
    }
    let message = format!("the model is not served here, which serves {:?}", state.profile.name);
    Err(ApiError::new(ErrorCode::NotFound, message).with_param("model"))
}

/// Tells whether a request may name the served model so.
pub(crate) fn is_served(state: &AppState, name: &str) -> bool {
    name == state.profile.name || state.options.model_aliases.iter().any(|alias| alias == name)
}

fn model(state: &AppState, began: Began) -> Model {
    let partitions = &state.profile.partitions;
    Model {
        id: state.profile.name.clone(),
        object: "model",
        created: began.0,
        owned_by: "clapboard",
        tasks: partitions.iter().flat_map(|partition| partition.tasks()).map(|task| task.as_str()).collect(),
        partitions: partitions.iter().map(|partition| partition.as_str()).collect(),
    }
}
