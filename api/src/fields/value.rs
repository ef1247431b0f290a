//! Single values: the same options come as text from forms and with real types from JSON.

use serde_json::Value;

use super::layers::Found;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::unique_json::{Fault, MAX_VALUES, parse};

impl Found {
    /// Reads a text. Numbers count as how they are written, since a form cannot tell them apart.
    pub(super) fn text(self) -> Result<String, ApiError> {
        match self.value {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(self.must_be("a text")),
        }
    }

    /// Reads a text that is nothing else, such as a prompt.
    pub(crate) fn strict_text(self) -> Result<String, ApiError> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.must_be("a text")),
        }
    }

    /// Reads a whole number of 64 bits; `1.0` is one.
    pub(super) fn integer(self) -> Result<i64, ApiError> {
        let integer = match &self.value {
            Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| text.parse().ok().and_then(whole))
            }
            _ => None,
        };
        integer.ok_or_else(|| self.must_be("a whole number of 64 bits"))
    }

    /// Reads a number; infinities and NaN go on to the rule of the field.
    pub(super) fn number(self) -> Result<f64, ApiError> {
        let number = match &self.value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| self.must_be("a number"))
    }

    /// Reads yes or no: `true`, `on`, `1`, `yes` and their opposites.
    pub(crate) fn boolean(self) -> Result<bool, ApiError> {
        let word = match &self.value {
            Value::Bool(yes) => return Ok(*yes),
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_ascii_lowercase(),
            _ => String::new(),
        };
        match word.as_str() {
            "true" | "on" | "1" | "yes" => Ok(true),
            "false" | "off" | "0" | "no" => Ok(false),
            _ => Err(self.must_be("true or false")),
        }
    }

    fn must_be(&self, what: &str) -> ApiError {
        let path = &self.path;
        if self.value.is_array() {
            return ApiError::invalid_value(path, format!("{path} must be given once, as {what}"));
        }
        ApiError::invalid_value(path, format!("{path} must be {what}"))
    }
}

/// Refuses a text with a NUL, which PostgreSQL does not hold: it would be told back as another one, and not be found again.
///
/// Errors: `invalid_value`.
pub(crate) fn check_no_nul(path: &str, text: &str) -> Result<(), ApiError> {
    match text.contains('\0') {
        true => Err(ApiError::invalid_value(path, format!("{path} must not hold the character U+0000"))),
        false => Ok(()),
    }
}

/// Reads a text that holds JSON.
///
/// Errors: `invalid_json`, in the words that vLLM-Omni's clients know, and `invalid_value` for a key that stands twice.
pub(super) fn json(path: &str, text: &str) -> Result<Value, ApiError> {
    parse(text.as_bytes(), path).map_err(|fault| match fault {
        Fault::Twice(path) => ApiError::given_twice(&path),
        Fault::TooMany => ApiError::invalid_value(path, format!("{path} must have at most {MAX_VALUES} values")),
        Fault::Syntax(_) => {
            ApiError::new(ErrorCode::InvalidJson, format!("Invalid JSON in form field {path}")).with_param(path)
        }
    })
}

/// Reads a whole number that came as a double: a fraction of zero, or more digits than 64 bits have.
fn whole(number: f64) -> Option<i64> {
    // From 2^53 on a double may stand for another whole number than the one that was written.
    const INEXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() < INEXACT).then_some(number as i64)
}
