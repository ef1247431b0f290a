//! From a tree of fields to a request of the model.
//!
//! Every field is either read ([`request`], [`references`], [`terms`], [`remix`]), refused because it is documented and not built ([`unbuilt`]), or left over and
//! then reported to the client as ignored.

mod layers;
mod place;
mod references;
mod remix;
mod request;
mod terms;
mod unbuilt;
mod value;

pub(crate) use layers::{Found, is_absent};
pub(crate) use place::Place;
pub(crate) use references::{Reference, Source};
pub(crate) use remix::{RemixRequest, read as read_remix};
pub(crate) use request::read;
pub(crate) use terms::{Hook, Terms, checked_metadata, notices};
pub(crate) use value::check_no_nul;

#[cfg(test)]
mod tests;
