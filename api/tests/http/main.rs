//! The HTTP side as its clients see it, over a real store, dispatcher and media store, with a scripted worker.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod app;
mod auth;
mod boundaries;
mod cancel;
mod capacity;
mod connections;
mod content;
mod edge;
mod encodings;
mod events;
mod fetches;
mod fuzz;
mod idempotency;
mod lifecycle;
mod limits;
mod list;
mod media;
mod metadata;
mod models;
mod openapi;
mod outages;
mod references;
mod refusals;
mod remix;
mod slow;
mod storing;
mod sync;
mod uploads;
mod variants;
mod warnings;
mod webhooks;
mod worker;
