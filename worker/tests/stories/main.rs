//! What becomes of jobs, told with the real store, dispatcher, media store and ffmpeg, and a scripted engine;
//! the last of them with the real one.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod adoptions;
mod ahead;
mod blobs;
mod claims;
mod completes;
mod drains;
mod faults;
mod gpus;
mod house;
mod inputs;
mod leases;
mod logs;
mod previews;
mod real;
mod resumes;
mod scripted;
mod stops;
mod uploads;
mod weights;
