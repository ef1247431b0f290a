//! The query of a route.

use std::collections::HashSet;

use axum::extract::Query;
use axum::http::Uri;

use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// Returns the names and values of a query in their order, each name once; an empty value is an absent parameter.
///
/// Errors: `invalid_value`.
pub(super) fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, ApiError> {
    let Query(mut pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| ApiError::new(ErrorCode::InvalidValue, "the query is not made of name=value pairs"))?;
    pairs.retain(|(_, value)| !value.is_empty());
    let mut names = HashSet::new();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| !names.insert(name)) {
        return Err(ApiError::given_twice(name));
    }
    Ok(pairs)
}
