//! A reader of config objects that collects every problem before it complains.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::checkpoint::config::json::read_object;
use crate::checkpoint::error::{ConfigProblem, Error};

/// One config file being read. Keys are dotted paths such as `text_config.hidden_size`.
///
/// Getters of required keys return a harmless value when the key is absent or of a wrong type; [`finish`](Self::finish)
/// then refuses the file, so the value is never used.
pub(in crate::checkpoint) struct Fields {
    path: PathBuf,
    root: Map<String, Value>,
    read: BTreeSet<String>,
    problems: Vec<ConfigProblem>,
}

impl Fields {
    pub(in crate::checkpoint) fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self::new(path, read_object(path)?))
    }

    pub(in crate::checkpoint) fn new(path: &Path, root: Map<String, Value>) -> Self {
        Self { path: path.to_owned(), root, read: BTreeSet::new(), problems: Vec::new() }
    }

    /// A positive integer.
    pub(in crate::checkpoint) fn size(&mut self, key: &str) -> usize {
        self.required(key, "a positive integer", as_size).unwrap_or(1)
    }

    /// A positive number of pixels.
    pub(in crate::checkpoint) fn pixels(&mut self, key: &str) -> u64 {
        let pixels = |value: &Value| value.as_u64().filter(|&pixels| pixels > 0 && pixels <= 1 << 32);
        self.required(key, "a positive number of pixels", pixels).unwrap_or(1)
    }

    /// A positive number of pixels under the first of several keys that is present.
    pub(in crate::checkpoint) fn pixels_at(&mut self, keys: &[&str]) -> u64 {
        let key = self.first_present(keys);
        self.pixels(key)
    }

    /// Tells whether a key is there.
    pub(in crate::checkpoint) fn has(&self, key: &str) -> bool {
        self.lookup(key).is_some()
    }

    /// A positive integer with a default.
    pub(in crate::checkpoint) fn size_or(&mut self, key: &str, default: usize) -> usize {
        self.optional(key, "a positive integer", as_size).unwrap_or(default)
    }

    /// A positive integer that may be absent without a default.
    pub(in crate::checkpoint) fn size_if(&mut self, key: &str) -> Option<usize> {
        self.optional(key, "a positive integer", as_size)
    }

    /// A list of positive integers.
    pub(in crate::checkpoint) fn sizes(&mut self, key: &str) -> Vec<usize> {
        self.required(key, "a list of positive integers", as_sizes).unwrap_or_default()
    }

    /// A list of positive integers that may be absent.
    pub(in crate::checkpoint) fn sizes_if(&mut self, key: &str) -> Option<Vec<usize>> {
        self.optional(key, "a list of positive integers", as_sizes)
    }

    /// A list of indices, zero included.
    pub(in crate::checkpoint) fn indices(&mut self, key: &str) -> Vec<usize> {
        self.required(key, "a list of integers from zero", as_indices).unwrap_or_default()
    }

    /// A list of lists of positive integers that may be absent.
    pub(in crate::checkpoint) fn size_table_if(&mut self, key: &str) -> Option<Vec<Vec<usize>>> {
        self.optional(key, "a list of lists of positive integers", |value| {
            value.as_array()?.iter().map(as_sizes).collect()
        })
    }

    /// A token id.
    pub(in crate::checkpoint) fn token(&mut self, key: &str) -> u32 {
        self.required(key, "a token id", |value| u32::try_from(value.as_u64()?).ok()).unwrap_or(0)
    }

    /// A positive number under the first of several keys that is present.
    pub(in crate::checkpoint) fn positive_at(&mut self, keys: &[&str]) -> f64 {
        let key = self.first_present(keys);
        self.required(key, "a positive number", as_positive).unwrap_or(1.0)
    }

    /// A positive number with a default.
    pub(in crate::checkpoint) fn positive_or(&mut self, key: &str, default: f64) -> f64 {
        self.optional(key, "a positive number", as_positive).unwrap_or(default)
    }

    /// A list of positive integers under the first of several keys that is present.
    pub(in crate::checkpoint) fn sizes_at(&mut self, keys: &[&str]) -> Vec<usize> {
        let key = self.first_present(keys);
        self.sizes(key)
    }

    /// A list of finite numbers.
    pub(in crate::checkpoint) fn reals(&mut self, key: &str) -> Vec<f32> {
        self.required(key, "a list of finite numbers", as_reals).unwrap_or_default()
    }

    /// A list of finite numbers that may be absent.
    pub(in crate::checkpoint) fn reals_if(&mut self, key: &str) -> Option<Vec<f32>> {
        self.optional(key, "a list of finite numbers", as_reals)
    }

    /// A text with a default.
    pub(in crate::checkpoint) fn text_or(&mut self, key: &str, default: &str) -> String {
        self.text_if(key).unwrap_or_else(|| default.to_owned())
    }

    /// A text that may be absent.
    pub(in crate::checkpoint) fn text_if(&mut self, key: &str) -> Option<String> {
        self.optional(key, "a text", |value| Some(value.as_str()?.to_owned()))
    }

    /// A flag with a default; zero and one count as flags.
    pub(in crate::checkpoint) fn flag_or(&mut self, key: &str, default: bool) -> bool {
        let flag = |value: &Value| value.as_bool().or(value.as_u64().and_then(|n| (n < 2).then_some(n == 1)));
        self.optional(key, "a flag", flag).unwrap_or(default)
    }

    /// Marks keys, with everything under them, as known though not needed.
    pub(in crate::checkpoint) fn ignore(&mut self, keys: &[&str]) {
        self.read.extend(keys.iter().map(|&key| key.to_owned()));
    }

    /// Adds a problem unless the rule holds.
    ///
    /// Rules are looked at only while the file has no other problem: with a key missing they would complain about the
    /// stand-in.
    pub(in crate::checkpoint) fn rule(&mut self, holds: bool, message: impl FnOnce() -> String) {
        let only_rules = self.problems.iter().all(|problem| matches!(problem, ConfigProblem::Rule(_)));
        if only_rules && !holds {
            self.problems.push(ConfigProblem::Rule(message()));
        }
    }

    /// Hands `value` out if the file had no problem, and logs the keys that nobody asked for.
    ///
    /// Errors: [`Error::Config`] with all problems.
    pub(in crate::checkpoint) fn finish<T>(self, value: T) -> Result<T, Error> {
        if !self.problems.is_empty() {
            return Err(Error::Config { path: self.path, problems: self.problems });
        }
        let mut unknown = Vec::new();
        collect_unknown(&self.root, "", &self.read, &mut unknown);
        if !unknown.is_empty() {
            tracing::info!(file = %self.path.display(), keys = unknown.join(", "), "config has keys that are not used");
        }
        Ok(value)
    }

    fn first_present<'k>(&mut self, keys: &[&'k str]) -> &'k str {
        let found = keys.iter().find(|key| self.lookup(key).is_some());
        found.or(keys.first()).copied().unwrap_or_default()
    }

    fn lookup(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let mut value = self.root.get(parts.next()?)?;
        for part in parts {
            value = value.get(part)?;
        }
        (!value.is_null()).then_some(value)
    }

    fn optional<T>(&mut self, key: &str, expected: &'static str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        self.read.insert(key.to_owned());
        let value = self.lookup(key)?;
        let typed = read(value);
        if typed.is_none() {
            let mut found = value.to_string();
            if found.chars().count() > 60 {
                found = found.chars().take(57).chain("...".chars()).collect();
            }
            self.problems.push(ConfigProblem::WrongType { key: key.to_owned(), expected, found });
        }
        typed
    }

    fn required<T>(&mut self, key: &str, expected: &'static str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        if self.lookup(key).is_none() {
            self.problems.push(ConfigProblem::Missing { key: key.to_owned() });
        }
        self.optional(key, expected, read)
    }
}

