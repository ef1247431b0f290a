//! By what a request is known again when its client sends it once more.
//!
//! A client may name its request (`Idempotency-Key`). OpenAI's libraries do not, but they count their tries
//! (`x-stainless-retry-count`), so that a second try of the same fields soon after the first is taken for what it is. Either
//! way it is the parsed fields and the digests of the files that are compared: the bytes of a form differ with every try,
//! since its boundary does.

use axum::http::{HeaderMap, HeaderName};
use clapboard_jobs::{ApiKeyId, Resend, Submission};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::body::{Decoded, METADATA};
use crate::error::ApiError;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
/// The longest name of a request, in characters.
const MAX_NAME_CHARS: usize = 255;

/// What the head of a request says about being sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Says {
    /// Its client has named it.
    Named(Vec<u8>),
    /// Its client counts its tries; this is not the first.
    Counted(bool),
}

/// A request that may come twice.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    token: [u8; 32],
    fields: [u8; 32],
    /// None for a request that has a name; else whether it is not the first try.
    counted: Option<bool>,
    arrived: Instant,
}

/// Tells whether a client has named its request, so that it may come back for it.
pub(crate) fn is_named(headers: &HeaderMap) -> bool {
    headers.contains_key(IDEMPOTENCY_KEY)
}

impl Mark {
    /// Marks a request that began to arrive at `arrived` and asks for `operation`; none when its head says nothing about
    /// being sent again.
    ///
    /// Errors: `invalid_value` for an `Idempotency-Key` that cannot be one.
    pub(crate) fn of(
        headers: &HeaderMap,
        key: Option<ApiKeyId>,
        operation: &str,
        decoded: &Decoded,
        arrived: Instant,
    ) -> Result<Option<Self>, ApiError> {
        let Some(says) = says(headers)? else {
            return Ok(None);
        };
        let fields = fields(operation, decoded);
        let key = key.map_or_else(|| "-".to_owned(), |key| key.to_string());
        let (kind, by, counted): (_, &[u8], _) = match &says {
            Says::Named(name) => ("named", name, None),
            Says::Counted(again) => ("counted", &fields, Some(*again)),
        };
        let token =
            Sha256::new().chain_update(kind).chain_update([0]).chain_update(key).chain_update([0]).chain_update(by);
        Ok(Some(Self { token: token.finalize().into(), fields, counted, arrived }))
    }

    /// Returns what the store goes by now.
    pub(crate) fn submission(&self) -> Submission {
        let resend = match self.counted {
            None => Resend::Named,
            Some(again) => Resend::Counted { again, arrived: self.arrived.elapsed() },
        };
        Submission { token: self.token, fields: self.fields, resend }
    }
}

fn says(headers: &HeaderMap) -> Result<Option<Says>, ApiError> {
    let mut names = headers.get_all(IDEMPOTENCY_KEY).iter();
    if let Some(name) = names.next() {
        let refuse = |rule: &str| ApiError::invalid_value("Idempotency-Key", format!("Idempotency-Key must {rule}"));
        if names.next().is_some() {
            return Err(refuse("be given once"));
        }
        let chars = name.to_str().ok().map(|name| name.trim().chars().count());
        if !chars.is_some_and(|chars| (1..=MAX_NAME_CHARS).contains(&chars)) {
            return Err(refuse(&format!("have from 1 to {MAX_NAME_CHARS} characters of ASCII")));
        }
        return Ok(Some(Says::Named(name.as_bytes().trim_ascii().to_vec())));
    }
    // A count that is no number says nothing.
    let count = headers.get(RETRY_COUNT).and_then(|count| count.to_str().ok()?.trim().parse::<u32>().ok());
    Ok(count.map(|count| Says::Counted(count > 0)))
}

/// Returns the digest of everything that a request asks for. What is absent has the same digest however it is written.
fn fields(operation: &str, decoded: &Decoded) -> [u8; 32] {
    let mut digest = Sha256::new();
    text(&mut digest, b'o', operation);
    object(&mut digest, &decoded.tree, "");
    for part in &decoded.files {
        text(&mut digest, b'p', part.field.as_str());
        text(&mut digest, b'h', &part.file.sha256);
    }
    digest.finalize().into()
}

fn text(digest: &mut Sha256, kind: u8, text: &str) {
    digest.update([kind]);
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text);
}

/// Digests the object that is the field `name`.
fn object(digest: &mut Sha256, fields: &Map<String, Value>, name: &str) {
    let is_absent = |value: &Value| value.is_null() || (value.as_str() == Some("") && name != METADATA);
    let mut fields: Vec<(&String, &Value)> = fields.iter().filter(|(_, value)| !is_absent(value)).collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    digest.update(b"{");
    digest.update((fields.len() as u64).to_le_bytes());
    for (name, field) in fields {
        text(digest, b'k', name);
        value(digest, field, name);
    }
}

