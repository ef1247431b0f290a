//! The actors of the stories: a service, its client, and the files they leave.

mod collector;
mod files;
mod http;
mod media;
mod receiver;
mod service;
mod wait;

pub(crate) use collector::{Collector, Traced};
pub(crate) use files::{assert_video, files_below, tiny_checkpoint};
pub(crate) use http::{Body, Reply, send};
pub(crate) use media::Media;
pub(crate) use receiver::Receiver;
pub(crate) use service::{Service, clapboard};
pub(crate) use wait::{until, until_not};

/// A long job on the largest tiny canvas: two hundred sigma points, so that it can be caught in its middle.
pub(crate) fn long_job() -> serde_json::Value {
    serde_json::json!({
        "prompt": "A lighthouse in a storm, waves break over the rocks",
        "size": "96x64",
        "num_frames": 56,
        "num_inference_steps": 200,
        "seed": 7,
    })
}

/// A job that ends soon.
pub(crate) fn short_job() -> serde_json::Value {
    serde_json::json!({
        "prompt": "A paper boat on a pond",
        "size": "64x32",
        "num_frames": 22,
        "num_inference_steps": 3,
        "seed": 7,
    })
}
