//! What computes: the settings of every command that has an engine.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_engine::Device;
use clapboard_engine::ops::cuda::{AttentionChoice, open_libraries_in};

/// Settings of the device.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// What computes: auto takes the first GPU that can be used, otherwise the processor
    #[arg(long, env = "CLAPBOARD_DEVICE", value_name = "auto|cpu|cuda:N", default_value = "auto")]
    device: Device,
    /// What computes attention in 16-bit types on a GPU: auto takes cuDNN where it has a plan
    #[arg(long, env = "CLAPBOARD_ATTENTION", value_name = "NAME", default_value = "auto", value_parser = attention())]
    attention: AttentionChoice,
    /// A folder of NVIDIA's libraries, for machines that have the driver alone; scripts/install-gpu-libs fills it
    #[arg(long, env = "CLAPBOARD_GPU_LIBRARIES", value_name = "DIR", default_value = "data/gpu-libraries")]
    gpu_libraries: PathBuf,
}

impl DeviceArgs {
    /// Makes the libraries of the folder known to this process, unless it computes on the processor, and returns what
    /// computes, and what computes attention on a GPU.
    pub(crate) fn prepared(&self) -> (Device, AttentionChoice) {
        if self.device != Device::Cpu {
            let opened = open_libraries_in(&self.gpu_libraries);
            if !opened.is_empty() {
                tracing::info!(folder = %self.gpu_libraries.display(), ?opened, "libraries for the GPU");
            }
        }
        (self.device, self.attention)
    }
}

fn attention() -> impl TypedValueParser<Value = AttentionChoice> {
    PossibleValuesParser::new(["auto", "cudnn", "native"]).map(|name| match name.as_str() {
        "cudnn" => AttentionChoice::Cudnn,
        "native" => AttentionChoice::Native,
        _ => AttentionChoice::Auto,
    })
}
