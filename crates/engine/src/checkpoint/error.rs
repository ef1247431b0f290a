//! Why a checkpoint could not be read.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use clapboard_h3::Partition;

use super::component::ComponentId;
use super::dtype::StoredDtype;
use super::inventory::TensorReport;
use crate::files::{FileError, FileProblem};

/// Why a checkpoint, one of its configs or one of its tensors was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file or folder.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// What was tried, such as `read`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file breaks a rule that holds for every file of its kind.
    #[error("cannot use {}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The rule.
        problem: FileProblem,
    },
    /// The given checkpoint path is a file.
    #[error("checkpoint path {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Neither released layout is in the directory.
    #[error("no MiniMax-H3 checkpoint in {}: {reason}", path.display())]
    UnknownLayout {
        /// The directory.
        path: PathBuf,
        /// What was looked for and what was there instead.
        reason: String,
    },
    /// The checkpoint needs a network that this engine does not have.
    #[error("checkpoint {} cannot be served: {reason}", path.display())]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What it needs.
        reason: String,
    },
    /// The checkpoint is good, but holds other partitions.
    #[error("checkpoint {} has no {partition} partition", root.display())]
    NoPartition {
        /// The checkpoint's root.
        root: PathBuf,
        /// The partition that was asked for.
        partition: Partition,
    },
    /// A component's folder or file is not there.
    #[error("{what} is missing: expected {}", path.display())]
    Missing {
        /// The component or file in words.
        what: String,
        /// Where it was expected.
        path: PathBuf,
    },
    /// A config file is not JSON.
    #[error("{} is not valid JSON", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where the parser stopped.
        source: serde_json::Error,
    },
    /// A config lacks keys, has wrong types or breaks a rule; all of them at once.
    #[error("config {}: {}", path.display(), Joined(problems))]
    Config {
        /// The file.
        path: PathBuf,
        /// Every problem found in it.
        problems: Vec<ConfigProblem>,
    },
    /// Configs of two components do not fit together; all contradictions at once.
    #[error("configs of {} contradict each other: {}", root.display(), problems.join("; "))]
    Contradiction {
        /// The checkpoint's root.
        root: PathBuf,
        /// Every contradiction, with both values.
        problems: Vec<String>,
    },
    /// A safetensors file is damaged.
    #[error("{}: {problem}", path.display())]
    Shard {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, naming the tensor where there is one.
        problem: ShardProblem,
    },
    /// A component's folder holds no weights.
    #[error("{component} holds no *.safetensors file in {}", path.display())]
    NoShards {
        /// The component.
        component: ComponentId,
        /// Its weight folder.
        path: PathBuf,
    },
    /// One tensor lies in two files of a component.
    #[error("tensor {tensor} of {component} is in two files: {} and {}", first.display(), second.display())]
    TwiceStored {
        /// The component.
        component: ComponentId,
        /// The tensor's stored name.
        tensor: String,
        /// One file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
    },
    /// A tensor that the network needs is not stored.
    #[error("{component} has no tensor {tensor}{}", Hint { stored, index_file })]
    NoTensor {
        /// The component.
        component: ComponentId,
        /// The canonical (original) name.
        tensor: String,
        /// The stored names that were looked for and are absent, where they differ from the canonical one.
        stored: Vec<String>,
        /// The file in which the weight index places it, if the index knows it.
        index_file: Option<String>,
    },
    /// A tensor has another shape than the network expects.
    #[error("tensor {tensor} of {component} has shape {actual:?}, expected {expected:?}")]
    WrongShape {
        /// The component.
        component: ComponentId,
        /// The canonical name, or the stored one when only that piece is wrong.
        tensor: String,
        /// The expected shape.
        expected: Vec<usize>,
        /// The stored shape.
        actual: Vec<usize>,
    },
    /// A tensor has another element type than the network can read.
    #[error("tensor {tensor} of {component} is {actual}, expected {}", Alternatives(expected))]
    WrongDtype {
        /// The component.
        component: ComponentId,
        /// The canonical name, or the stored one when only that piece is wrong.
        tensor: String,
        /// The element types that would do.
        expected: Vec<StoredDtype>,
        /// The stored element type.
        actual: StoredDtype,
    },
    /// A component's tensors do not match its config.
    #[error("weights of {component} do not match its config: {report}")]
    Unfit {
        /// The component.
        component: ComponentId,
        /// Every difference by name.
        report: Box<TensorReport>,
    },
}

impl Error {
    /// Names the file that could not be opened or read.
    pub(super) fn file(path: &Path) -> impl FnOnce(FileError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            FileError::Io { doing, source } => Self::Io { doing, path, source },
            FileError::Problem(problem) => Self::File { path, problem },
        }
    }
}

