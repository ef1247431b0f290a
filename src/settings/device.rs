//! What computes: the settings of every command that has an engine.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_engine::Device;
use clapboard_engine::ops::cuda::AttentionChoice;

/// Settings of the device.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// What computes: auto takes the first GPU that can be used, otherwise the processor
    #[arg(long, env = "CLAPBOARD_DEVICE", value_name = "auto|cpu|cuda:N", default_value = "auto")]
    pub(crate) device: Device,
    /// What computes attention in 16-bit types on a GPU: auto takes cuDNN where it has a plan
    #[arg(long, env = "CLAPBOARD_ATTENTION", value_name = "NAME", default_value = "auto", value_parser = attention())]
    pub(crate) attention: AttentionChoice,
}

fn attention() -> impl TypedValueParser<Value = AttentionChoice> {
    PossibleValuesParser::new(["auto", "cudnn", "native"]).map(|name| match name.as_str() {
        "cudnn" => AttentionChoice::Cudnn,
        "native" => AttentionChoice::Native,
        _ => AttentionChoice::Auto,
    })
}
