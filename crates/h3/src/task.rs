//! The three tasks, and the two sets of transformer weights that serve them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a request asks the model to start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Video and sound from text alone.
    T2va,
    /// Video and sound from text and one or two keyframes.
    Fl2va,
    /// Video and sound from text and reference images, videos and sounds.
    Ref2va,
}

impl Task {
    /// Holds every task, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::T2va, Self::Fl2va, Self::Ref2va];

    /// Returns the name that requests use: `t2va`, `fl2va` or `ref2va`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::T2va => "t2va",
            Self::Fl2va => "fl2va",
            Self::Ref2va => "ref2va",
        }
    }

    /// Returns the transformer weights that serve the task.
    pub fn partition(self) -> Partition {
        match self {
            Self::T2va | Self::Fl2va => Partition::Fl2va,
            Self::Ref2va => Partition::Ref2va,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Task {
    type Err = UnknownTask;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|task| task.as_str() == name).ok_or_else(|| UnknownTask(name.to_owned()))
    }
}

/// Says that a name belongs to no task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task must be one of t2va, fl2va, ref2va, got {0:?}")]
pub struct UnknownTask(pub String);

/// One of the two released sets of transformer weights; everything else in a checkpoint is common to both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partition {
    /// Serves [`Task::T2va`] and [`Task::Fl2va`].
    Fl2va,
    /// Serves [`Task::Ref2va`].
    Ref2va,
}

impl Partition {
    /// Holds both partitions.
    pub const ALL: [Self; 2] = [Self::Fl2va, Self::Ref2va];

    /// Returns the name that settings and specs use: `fl2va` or `ref2va`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fl2va => "fl2va",
            Self::Ref2va => "ref2va",
        }
    }

    /// Lists the tasks that these weights serve.
    pub fn tasks(self) -> &'static [Task] {
        match self {
            Self::Fl2va => &[Task::T2va, Task::Fl2va],
            Self::Ref2va => &[Task::Ref2va],
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Partition {
    type Err = UnknownPartition;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|partition| partition.as_str() == name)
            .ok_or_else(|| UnknownPartition(name.to_owned()))
    }
}

/// Says that a name belongs to no partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partition must be one of fl2va, ref2va, got {0:?}")]
pub struct UnknownPartition(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_through_text_and_json() {
        for task in Task::ALL {
            assert_eq!(task.as_str().parse::<Task>().unwrap(), task);
            assert_eq!(serde_json::to_string(&task).unwrap(), format!("\"{task}\""));
        }
        for partition in Partition::ALL {
            assert_eq!(partition.as_str().parse::<Partition>().unwrap(), partition);
        }
    }

    #[test]
    fn every_task_is_served_by_exactly_its_partition() {
        for task in Task::ALL {
            for partition in Partition::ALL {
                assert_eq!(partition.tasks().contains(&task), task.partition() == partition);
            }
        }
    }

    #[test]
    fn unknown_names_list_the_known_ones() {
        assert_eq!(
            "i2v".parse::<Task>().unwrap_err().to_string(),
            "task must be one of t2va, fl2va, ref2va, got \"i2v\""
        );
        assert_eq!(
            "FL2VA".parse::<Partition>().unwrap_err().to_string(),
            "partition must be one of fl2va, ref2va, got \"FL2VA\""
        );
    }
}
