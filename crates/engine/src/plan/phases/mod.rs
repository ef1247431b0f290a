//! The phases one by one: what each brings in and computes in.

mod decode;
mod encode;
mod transformer;

pub(super) use transformer::TransformerShape;
