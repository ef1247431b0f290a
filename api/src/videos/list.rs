//! `GET /v1/videos`: lists, page by page.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Uri};
use clapboard_jobs::{ListQuery, Order};
use serde::Serialize;
use utoipa::ToSchema;

use super::Video;
use super::query::pairs;
use crate::admission::ignored;
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;

/// The longest page.
const MAX_LIMIT: u32 = 100;

/// A page of a list of videos.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct VideoList {
    /// Always `list`.
    pub object: &'static str,
    /// The videos.
    pub data: Vec<Video>,
    /// The id of the first of them.
    #[schema(required = true)]
    pub first_id: Option<String>,
    /// The id of the last of them: the next page's `after`.
    #[schema(required = true)]
    pub last_id: Option<String>,
    /// More follow.
    pub has_more: bool,
}

/// Lists videos in the order in which they were made.
#[utoipa::path(
    get, path = "/v1/videos", tag = "videos",
    params(
        ("after" = Option<String>, Query, description = "The last id of the page before."),
        ("limit" = Option<u32>, Query, description = "0 to 100; 20 without."),
        ("order" = Option<String>, Query, description = "`asc` or `desc`; newest first without."),
        ("status" = Option<String>, Query, description = "`queued`, `in_progress`, `completed` or `failed`."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown parameters instead of ignoring them."),
    ),
    responses(
        (status = 200, body = VideoList, headers(
            ("x-ignored-fields" = String, description = "The parameters that nothing documents, if there were any."),
        )),
        (status = 400, description = "A parameter breaks a rule, which the error names.", body = ErrorBody),
        (status = 401, description = "The API key is missing or not known.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    uri: Uri,
    request: HeaderMap,
) -> Result<(HeaderMap, Json<VideoList>), ApiError> {
    let (query, unknown) = query(&uri)?;
    let ignored = ignored(&request, &unknown)?;
    let page = state.store.list(&tenant, &query).await?;
    let headers = ignored.map(|names| (HeaderName::from_static("x-ignored-fields"), names)).into_iter().collect();
    let data: Vec<Video> = page.jobs.iter().map(Video::of).collect();
    let list = VideoList {
        object: "list",
        first_id: data.first().map(|video| video.id.clone()),
        last_id: data.last().map(|video| video.id.clone()),
        has_more: page.has_more,
        data,
    };
    Ok((headers, Json(list)))
}

/// Reads the parameters; beside the query, returns those that nothing documents.
fn query(uri: &Uri) -> Result<(ListQuery, Vec<String>), ApiError> {
    let (mut query, mut unknown) = (ListQuery::default(), Vec::new());
    for (name, value) in pairs(uri)? {
        match name.as_str() {
            "after" => {
                let unknown = |_| {
                    ApiError::new(ErrorCode::InvalidCursor, "there is no such video to list after").with_param("after")
                };
                query.after = Some(value.parse().map_err(unknown)?);
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| *limit <= MAX_LIMIT);
                let wrong =
                    || ApiError::invalid_value("limit", format!("limit must be a whole number from 0 to {MAX_LIMIT}"));
                query.limit = limit.ok_or_else(wrong)?;
            }
            "order" => {
                query.order = match value.as_str() {
                    "asc" => Order::Ascending,
                    "desc" => Order::Descending,
                    _ => return Err(ApiError::invalid_value("order", "order must be asc or desc")),
                }
            }
            "status" => {
                let wrong =
                    |_| ApiError::invalid_value("status", "status must be queued, in_progress, completed or failed");
                query.status = Some(value.parse().map_err(wrong)?);
            }
            _ if name == "model" || name.starts_with("metadata") => {
                return Err(ApiError::unsupported_parameter(&name, format!("a list by {name} is not supported yet")));
            }
            _ => unknown.push(name),
        }
    }
    Ok((query, unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (&'static str, Option<String>) {
        let error = query(&text.parse().unwrap()).unwrap_err();
        (error.code.as_str(), error.param)
    }

    #[test]
    fn a_query_without_words_is_the_newest_twenty() {
        assert_eq!(query(&"/v1/videos".parse().unwrap()).unwrap(), (ListQuery::default(), vec![]));
        let (found, unknown) = query(&"/v1/videos?after=&limit=&other=1".parse().unwrap()).unwrap();
        assert_eq!((found, unknown), (ListQuery::default(), vec!["other".to_owned()]));
    }

    #[test]
    fn wrong_words_are_named() {
        for (text, code, param) in [
            ("/?limit=101", "invalid_value", "limit"),
            ("/?limit=-1", "invalid_value", "limit"),
            ("/?limit=many", "invalid_value", "limit"),
            ("/?order=up", "invalid_value", "order"),
            ("/?status=done", "invalid_value", "status"),
            ("/?after=x", "invalid_cursor", "after"),
            ("/?model=x", "unsupported_parameter", "model"),
            ("/?metadata%5Bk%5D=x", "unsupported_parameter", "metadata[k]"),
        ] {
            assert_eq!(refused(text), (code, Some(param.to_owned())), "{text}");
        }
    }
}
