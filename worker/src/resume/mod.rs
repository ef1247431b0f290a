//! Denoising states: storing them, and beginning at one.

pub(crate) mod start;
pub(crate) mod states;
