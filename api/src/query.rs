//! What the routes have in common that are asked by a query, and answer page by page.

use std::collections::HashSet;

use axum::http::{HeaderMap, HeaderName, Uri};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::admission::ignored;
use crate::body::{self, METADATA};
use crate::error::ApiError;

/// The longest page.
const MAX_LIMIT: u32 = 100;
/// The length of a page of which nothing is said.
pub(crate) const DEFAULT_LIMIT: u32 = 20;

/// Returns the names and values of a query in their order, each name once; an empty value is an absent parameter, unless it is
/// one of `metadata`.
///
/// Errors: `invalid_value`.
pub(crate) fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, ApiError> {
    let query = uri.query().unwrap_or_default();
    let mut pairs = body::pairs(query.as_bytes()).collect::<Result<Vec<_>, ApiError>>()?;
    pairs.retain(|(name, value)| !value.is_empty() || metadata_key(name).is_some());
    let mut names = HashSet::new();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !names.insert(name)) {
        return Err(ApiError::given_twice(name));
    }
    Ok(pairs)
}

/// Returns the key of a parameter `metadata[key]`.
pub(crate) fn metadata_key(name: &str) -> Option<&str> {
    name.strip_prefix(METADATA)?.strip_prefix('[')?.strip_suffix(']')
}

/// Reads the length of a page.
///
/// Errors: `invalid_value`.
pub(crate) fn limit(text: &str) -> Result<u32, ApiError> {
    let wrong = || ApiError::invalid_value("limit", format!("limit must be a whole number from 0 to {MAX_LIMIT}"));
    text.parse().ok().filter(|limit| *limit <= MAX_LIMIT).ok_or_else(wrong)
}

/// Returns the header by which a reply names the parameters that nothing documents, where there are any.
///
/// Errors: `unknown_parameter` when the request asks for strictness.
pub(crate) fn ignored_header(request: &HeaderMap, unknown: &[String]) -> Result<HeaderMap, ApiError> {
    let names = ignored(request, unknown)?;
    Ok(names.map(|names| (HeaderName::from_static("x-ignored-fields"), names)).into_iter().collect())
}

/// Returns the header by which the reply of a list of `T` names the parameters that nothing documents, where there are any.
///
/// Errors: `unsupported_parameter` for one that names a field of what is listed: whoever sends it means to get fewer, and would
/// take all for these. `unknown_parameter` when the request asks for strictness.
pub(crate) fn ignored_in_list<T: utoipa::PartialSchema>(
    request: &HeaderMap,
    unknown: &[String],
) -> Result<HeaderMap, ApiError> {
    match unknown.iter().find(|name| is_field::<T>(name)) {
        Some(field) => Err(ApiError::unsupported_parameter(field, format!("the list cannot be filtered by {field}"))),
        None => ignored_header(request, unknown),
    }
}

fn is_field<T: utoipa::PartialSchema>(name: &str) -> bool {
    match T::schema() {
        RefOr::T(Schema::Object(object)) => object.properties.contains_key(name),
        _ => false,
    }
}

/// What is listed.
pub trait Listed {
    /// Returns the id by which the next page goes on.
    fn id(&self) -> &str;
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Page<T> {
    /// Always `list`.
    pub object: &'static str,
    /// What is on it.
    pub data: Vec<T>,
    /// The id of the first of them.
    #[schema(required = true)]
    pub first_id: Option<String>,
    /// The id of the last of them: the next page's `after`.
    #[schema(required = true)]
    pub last_id: Option<String>,
    /// More follow.
    pub has_more: bool,
}

impl<T: Listed> Page<T> {
    /// Makes a page.
    pub(crate) fn of(data: Vec<T>, has_more: bool) -> Self {
        let id = |one: &T| one.id().to_owned();
        Self { object: "list", first_id: data.first().map(id), last_id: data.last().map(id), has_more, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_is_no_parameter_but_one_of_metadata() {
        let found = pairs(&"/?a=&b=1&metadata[k]=&metadata=&metadata[c=".parse().unwrap()).unwrap();
        let expected = [("b".to_owned(), "1".to_owned()), ("metadata[k]".to_owned(), String::new())];
        assert_eq!(found, expected);
        assert!(pairs(&"/?metadata[k]=&metadata[k]=1".parse().unwrap()).is_err());
    }

    #[test]
    fn bytes_that_are_no_text_are_not_looked_for_as_another_text() {
        let refused = pairs(&"/?metadata[k]=%ff".parse().unwrap()).unwrap_err();
        assert_eq!(
            (refused.message.as_str(), refused.param.as_deref()),
            ("metadata[k] must be UTF-8", Some("metadata"))
        );
        assert!(pairs(&"/?%ff=1".parse().unwrap()).is_err());
        let found = pairs(&"/?model=a+b%20%C3%A4%zz%".parse().unwrap()).unwrap();
        assert_eq!(found, [("model".to_owned(), "a b ä%zz%".to_owned())]);
    }
}
