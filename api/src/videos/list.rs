//! `GET /v1/videos`: lists, page by page.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use clapboard_jobs::{ListQuery, Order};

use super::Video;
use crate::app::AppState;
use crate::auth::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::error_code::ErrorCode;
use crate::fields::checked_metadata;
use crate::query::{Page, ignored_in_list, limit, metadata_key, pairs};

/// Lists videos in the order in which they were made.
#[utoipa::path(
    get, path = "/v1/videos", tag = "videos",
    params(
        ("after" = Option<String>, Query, description = "The last id of the page before."),
        ("limit" = Option<u32>, Query, description = "0 to 100; 20 without."),
        ("order" = Option<String>, Query, description = "`asc` or `desc`; newest first without."),
        ("status" = Option<String>, Query, description = "`queued`, `in_progress`, `completed` or `failed`."),
        ("model" = Option<String>, Query, description = "The model by the name that the requests used."),
        ("metadata" = Option<BTreeMap<String, String>>, Query, style = DeepObject, explode, description = "`metadata[key]=value`, once or several times: only videos with all of these."),
        ("x-strict" = Option<String>, Header, description = "`1`: refuse unknown parameters instead of ignoring them."),
    ),
    responses(
        (status = 200, body = Page<Video>, headers(
            ("x-ignored-fields" = String, description = "The parameters that nothing documents, if there were any."),
        )),
        (status = 400, description = "A parameter breaks a rule, which the error names.", body = ErrorBody),
        (status = 503, description = "The job store cannot be reached now.", body = ErrorBody),
    ),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Caller(tenant): Caller,
    uri: Uri,
    request: HeaderMap,
) -> Result<(HeaderMap, Json<Page<Video>>), ApiError> {
    let (query, unknown) = query(&uri)?;
    let ignored = ignored_in_list::<Video>(&request, &unknown)?;
    let page = state.store.list(&tenant, &query).await?;
    Ok((ignored, Json(Page::of(page.jobs.iter().map(Video::of).collect(), page.has_more))))
}

/// Reads the parameters; beside the query, returns those that nothing documents.
fn query(uri: &Uri) -> Result<(ListQuery, Vec<String>), ApiError> {
    let (mut query, mut unknown) = (ListQuery::default(), Vec::new());
    let mut metadata = BTreeMap::new();
    for (name, value) in pairs(uri)? {
        match name.as_str() {
            "after" => {
                let unknown = |_| {
                    ApiError::new(ErrorCode::InvalidCursor, "there is no such video to list after").with_param("after")
                };
                query.after = Some(value.parse().map_err(unknown)?);
            }
            "limit" => query.limit = limit(&value)?,
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
            "model" => query.model = Some(value),
            "metadata" => {
                let message = "metadata must be given as metadata[key]=value";
                return Err(ApiError::invalid_value("metadata", message));
            }
            _ => match metadata_key(&name) {
                Some(key) => drop(metadata.insert(key.to_owned(), value)),
                None => unknown.push(name),
            },
        }
    }
    query.metadata = checked_metadata("metadata", metadata)?;
    Ok((query, unknown))
}

#[cfg(test)]
mod tests {
    use clapboard_jobs::Metadata;

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
    fn a_model_and_metadata_are_looked_for_by_all_their_words() {
        let (found, unknown) =
            query(&"/?model=sora-2&metadata%5Bk%5D=x&metadata[a[b]]=y%20z&metadata[c=1".parse().unwrap()).unwrap();
        let pairs = [("k".to_owned(), "x".to_owned()), ("a[b]".to_owned(), "y z".to_owned())];
        assert_eq!(found.metadata, Metadata::new(pairs.into()).unwrap());
        assert_eq!((found.model.as_deref(), unknown), (Some("sora-2"), vec!["metadata[c".to_owned()]));
        let (found, _) = query(&"/?metadata[k]=".parse().unwrap()).unwrap();
        assert_eq!(found.metadata, Metadata::new([("k".to_owned(), String::new())].into()).unwrap());
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
            ("/?metadata=x", "invalid_value", "metadata"),
            ("/?metadata[]=x", "invalid_value", "metadata"),
            ("/?metadata[a]=%00", "invalid_value", "metadata"),
        ] {
            assert_eq!(refused(text), (code, Some(param.to_owned())), "{text}");
        }
    }
}
