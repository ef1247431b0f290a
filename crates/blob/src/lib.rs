//! Media stores: where finished videos and denoising states lie, in a folder ([`DiskBlob`]) or on an S3 server
//! ([`S3Blob`]).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod disk;
mod hash;
mod s3;
mod ticks;

pub use disk::{DiskBlob, OpenError};
pub use s3::{
    Capabilities, Capability, ConditionalPut, InvalidOption, OpenError as S3OpenError, S3Blob, S3Options, Sse,
};
