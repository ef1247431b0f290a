//! `application/json`.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::unique_json::{Fault, MAX_VALUES, parse};

/// Decodes a whole body.
pub(super) fn decode(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidJson, message);
    match parse(body, "") {
        Ok(Value::Object(tree)) => Ok(tree),
        Ok(_) => Err(invalid("the JSON body must be an object".to_owned())),
        Err(Fault::Twice(path)) => Err(ApiError::given_twice(&path)),
        Err(Fault::TooMany) => {
            Err(ApiError::new(ErrorCode::InvalidValue, format!("the JSON must have at most {MAX_VALUES} values")))
        }
        Err(Fault::Syntax(error)) => Err(invalid(format!(
            "the body is not JSON: {} in line {}, column {}",
            kind(&error),
            error.line(),
            error.column()
        ))),
    }
}

/// Says what is wrong without quoting the body, which may hold a prompt.
fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "it ends early",
        _ => "there is an error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_is_a_request() {
        assert_eq!(decode(br#"{"prompt": "a cat"}"#).unwrap()["prompt"], "a cat");
        for wrong in [&b""[..], b"null", b"[]", b"\"x\"", b"{", b"{\"prompt\": \"\xff\"}", b"{} {}"] {
            assert_eq!(decode(wrong).unwrap_err().code, ErrorCode::InvalidJson, "{wrong:?}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_and_named() {
        let refused = decode(br#"{"prompt": "a cat", "extra_params": {"seed": 1, "seed": 2}}"#).unwrap_err();
        assert_eq!((refused.code, refused.param.as_deref()), (ErrorCode::InvalidValue, Some("extra_params.seed")));
        assert_eq!(refused.message, "extra_params.seed must be given once");
    }

    #[test]
    fn a_body_nested_without_end_is_refused() {
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert_eq!(decode(deep.as_bytes()).unwrap_err().code, ErrorCode::InvalidJson);
    }

    #[test]
    fn the_place_of_an_error_is_named() {
        let refused = decode(b"{\n \"prompt\": }").unwrap_err();
        assert_eq!(refused.message, "the body is not JSON: there is an error in line 2, column 12");
    }
}