/// One thing wrong with a config file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigProblem {
    /// A required key is absent.
    Missing {
        /// The dotted key path.
        key: String,
    },
    /// A key holds a value of another type.
    WrongType {
        /// The dotted key path.
        key: String,
        /// What would do.
        expected: &'static str,
        /// The value found, shortened.
        found: String,
    },
    /// The values break a rule of the network.
    Rule(
        /// The rule and the values.
        String,
    ),
}

/// What is wrong with a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardProblem {
    /// The file is too short to hold even the header's length.
    #[error("the file has {length} bytes, a safetensors file has at least 10")]
    TooShort {
        /// The file's length.
        length: u64,
    },
    /// The header claims to reach past the end of the file.
    #[error("the header claims {header} bytes, the file has {length}")]
    HeaderTooLong {
        /// The claimed header length.
        header: u64,
        /// The file's length.
        length: u64,
    },
    /// The header is larger than any checkpoint's could be.
    #[error("the header claims {header} bytes, more than the allowed {limit}")]
    HeaderOverLimit {
        /// The claimed header length.
        header: u64,
        /// The limit.
        limit: u64,
    },
    /// The header is not a JSON object.
    #[error("the header is not valid JSON: {reason}")]
    BadHeader {
        /// Where the parser stopped.
        reason: String,
    },
    /// A tensor's header entry is malformed.
    #[error("the header entry of tensor {tensor} is malformed: {reason}")]
    BadEntry {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
    /// One tensor is listed twice in the header.
    #[error("tensor {tensor} is listed twice")]
    Twice {
        /// The tensor.
        tensor: String,
    },
    /// An element type that is not known.
    #[error("tensor {tensor} has the unknown element type {dtype:?}")]
    UnknownDtype {
        /// The tensor.
        tensor: String,
        /// The header's text.
        dtype: String,
    },
    /// Shape and byte range of a tensor disagree.
    #[error("tensor {tensor} of shape {shape:?} needs {needed} bytes, its range has {stored}")]
    SizeMismatch {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Bytes that the shape needs.
        needed: u64,
        /// Bytes in its range.
        stored: u64,
    },
    /// A shape whose byte size overflows.
    #[error("tensor {tensor} has the impossible shape {shape:?}")]
    ImpossibleShape {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// The file ends before a tensor's data.
    #[error("the file is truncated: tensor {tensor} ends at data byte {end}, the file has {available} data bytes")]
    Truncated {
        /// The tensor.
        tensor: String,
        /// Where its data ends.
        end: u64,
        /// How many data bytes there are.
        available: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first} and {second} overlap")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins inside it.
        second: String,
    },
    /// Bytes that belong to no tensor.
    #[error("{bytes} data bytes {place} belong to no tensor")]
    Unclaimed {
        /// How many.
        bytes: u64,
        /// Where, in words.
        place: String,
    },
    /// A tensor's data cannot be read in place.
    #[error("tensor {tensor} begins at file byte {offset}, which is not a multiple of its element size {size}")]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Where its data begins.
        offset: u64,
        /// The element size.
        size: usize,
    },
}

impl Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { key } => write!(f, "missing key {key}"),
            Self::WrongType { key, expected, found } => write!(f, "key {key} must be {expected}, found {found}"),
            Self::Rule(rule) => f.write_str(rule),
        }
    }
}

/// Joins problems with semicolons, the missing keys first as one list.
struct Joined<'a>(&'a [ConfigProblem]);

impl Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: Vec<&str> = self
            .0
            .iter()
            .filter_map(|problem| match problem {
                ConfigProblem::Missing { key } => Some(key.as_str()),
                ConfigProblem::WrongType { .. } | ConfigProblem::Rule(_) => None,
            })
            .collect();
        let mut separator = "";
        if !missing.is_empty() {
            write!(f, "missing keys: {}", missing.join(", "))?;
            separator = "; ";
        }
        for problem in self.0 {
            if !matches!(problem, ConfigProblem::Missing { .. }) {
                write!(f, "{separator}{problem}")?;
                separator = "; ";
            }
        }
        Ok(())
    }
}

/// Prints where a missing tensor was looked for.
struct Hint<'a> {
    stored: &'a [String],
    index_file: &'a Option<String>,
}

impl Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.stored.is_empty() {
            write!(f, " (stored as {})", self.stored.join(", "))?;
        }
        match self.index_file {
            Some(file) => write!(f, "; the weight index places it in {file}"),
            None => Ok(()),
        }
    }
}

/// Prints element types as `F32 or BF16`.
struct Alternatives<'a>(&'a [StoredDtype]);

impl Display for Alternatives<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dtype) in self.0.iter().enumerate() {
            write!(f, "{}{dtype}", if i == 0 { "" } else { " or " })?;
        }
        Ok(())
    }
}
