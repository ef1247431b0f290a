//! The fields of a request that say nothing about what is generated: when, for how long, for whom, and who is told.

use std::collections::BTreeMap;
use std::time::Duration;

use clapboard_jobs::{Metadata, Notice, Priority, Told};
use serde_json::Value;

use super::layers::{Found, Layers};
use super::value;
use crate::error::ApiError;
use crate::error_code::ErrorCode;

/// The longest time that a job may be given to begin.
const LONGEST_START_DEADLINE_S: f64 = 7.0 * 24.0 * 3600.0;
/// The least that a result may be kept, in seconds.
const SHORTEST_LIFE_S: f64 = 3600.0;
/// The most that a result may be asked to be kept, in seconds: ten years.
const LONGEST_LIFE_S: f64 = 10.0 * 365.0 * 24.0 * 3600.0;
/// The longest name of a user, in characters.
const MAX_USER_CHARS: usize = 256;

/// When, for how long, for whom, and who is told.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// How urgent it is.
    pub(crate) priority: Priority,
    /// How long after its creation the job has to have begun.
    pub(crate) start_within: Option<Duration>,
    /// How long its result is kept.
    pub(crate) result_life: Option<Duration>,
    /// What its client attaches to it.
    pub(crate) metadata: Metadata,
    /// What is told back to its client.
    pub(crate) told: Told,
    /// Where its client wants to hear of it.
    pub(crate) hook: Option<Hook>,
}

/// Where the client of one job wants to hear of it; whether the URL may be asked, nobody has looked at yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hook {
    /// Where it stood.
    pub(crate) path: String,
    /// The URL.
    pub(crate) url: String,
    /// What is told.
    pub(crate) notices: Vec<Notice>,
}

/// Takes these fields out of a request.
///
/// Errors: `invalid_value`, `invalid_json`, `string_above_max_length`, `unknown_parameter` and `unsupported_parameter`, each
/// naming the field.
pub(super) fn read(fields: &mut Layers) -> Result<Terms, ApiError> {
    Ok(Terms {
        priority: priority(fields.take("priority"))?,
        start_within: start_deadline(fields.take("start_deadline_s"))?,
        result_life: expires_after(fields.take("expires_after"))?,
        metadata: metadata(fields.take("metadata"))?,
        told: Told {
            user: user(fields.take("user"))?,
            stage_metrics: fields.take("return_stage_metrics").map(Found::boolean).transpose()?.unwrap_or_default(),
        },
        hook: hook(fields.take("webhook_url"), fields.take("webhook_events"))?,
    })
}

fn priority(found: Option<Found>) -> Result<Priority, ApiError> {
    let Some(found) = found else {
        return Ok(Priority::default());
    };
    let path = found.path.clone();
    found.text()?.parse().map_err(|_| ApiError::invalid_value(&path, format!("{path} must be normal or low")))
}

fn start_deadline(found: Option<Found>) -> Result<Option<Duration>, ApiError> {
    let Some(found) = found else {
        return Ok(None);
    };
    let path = found.path.clone();
    let seconds = found.number()?;
    // Also refuses what is not a number.
    if !(seconds > 0.0 && seconds <= LONGEST_START_DEADLINE_S) {
        return Err(ApiError::invalid_value(
            &path,
            format!("{path} must be above 0 and at most {LONGEST_START_DEADLINE_S} (7 days), got {seconds}"),
        ));
    }
    // Stores count in microseconds.
    Ok(Some(Duration::from_secs_f64(seconds).max(Duration::from_micros(1))))
}

/// Reads how long a result is kept: seconds, or OpenAI's object of an anchor and seconds.
fn expires_after(found: Option<Found>) -> Result<Option<Duration>, ApiError> {
    let Some(Found { path, value }) = found else {
        return Ok(None);
    };
    let value = parsed(&path, value, '{')?;
    let seconds = match value {
        Value::Object(mut object) => {
            let anchor = object.remove("anchor").unwrap_or(Value::Null);
            let seconds = object.remove("seconds").unwrap_or(Value::Null);
            if let Some(other) = object.keys().next() {
                return Err(unknown(&path, other));
            }
            check_anchor(Found { path: format!("{path}.anchor"), value: anchor })?;
            let seconds = Found { path: format!("{path}.seconds"), value: seconds };
            if seconds.value.is_null() {
                let message = format!("{} is required", seconds.path);
                return Err(ApiError::new(ErrorCode::MissingRequiredParameter, message).with_param(seconds.path));
            }
            seconds
        }
        value => Found { path, value },
    };
    let path = seconds.path.clone();
    let seconds = seconds.number()?;
    if !(SHORTEST_LIFE_S..=LONGEST_LIFE_S).contains(&seconds) {
        let message =
            format!("{path} must be between {SHORTEST_LIFE_S} (1 hour) and {LONGEST_LIFE_S} (10 years), got {seconds}");
        return Err(ApiError::invalid_value(&path, message));
    }
    Ok(Some(Duration::from_secs_f64(seconds)))
}

