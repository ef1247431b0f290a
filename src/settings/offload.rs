//! What leaves the device while it is not computed with, and how much memory the rest may take.

use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_engine::{MemoryBudgets, Placement};

use super::residency::ResidencyArgs;

/// Settings of where weights live.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Memory")]
pub(crate) struct OffloadArgs {
    /// What leaves the device while it is not computed with: nothing, each network, or also the layers of the text encoder
    /// and the transformer, which then stream to it. Changes no result
    #[arg(long, env = "CLAPBOARD_OFFLOAD", value_name = "WHAT", default_value = "none", value_parser = offload())]
    offload: Offload,
    #[command(flatten)]
    residency: ResidencyArgs,
}

/// What leaves the device while it is not computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offload {
    None,
    Module,
    Layer,
}

impl OffloadArgs {
    /// Checks what leaves the device against what stays.
    ///
    /// Errors: a sentence about the setting that needs another.
    pub(crate) fn placement(&self) -> anyhow::Result<Placement> {
        let ResidencyArgs { hbm_budget, host_budget, resident_layers } = self.residency;
        if self.offload == Offload::Layer {
            return Ok(Placement::Layers { resident: resident_layers.unwrap_or_default() });
        }
        for (name, is_given) in [
            ("--resident-layers", resident_layers.is_some()),
            ("--hbm-budget", hbm_budget.is_some()),
            ("--host-budget", host_budget.is_some()),
        ] {
            if is_given {
                bail!("{name} needs --offload layer: without it every layer of the transformer stays on the device");
            }
        }
        Ok(if self.offload == Offload::Module { Placement::Modules } else { Placement::Resident })
    }

    /// Returns the memory that weights may take.
    pub(crate) fn budgets(&self) -> MemoryBudgets {
        MemoryBudgets { hbm_bytes: self.residency.hbm_budget, host_bytes: self.residency.host_budget }
    }
}

fn offload() -> impl TypedValueParser<Value = Offload> {
    PossibleValuesParser::new(["none", "module", "layer"]).map(|name| match name.as_str() {
        "module" => Offload::Module,
        "layer" => Offload::Layer,
        _ => Offload::None,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clapboard_engine::ResidentLayers;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        offload: OffloadArgs,
    }

    fn parsed(line: &[&str]) -> Result<OffloadArgs, clap::Error> {
        Ok(Line::try_parse_from([&["clapboard"], line].concat())?.offload)
    }

    #[test]
    fn what_is_offloaded_decides_what_may_stay() {
        let placement = |line: &[&str]| parsed(line).unwrap().placement();
        assert_eq!(placement(&[]).unwrap(), Placement::Resident);
        assert_eq!(placement(&["--offload", "module"]).unwrap(), Placement::Modules);
        let layers = |resident| Placement::Layers { resident };
        assert_eq!(placement(&["--offload", "layer"]).unwrap(), layers(ResidentLayers::Auto));
        let some = placement(&["--offload", "layer", "--resident-layers", "12"]).unwrap();
        assert_eq!(some, layers(ResidentLayers::Fixed(12)));
        for offload in ["none", "module"] {
            for (name, value) in [("--resident-layers", "12"), ("--hbm-budget", "8GiB"), ("--host-budget", "64GiB")] {
                let refused = placement(&["--offload", offload, name, value]).unwrap_err().to_string();
                assert!(refused.starts_with(&format!("{name} needs --offload layer")), "{refused}");
            }
        }
        assert!(parsed(&["--offload", "layers"]).is_err());
    }

    #[test]
    fn budgets_are_bytes() {
        let args = parsed(&["--offload", "layer", "--hbm-budget", "8GiB", "--host-budget", "64GB"]).unwrap();
        let budgets = MemoryBudgets { hbm_bytes: Some(8 << 30), host_bytes: Some(64_000_000_000) };
        assert_eq!(args.budgets(), budgets);
    }
}
