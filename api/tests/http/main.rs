//! The HTTP side as its clients see it, over a real store, dispatcher and media store, with a scripted worker.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod app;
mod auth;
mod capacity;
mod connections;
mod content;
mod edge;
mod encodings;
mod fetches;
mod lifecycle;
mod list;
mod media;
mod models;
mod openapi;
mod outages;
mod references;
mod refusals;
mod slow;
mod storing;
mod sync;
mod uploads;
mod worker;