/// Takes the anchor that there is; the other one that OpenAI's clients know is not built.
fn check_anchor(found: Found) -> Result<(), ApiError> {
    if found.value.is_null() {
        return Ok(());
    }
    let path = found.path.clone();
    match found.strict_text()?.as_str() {
        "completed_at" => Ok(()),
        "created_at" => {
            let message = format!("{path} created_at is not supported: files are kept from completed_at on");
            Err(ApiError::unsupported_parameter(&path, message))
        }
        _ => Err(ApiError::invalid_value(&path, format!("{path} must be completed_at"))),
    }
}

fn metadata(found: Option<Found>) -> Result<Metadata, ApiError> {
    let Some(Found { path, value }) = found else {
        return Ok(Metadata::default());
    };
    let Value::Object(object) = parsed(&path, value, '{')? else {
        return Err(ApiError::invalid_value(&path, format!("{path} must be an object of texts")));
    };
    let mut pairs = BTreeMap::new();
    for (key, value) in object {
        if value.is_null() {
            continue;
        }
        let shown: String = key.chars().take(Metadata::MAX_KEY_CHARS).collect();
        pairs.insert(key, Found { path: format!("{path}[{shown}]"), value }.text()?);
    }
    checked_metadata(&path, pairs)
}

/// Takes pairs that were given as `path` as metadata.
///
/// Errors: `invalid_value`.
pub(crate) fn checked_metadata(path: &str, pairs: BTreeMap<String, String>) -> Result<Metadata, ApiError> {
    for text in pairs.iter().flat_map(|(key, value)| [key, value]) {
        value::check_no_nul(path, text)?;
    }
    Metadata::new(pairs).map_err(|broken| ApiError::invalid_value(path, format!("{path}: {broken}")))
}

fn user(found: Option<Found>) -> Result<Option<String>, ApiError> {
    let Some(found) = found else {
        return Ok(None);
    };
    let path = found.path.clone();
    let user = found.text()?;
    value::check_no_nul(&path, &user)?;
    let chars = user.chars().count();
    if chars > MAX_USER_CHARS {
        let message = format!("{path} must be at most {MAX_USER_CHARS} characters, got {chars}");
        return Err(ApiError::new(ErrorCode::StringAboveMaxLength, message).with_param(path));
    }
    Ok(Some(user))
}

/// Reads where a client wants to hear of its job, and of what.
fn hook(url: Option<Found>, events: Option<Found>) -> Result<Option<Hook>, ApiError> {
    let events = match events {
        Some(events) => Some((events.path.clone(), notices(events)?)),
        None => None,
    };
    match (url, events) {
        (None, None) => Ok(None),
        (None, Some((path, _))) => {
            Err(ApiError::invalid_value(&path, format!("{path} needs a webhook_url that they are sent to")))
        }
        (Some(url), events) => {
            let notices = events.map_or_else(|| Notice::ALL.to_vec(), |(_, notices)| notices);
            Ok(Some(Hook { path: url.path.clone(), url: url.strict_text()?, notices }))
        }
    }
}

