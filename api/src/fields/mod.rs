//! From a tree of fields to a request of the model.
//!
//! Every field is either read ([`request`], [`references`]), refused because it is documented and not built ([`unbuilt`]), or left over and
//! then reported to the client as ignored.

mod layers;
mod place;
mod references;
mod request;
mod unbuilt;
mod value;

pub(crate) use place::Place;
pub(crate) use references::{Reference, Source};
pub(crate) use request::read;

#[cfg(test)]
mod tests;
