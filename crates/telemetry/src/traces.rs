//! The spans of a job's way, from its request through the queue to its webhook, and where they are sent.
//!
//! ```text
//! POST /v1/videos                server, child of the client's span
//!   send fl2va                   producer: the job's row is written, with this span's context in it
//!     process fl2va              consumer: the first attempt; a later one begins a trace of its own that links here
//!       prepare, text_encode, encode_inputs, denoise, decode_audio, decode_video, encode, upload
//!     webhook                    client: one try of one delivery
//! ```
//!
//! Each has a handful of attributes, named after OpenTelemetry's conventions for HTTP and messaging; none holds anything that a
//! client wrote.

mod client;
mod export;
mod spans;

pub(crate) use export::BoxedLayer;
pub use export::{Exporting, Traces};
pub use spans::{Attempt, Try, fail, parent_of, process, request, send, stage, status, step, tried};

/// The target of every span that is for traces: nothing else has it, and no log line shows such a span.
pub(crate) const TARGET: &str = "clapboard_trace";

#[cfg(test)]
mod tests;
