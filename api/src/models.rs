//! `GET /v1/models`: what is served.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::{AppState, Began};
use crate::error::ErrorBody;

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
    (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
))]
pub(crate) async fn list(State(state): State<AppState>, State(began): State<Began>) -> Json<ModelList> {
    let partitions = &state.profile.partitions;
    let model = Model {
        id: state.profile.name.clone(),
        object: "model",
        created: began.0,
        owned_by: "clapboard",
        tasks: partitions.iter().flat_map(|partition| partition.tasks()).map(|task| task.as_str()).collect(),
        partitions: partitions.iter().map(|partition| partition.as_str()).collect(),
    };
    Json(ModelList { object: "list", data: vec![model] })
}
