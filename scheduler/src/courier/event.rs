//! What a delivery says.

use clapboard_jobs::Due;
use serde::Serialize;

/// An event, in the shape of OpenAI's.
#[derive(Serialize)]
struct Event {
    id: String,
    object: &'static str,
    created_at: i64,
    #[serde(rename = "type")]
    kind: &'static str,
    data: Data,
}

#[derive(Serialize)]
struct Data {
    id: String,
    object: &'static str,
}

/// Returns the bytes of a delivery's event, the same at every try.
pub(crate) fn body(due: &Due) -> Vec<u8> {
    let event = Event {
        id: due.id.to_string(),
        object: "event",
        created_at: due.created_at.unix_seconds(),
        kind: due.notice.as_str(),
        data: Data { id: due.job.to_string(), object: "video" },
    };
    serde_json::to_vec(&event).expect("texts and numbers are JSON")
}
