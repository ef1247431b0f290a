//! The HTTP side of Clapboard: routes, parsing, the one error body and the OpenAPI document.
//!
//! A request to make a video takes the same steps whatever route it comes by and however it is encoded:
//!
//! 1. `auth` finds out whose it is and whether its key is good for that, and `limits` whether it comes too often;
//! 2. `body` decodes multipart, urlencoded or JSON into one tree of fields, within a byte limit, and files into the spool;
//! 3. `fields` refuses what is documented but not built and reads the rest into a
//!    [`VideoRequest`](clapboard_h3::VideoRequest) and its references;
//! 4. `media` brings those together, by way of `fetch` where they are URLs, and looks into each;
//! 5. the rules of `clapboard-h3` resolve it, or name the field that breaks one;
//! 6. `submission` knows a request again that comes twice, and `admission` stores the media, commits the job's row, and only then hints at it to the dispatcher, through `hints`;
//! 7. the handlers in `videos` answer, from the row alone.
//!
//! Every answer that is not a success has the same shape, [`ErrorBody`], with a code of [`ErrorCode`]; also those that no
//! handler makes (unknown routes, wrong methods, panics), which `edge` sees to.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod admission;
mod app;
mod auth;
mod body;
mod client;
mod docs;
mod edge;
mod error;
mod error_code;
mod fetch;
mod fields;
mod health;
mod hints;
mod limits;
mod media;
mod models;
mod openapi;
mod options;
mod plain_url;
mod query;
mod readiness;
mod server;
mod streams;
mod submission;
mod unique_json;
mod unsupported;
mod videos;
mod webhooks;

pub use app::{AppState, router};
pub use auth::Auth;
pub use clapboard_outbound::{AllowedHost, InvalidHost};
pub use error::{ApiError, ErrorBody, ErrorObject};
pub use error_code::ErrorCode;
pub use models::{Model, ModelList};
pub use openapi::document;
pub use options::{InvalidOptions, Options};
pub use query::Page;
pub use readiness::{Readiness, ServiceState};
pub use server::serve;
pub use videos::{
    AudioUrl, CreateVideo, DeletedVideo, ExpiresAfter, ImageUrl, InputReference, OneOrMore, PictureFile, PlaceInQueue,
    ReferenceFile, RemixVideo, StageMetrics, Video, VideoError, VideoEvents, VideoFile, VideoStatus, VideoUrl,
};
