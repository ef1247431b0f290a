//! One try of one delivery.

use std::time::{Duration, SystemTime};

use clapboard_jobs::{Causes, Clock, Due, Micros, SystemClock, Tried};
use clapboard_outbound::{Answer, Client, Error, Request};
use tokio::time::timeout;
use url::Url;

use super::event;
use super::signature::sign;

/// How much of an answer's body is read, so that its sender is not cut off in the middle; nothing of it is kept.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// How long that may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// How long a delivery waits that could not be sent from here.
const REST_AFTER_FAULT: Duration = Duration::from_secs(60);
/// How long after the end of its job a delivery waits for this machine, uncounted. It cannot always be told whose fault it is
/// that a name is not resolved, so a receiver whose name never is counts as one that fails after that.
const FAULT_PATIENCE: Duration = Duration::from_secs(3 * 24 * 3600);

/// Sends a delivery once and classes what comes of it, within `limit` until the head of the answer. It was taken at `taken_at`,
/// by the store's clock.
pub(crate) async fn attempt(client: &Client, due: &Due, taken_at: Micros, limit: Duration) -> Tried {
    let failed = |error: String| Tried::Failed { status: None, error, after: None };
    let Ok(url) = Url::parse(&due.url) else {
        return failed("its URL is none".to_owned());
    };
    match timeout(limit, client.send(request(due, &url))).await {
        Err(_) => failed(format!("no answer came within {limit:?}")),
        Ok(Err(error)) => {
            let Error::Machine { .. } = &error else {
                return failed(error.to_string());
            };
            tracing::warn!(delivery.id = %due.id, error = %Causes(&error), "a webhook could not be sent from here");
            // A sample has one try, and somebody waits to hear of it.
            if !due.is_test && taken_at.since(due.created_at) < FAULT_PATIENCE {
                Tried::Postponed { after: REST_AFTER_FAULT }
            } else {
                failed(error.to_string())
            }
        }
        Ok(Ok(answer)) => {
            let tried = class(&answer);
            let _ = timeout(ANSWER_PATIENCE, answer.body.discard(MAX_ANSWER_BYTES)).await;
            tried
        }
    }
}

/// Signs what is sent, with the time of this try.
fn request<'a>(due: &Due, url: &'a Url) -> Request<'a> {
    let (id, body) = (due.id.to_string(), event::body(due));
    // A receiver refuses what is minutes old: each try has its own time.
    let timestamp = SystemClock.now().unix_seconds();
    let signature = sign(&due.secrets, &id, timestamp, &body);
    let request = Request::post(url, "application/json", body)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp.to_string())
        .header("webhook-signature", signature);
    match &due.trace {
        Some(trace) => request.header("traceparent", trace.as_str()),
        None => request,
    }
}

fn class(answer: &Answer) -> Tried {
    let status = answer.status.as_u16();
    match status {
        200..=299 => Tried::Delivered { status },
        410 => Tried::Gone { status },
        _ => {
            let error = match status {
                300..=399 => format!("the receiver answered with a redirect, status {status}, which is not followed"),
                _ => format!("the receiver answered with status {status}"),
            };
            let asked = answer.headers.get("retry-after").and_then(|value| value.to_str().ok());
            let after = asked.and_then(|text| retry_after(text, SystemTime::now()));
            Tried::Failed { status: Some(status), error, after }
        }
    }
}

/// Reads a `Retry-After`: seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is longer than anybody waits.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_by_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
        for (text, expected) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(u64::from(u32::MAX))),
            (date.as_str(), Some(90)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", None),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now), expected.map(Duration::from_secs), "{text:?}");
        }
    }
}
