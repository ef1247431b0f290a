//! What computes: the settings of every command that has an engine.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_engine::Device;
use clapboard_engine::ops::cuda::{AttentionChoice, open_libraries_in};

/// Settings of the device.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// What computes: auto takes the first GPU, and the processor only where there is none
    #[arg(long, env = "CLAPBOARD_DEVICE", value_name = "auto|cpu|cuda:N", default_value = "auto")]
    device: Device,
    /// What computes attention in 16-bit types on a GPU: auto takes cuDNN where it has a plan, cudnn fails where it has none
    #[arg(long, env = "CLAPBOARD_ATTENTION", value_name = "NAME", default_value = "auto", value_parser = attention())]
    attention: AttentionChoice,
    /// A folder of NVIDIA's libraries, for machines that have the driver alone; scripts/install-gpu-libs fills it [default:
    /// gpu-libraries below the data directory, without one below ./data]
    #[arg(long, env = "CLAPBOARD_GPU_LIBRARIES", value_name = "DIR")]
    gpu_libraries: Option<PathBuf>,
}

/// What the folder of libraries is called where none is named.
const LIBRARIES: &str = "gpu-libraries";

impl DeviceArgs {
    /// Looks for the folder of libraries below the data directory, unless one was named.
    pub(crate) fn set_data(&mut self, data: &Path) {
        self.gpu_libraries.get_or_insert_with(|| data.join(LIBRARIES));
    }

    /// Makes the libraries of the folder known to this process, unless it computes on the processor, and returns what
    /// computes, and what computes attention on a GPU.
    pub(crate) fn prepared(&self) -> (Device, AttentionChoice) {
        if self.device != Device::Cpu {
            let folder = self.libraries();
            let opened = open_libraries_in(&folder);
            if !opened.is_empty() {
                tracing::info!(folder = %folder.display(), ?opened, "libraries for the GPU");
            }
        }
        (self.device, self.attention)
    }

    fn libraries(&self) -> PathBuf {
        self.gpu_libraries.clone().unwrap_or_else(|| Path::new("data").join(LIBRARIES))
    }
}

fn attention() -> impl TypedValueParser<Value = AttentionChoice> {
    PossibleValuesParser::new(["auto", "cudnn", "native"]).map(|name| match name.as_str() {
        "cudnn" => AttentionChoice::Cudnn,
        "native" => AttentionChoice::Native,
        _ => AttentionChoice::Auto,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: DeviceArgs,
    }

    #[test]
    fn libraries_are_looked_for_below_the_data_directory_unless_a_folder_is_named() {
        let parsed = |words: &[&str]| Cli::try_parse_from([&["clapboard"], words].concat()).unwrap().args;
        let mut args = parsed(&[]);
        assert_eq!(args.libraries(), Path::new("data/gpu-libraries"));
        args.set_data(Path::new("/srv/films"));
        assert_eq!(args.libraries(), Path::new("/srv/films/gpu-libraries"));
        let mut named = parsed(&["--gpu-libraries", "/opt/gpu"]);
        named.set_data(Path::new("/srv/films"));
        assert_eq!(named.libraries(), Path::new("/opt/gpu"));
    }
}