/// Reads the names of notices: one, or a list of them, each once.
pub(crate) fn notices(Found { path, value }: Found) -> Result<Vec<Notice>, ApiError> {
    let names = match parsed(&path, value, '[')? {
        Value::Array(names) => names,
        single => vec![single],
    };
    let wrong = || {
        let known = Notice::ALL.map(Notice::as_str).join(", ");
        ApiError::invalid_value(&path, format!("{path} must be a list of these: {known}"))
    };
    let mut notices = Vec::new();
    for name in names {
        let notice = name.as_str().and_then(|name| name.parse().ok()).ok_or_else(wrong)?;
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
    if notices.is_empty() { Err(wrong()) } else { Ok(notices) }
}

/// Reads a text that holds JSON, which it does where it begins with `opening`; other values are what they are.
fn parsed(path: &str, value: Value, opening: char) -> Result<Value, ApiError> {
    match value {
        Value::String(text) if text.trim_start().starts_with(opening) => value::json(path, &text),
        value => Ok(value),
    }
}

fn unknown(path: &str, key: &str) -> ApiError {
    let key: String = key.chars().take(64).collect();
    let path = format!("{path}.{}", key.escape_default());
    ApiError::new(ErrorCode::UnknownParameter, format!("{path} is not a parameter")).with_param(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(tree: Value) -> Result<Terms, ApiError> {
        let Value::Object(tree) = tree else { panic!("a request is an object") };
        read(&mut Layers::of(tree)?)
    }

    fn refusal(tree: Value) -> (&'static str, String, String) {
        let refused = terms(tree).unwrap_err();
        (refused.code.as_str(), refused.param.unwrap_or_default(), refused.message)
    }

    #[test]
    fn a_life_is_told_in_seconds_or_as_openai_does() {
        let life =
            |value: Value| terms(json!({"expires_after": value})).unwrap().result_life.map(|life| life.as_secs());
        assert_eq!(life(json!(null)), None);
        for value in [
            json!(7200),
            json!("7200"),
            json!({"seconds": 7200}),
            json!({"anchor": "completed_at", "seconds": "7200"}),
            json!("{\"anchor\": \"completed_at\", \"seconds\": 7200}"),
        ] {
            assert_eq!(life(value.clone()), Some(7200), "{value}");
        }
        for (value, code, param) in [
            (json!(3599), "invalid_value", "expires_after"),
            (json!("nan"), "invalid_value", "expires_after"),
            (json!(1e300), "invalid_value", "expires_after"),
            (json!("soon"), "invalid_value", "expires_after"),
            (json!({"seconds": 1}), "invalid_value", "expires_after.seconds"),
            (json!({}), "missing_required_parameter", "expires_after.seconds"),
            (json!({"seconds": 7200, "anchor": "created_at"}), "unsupported_parameter", "expires_after.anchor"),
            (json!({"seconds": 7200, "anchor": "now"}), "invalid_value", "expires_after.anchor"),
            (json!({"seconds": 7200, "then": 1}), "unknown_parameter", "expires_after.then"),
            (json!("{"), "invalid_json", "expires_after"),
        ] {
            let (found, found_param, message) = refusal(json!({"expires_after": value}));
            assert_eq!((found, found_param.as_str()), (code, param), "{value}: {message}");
        }
    }

    #[test]
    fn metadata_are_texts_within_bounds() {
        let of = |value: Value| terms(json!({"metadata": value})).unwrap().metadata;
        let pairs = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "x".to_owned())];
        let expected = Metadata::new(pairs.into()).unwrap();
        assert_eq!(of(json!({"a": 1, "b": "x", "c": null})), expected);
        assert_eq!(of(json!("{\"a\": \"1\", \"b\": \"x\"}")), expected);
        assert!(of(json!({})).is_empty());
        for (value, param) in [
            (json!([]), "metadata"),
            (json!("a=1"), "metadata"),
            (json!({"a": true}), "metadata[a]"),
            (json!({"a": {"b": 1}}), "metadata[a]"),
            (json!({"": "x"}), "metadata"),
            (json!({"a": "x".repeat(513)}), "metadata"),
            (json!({"a": "x\0y"}), "metadata"),
            (json!({"a\0b": "x", "a\u{fffd}b": "y"}), "metadata"),
        ] {
            let (code, found, message) = refusal(json!({"metadata": value}));
            assert_eq!((code, found.as_str()), ("invalid_value", param), "{message}");
        }
        let many: serde_json::Map<String, Value> = (0..17).map(|n| (format!("k{n}"), json!("v"))).collect();
        assert_eq!(refusal(json!({"metadata": many})).2, "metadata: metadata has 17 keys, and at most 16 are taken");
    }

    #[test]
    fn a_hook_hears_of_everything_unless_it_says_of_what() {
        let hook = |events: Value| {
            let hook = terms(json!({"webhook_url": "https://a.example", "webhook_events": events})).unwrap().hook;
            hook.unwrap().notices
        };
        assert_eq!(hook(json!(null)), Notice::ALL);
        for events in [
            json!("video.failed"),
            json!(["video.failed"]),
            json!(["video.failed", "video.failed"]),
            json!("[\"video.failed\"]"),
        ] {
            assert_eq!(hook(events.clone()), [Notice::Failed], "{events}");
        }
        for events in [json!([]), json!(["video.started"]), json!([[]]), json!({"a": 1})] {
            let (code, param, message) = refusal(json!({"webhook_url": "https://a.example", "webhook_events": events}));
            assert_eq!((code, param.as_str()), ("invalid_value", "webhook_events"));
            assert_eq!(message, "webhook_events must be a list of these: video.completed, video.failed");
        }
        assert_eq!(refusal(json!({"webhook_events": ["video.failed"]})).1, "webhook_events");
        assert_eq!(terms(json!({})).unwrap().hook, None);
    }

    #[test]
    fn a_user_is_a_short_text() {
        let user = "\u{e4}".repeat(256);
        let told = terms(json!({"user": user, "return_stage_metrics": "true"})).unwrap().told;
        assert_eq!(told, Told { user: Some(user), stage_metrics: true });
        let (code, param, _) = refusal(json!({"user": "x".repeat(257)}));
        assert_eq!((code, param.as_str()), ("string_above_max_length", "user"));
        let (code, param, message) = refusal(json!({"extra_params": {"user": "x\0"}}));
        assert_eq!((code, param.as_str()), ("invalid_value", "extra_params.user"));
        assert_eq!(message, "extra_params.user must not hold the character U+0000");
        assert_eq!(refusal(json!({"return_stage_metrics": "maybe"})).1, "return_stage_metrics");
    }
}
