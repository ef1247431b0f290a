//! Where a reference stands in a request.

use std::fmt;

use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// Where a reference stands in a request, such as `input_references[2]` or `extra_params.image_reference[1].image_url`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The field, which may hold a list.
    list: String,
    /// The place in the list; none where the field holds one thing.
    index: Option<usize>,
    /// The key of the object there.
    key: Option<&'static str>,
}

impl Place {
    /// Makes the place of a file, or of an object.
    pub(crate) fn file(list: impl Into<String>, index: Option<usize>) -> Self {
        Self { list: list.into(), index, key: None }
    }

    /// Goes on to a key of the object that is there.
    pub(crate) fn with_key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Returns the field with all of its list.
    pub(crate) fn list(&self) -> &str {
        &self.list
    }

    /// Makes the refusal of a URL, in the words that vLLM-Omni's clients know: they look for the name without an index.
    pub(crate) fn invalid_url(&self, rule: &str) -> ApiError {
        let label = Self { index: None, ..self.clone() };
        let which = self.index.map_or_else(String::new, |index| format!(" at index {index}"));
        let message = format!("Invalid {label}{which}: {rule}");
        ApiError::new(ErrorCode::InvalidReferenceUrl, message).with_param(self.to_string())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.list)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        if let Some(key) = self.key {
            write!(f, ".{key}")?;
        }
        Ok(())
    }
}