fn as_size(value: &Value) -> Option<usize> {
    // Far above any real dimension, and small enough that the products of three that make a width stay inside 64 bits.
    let size = value.as_u64().filter(|&size| size > 0 && size <= 1 << 20)?;
    usize::try_from(size).ok()
}

/// Multiplies a list of factors of any length; a product that no real network has saturates, and breaks a rule.
pub(super) fn product(factors: &[usize]) -> usize {
    factors.iter().fold(1, |product, factor| product.saturating_mul(*factor))
}

fn as_sizes(value: &Value) -> Option<Vec<usize>> {
    value.as_array().filter(|list| !list.is_empty())?.iter().map(as_size).collect()
}

fn as_indices(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|index| usize::try_from(index.as_u64()?).ok()).collect()
}

fn as_positive(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number > 0.0)
}

/// Numbers are rounded to F32 once, from their decimal text by way of F64, as the python readers do.
fn as_reals(value: &Value) -> Option<Vec<f32>> {
    let real = |number: &Value| Some(number.as_f64()? as f32).filter(|real| real.is_finite());
    value.as_array()?.iter().map(real).collect()
}

fn collect_unknown(object: &Map<String, Value>, prefix: &str, read: &BTreeSet<String>, unknown: &mut Vec<String>) {
    for (key, value) in object {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if read.contains(&path) {
            continue;
        }
        let inside = format!("{path}.");
        match value {
            Value::Object(inner) if read.iter().any(|key| key.starts_with(&inside)) => {
                collect_unknown(inner, &path, read, unknown);
            }
            _ => unknown.push(path),
        }
    }
}