/// Digests the value of the field `name`.
fn value(digest: &mut Sha256, field: &Value, name: &str) {
    match field {
        Value::Null => digest.update(b"0"),
        Value::Bool(yes) => digest.update(if *yes { b"t" } else { b"f" }),
        Value::Number(number) => text(digest, b'n', &plain(number)),
        // A form has texts where JSON has numbers, flags and objects, which it may hold as JSON; a prompt is only ever a text.
        Value::String(words) if name != "prompt" => match serde_json::from_str(words) {
            Ok(Value::String(_) | Value::Null) | Err(_) => text(digest, b's', words),
            Ok(meant) => value(digest, &meant, name),
        },
        Value::String(words) => text(digest, b's', words),
        Value::Array(values) => {
            digest.update(b"[");
            digest.update((values.len() as u64).to_le_bytes());
            values.iter().for_each(|field| value(digest, field, ""));
        }
        Value::Object(fields) => object(digest, fields, name),
    }
}

/// Writes a number in one way, however it came: 22 and 22.0 are the same.
fn plain(number: &Number) -> String {
    /// The largest whole numbers that have a fraction of their own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(whole) if whole.fract() == 0.0 && whole.abs() < EXACT => format!("{whole:.0}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn marked(headers: &[(HeaderName, &'static str)], tree: Value) -> Option<Mark> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let Value::Object(tree) = tree else { panic!("a request is an object") };
        Mark::of(&headers, None, "create", &Decoded { tree, ..Decoded::default() }, Instant::now()).unwrap()
    }

    fn digest(tree: Value) -> [u8; 32] {
        marked(&[(RETRY_COUNT, "0")], tree).unwrap().fields
    }

    #[test]
    fn equal_fields_have_one_digest_and_others_another() {
        let first = digest(json!({"prompt": "a cat", "seed": 1, "extra_params": {"a": 1, "b": [1, 2]}}));
        let same = json!({"seed": 1, "model": "", "extra_params": {"b": [1, 2], "c": null, "a": 1}, "prompt": "a cat"});
        assert_eq!(digest(same), first);
        for other in [
            json!({"prompt": "a cat", "seed": 2, "extra_params": {"a": 1, "b": [1, 2]}}),
            json!({"prompt": "a cat", "seed": 1, "extra_params": {"a": 1, "b": [12]}}),
            json!({"prompt": "a cat", "seed": 1, "extra_params": {"a": 1, "b": [1, 2], "d": false}}),
            json!({"prompt": "a cat", "seed": 1, "a": 1, "b": [1, 2]}),
        ] {
            assert_ne!(digest(other.clone()), first, "{other}");
        }
        let metadata = |value: Value| digest(json!({"extra_params": {"metadata": value}}));
        assert_ne!(metadata(json!({"a": ""})), metadata(json!({})), "an empty text of metadata is one");
        assert_eq!(metadata(json!({"a": null})), metadata(json!({})));
    }

    #[test]
    fn a_value_is_the_same_however_its_encoding_writes_it() {
        let first =
            digest(json!({"prompt": "5", "seed": 5, "extra_params": {"duration": 4.5}, "metadata": {"shop": "7"}}));
        let form = json!({"prompt": "5", "seed": "5", "extra_params": "{\"duration\": 4.50}", "metadata": {"shop": 7}});
        assert_eq!(digest(form), first);
        let form =
            json!({"prompt": "5", "seed": 5.0, "extra_params": {"duration": "4.5"}, "metadata": "{\"shop\":\"7\"}"});
        assert_eq!(digest(form), first);
        assert_ne!(digest(json!({"prompt": "5.0"})), digest(json!({"prompt": "5"})), "a prompt is a text");
        assert_ne!(
            digest(json!({"seed": 9_007_199_254_740_993_u64})),
            digest(json!({"seed": 9_007_199_254_740_992_u64}))
        );
    }

    #[test]
    fn a_name_makes_the_token_alone_and_a_count_does_with_the_fields() {
        let (one, two) = (json!({"prompt": "a"}), json!({"prompt": "b"}));
        let named = |name, tree: &Value| marked(&[(IDEMPOTENCY_KEY, name)], tree.clone()).unwrap();
        assert_eq!(named("k", &one).token, named(" k ", &two).token);
        assert_ne!(named("k", &one).fields, named("k", &two).fields);
        assert_ne!(named("k", &one).token, named("l", &one).token);
        assert_eq!(named("k", &one).submission().resend, Resend::Named);
        let counted = |count, tree: &Value| marked(&[(RETRY_COUNT, count)], tree.clone()).unwrap();
        assert_eq!(counted("0", &one).token, counted("2", &one).token);
        assert_ne!(counted("0", &one).token, counted("0", &two).token);
        assert!(matches!(counted("2", &one).submission().resend, Resend::Counted { again: true, .. }));
        assert!(matches!(counted("0", &one).submission().resend, Resend::Counted { again: false, .. }));
        let both = marked(&[(RETRY_COUNT, "1"), (IDEMPOTENCY_KEY, "k")], one.clone()).unwrap();
        assert_eq!(both.token, named("k", &one).token);
        assert!(marked(&[(RETRY_COUNT, "often")], one.clone()).is_none());
        assert!(marked(&[], one).is_none());
    }

    #[test]
    fn a_name_is_short_and_given_once() {
        let refused = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_str(value).unwrap());
            }
            says(&headers).unwrap_err().message
        };
        let rule = "Idempotency-Key must have from 1 to 255 characters of ASCII";
        assert_eq!(refused(&[""]), rule);
        assert_eq!(refused(&[&"x".repeat(256)]), rule);
        assert_eq!(refused(&["ä"]), rule);
        assert_eq!(refused(&["a", "a"]), "Idempotency-Key must be given once");
    }
}
