//! HTTP requests to where clients say, which never go where they may not.
//!
//! A URL may name a machine that this one can reach and its sender cannot. So every host is resolved here, every address
//! that it has must be one of the public internet (`address`), and the connection goes to those addresses and not to the
//! name again, which may by now mean another. Ports of other services are not connected to, and where a [`Client`] may
//! speak only https, it does. Each [`Client::send`] is one request on a connection of its own: no redirect is followed, no
//! cookie and no password is sent, nothing is unpacked, and no more is read than is asked for.
//!
//! Hosts that the operator names, each an [`AllowedHost`], may be anywhere.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod address;
mod client;
mod error;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod head_limit;
mod hosts;
mod net;
mod request;
mod rules;
mod tls;

pub use client::Client;
pub use error::{Cause, Error, Failed, Forbidden};
pub use hosts::{AllowedHost, InvalidHost};
pub use net::Net;
pub use request::{Answer, Body, Method, Request};
pub use rules::{LEAST_HIGH_PORT, Rules};
pub use tls::Tls;
