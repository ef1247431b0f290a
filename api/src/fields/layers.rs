//! The three places where an option may stand, and which of them wins.

use serde_json::{Map, Value};

use super::value;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// A field as it was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// Where it stood, such as `seed` or `extra_params.duration`.
    pub(crate) path: String,
    /// What it held.
    pub(crate) value: Value,
}

/// The fields of a request: those of `extra_params.target` beat those of `extra_params`, which beat the top level.
#[derive(Debug)]
pub(super) struct Layers {
    layers: [(&'static str, Map<String, Value>); 3],
}

impl Layers {
    /// Takes the layers apart.
    ///
    /// Errors: `invalid_json` or `invalid_value` when `extra_params` or its `target` is no object.
    pub(super) fn of(mut top: Map<String, Value>) -> Result<Self, ApiError> {
        let mut extra = object(&mut top, "extra_params", "extra_params")?;
        let target = object(&mut extra, "target", "extra_params.target")?;
        Ok(Self { layers: [("extra_params.target.", target), ("extra_params.", extra), ("", top)] })
    }

    /// Takes a field out of all layers and returns the one that wins. A null or an empty text is an absent field.
    pub(super) fn take(&mut self, name: &str) -> Option<Found> {
        self.take_any(&[name])
    }

    /// Takes a field of several names out of all layers and returns the one that wins: the layer counts first, and within
    /// it the order of the names.
    pub(super) fn take_any(&mut self, names: &[&str]) -> Option<Found> {
        let mut winner = None;
        for (prefix, fields) in &mut self.layers {
            for name in names {
                let found = fields.remove(*name).filter(|value| !is_absent(value));
                winner = winner.or(found.map(|value| Found { path: format!("{prefix}{name}"), value }));
            }
        }
        winner
    }

    /// Takes a field of the top level, leaving those of the same name elsewhere.
    pub(super) fn take_top(&mut self, name: &str) -> Option<Found> {
        let [.., (_, top)] = &mut self.layers;
        let value = top.remove(name).filter(|value| !is_absent(value))?;
        Some(Found { path: name.to_owned(), value })
    }

    /// Returns the paths of all fields that nobody took.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let top_first = self.layers.iter().rev();
        top_first.flat_map(|(prefix, fields)| fields.keys().map(move |name| format!("{prefix}{name}"))).collect()
    }
}

/// Tells whether a field is as none: null, or an empty text.
pub(crate) fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// Takes an object out of `fields`: as itself, or as JSON in a text.
fn object(fields: &mut Map<String, Value>, name: &str, path: &str) -> Result<Map<String, Value>, ApiError> {
    let Some(value) = fields.remove(name).filter(|value| !is_absent(value)) else {
        return Ok(Map::new());
    };
    let value = match value {
        Value::String(text) => value::json(path, &text)?,
        value => value,
    };
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::new(ErrorCode::InvalidValue, format!("{path} must be a JSON object")).with_param(path)),
    }
}
