//! Which transformer weights are served.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clapboard_h3::Partition;

/// The transformer weights that a service serves.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct PartitionArgs {
    /// Which transformer weights to serve, separated by commas: fl2va for t2va and fl2va, ref2va for ref2va. Of two, one is
    /// loaded at a time, and changed between jobs
    #[arg(long, env = "CLAPBOARD_PARTITION", value_name = "PARTITIONS", value_delimiter = ',', default_value = "fl2va",
          value_parser = partition())]
    partition: Vec<Partition>,
}

impl PartitionArgs {
    /// Returns the partitions, each once.
    pub(crate) fn partitions(&self) -> Vec<Partition> {
        let mut partitions = Vec::new();
        for partition in &self.partition {
            if !partitions.contains(partition) {
                partitions.push(*partition);
            }
        }
        partitions
    }
}

/// Reads the name of a partition.
pub(crate) fn partition() -> impl TypedValueParser<Value = Partition> {
    PossibleValuesParser::new(Partition::ALL.map(Partition::as_str)).try_map(|name| name.parse::<Partition>())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        partitions: PartitionArgs,
    }

    #[test]
    fn each_partition_counts_once_and_the_first_named_comes_first() {
        let partitions =
            |text: &str| Cli::try_parse_from(["serve", "--partition", text]).unwrap().partitions.partitions();
        assert_eq!(partitions("ref2va"), [Partition::Ref2va]);
        assert_eq!(partitions("ref2va,fl2va,ref2va"), [Partition::Ref2va, Partition::Fl2va]);
        assert!(Cli::try_parse_from(["serve", "--partition", "both"]).is_err());
    }
}
