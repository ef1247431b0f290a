//! `application/x-www-form-urlencoded`.

use serde_json::{Map, Value};

use super::form::FormTree;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// Decodes a whole body.
pub(super) fn decode(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let mut form = FormTree::default();
    for pair in pairs(body) {
        let (name, text) = pair?;
        form.add(&name, text)?;
    }
    Ok(form.into_tree())
}

/// Reads the names and texts of a body, or of a query, in their order.
///
/// Errors: `invalid_value` for bytes that are no text.
pub(crate) fn pairs(encoded: &[u8]) -> impl Iterator<Item = Result<(String, String), ApiError>> {
    encoded.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let split = pair.iter().position(|byte| *byte == b'=');
        let (name, text) = match split {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &pair[pair.len()..]),
        };
        let name = String::from_utf8(unescape(name))
            .map_err(|_| ApiError::new(ErrorCode::InvalidValue, "field names must be UTF-8"))?;
        let text = String::from_utf8(unescape(text))
            .map_err(|_| ApiError::invalid_value(super::form::root(&name), format!("{name} must be UTF-8")))?;
        Ok((name, text))
    })
}

/// Reads `+` as a space and `%41` as a byte; a percent sign that begins no such pair stands for itself, as browsers
/// have it.
fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let byte = match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                at += 2;
                u8::try_from(high * 16 + low).expect("two hex digits are a byte")
            }
            (b'+', ..) => b' ',
            (byte, ..) => byte,
        };
        bytes.push(byte);
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_texts_are_unescaped() {
        let tree =
            decode(b"prompt=a+cat%20%26+d%C3%B6g&extra_params%5Btask%5D=t2va&size=512x288&&empty=&bare").unwrap();
        let expected = json!({"prompt": "a cat & dög", "extra_params": {"task": "t2va"}, "size": "512x288"});
        assert_eq!(Value::Object(tree), expected);
    }

    #[test]
    fn a_lone_percent_sign_stands_for_itself() {
        let tree = decode(b"a=100%&b=%zz&c=%4").unwrap();
        assert_eq!(Value::Object(tree), json!({"a": "100%", "b": "%zz", "c": "%4"}));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_by_name() {
        let refused = decode(b"prompt=%ff%fe").unwrap_err();
        assert_eq!(refused.message, "prompt must be UTF-8");
        assert_eq!(refused.param.as_deref(), Some("prompt"));
        assert!(decode(b"%ff=1").is_err());
    }
}
