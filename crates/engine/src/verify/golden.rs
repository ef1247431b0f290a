//! Golden files.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use crate::LoadError;
use crate::checkpoint::{self, tiny};
use crate::files::{self, FileError, GOLDEN_LIMIT, TABLE_LIMIT};

/// Why verification could not be carried out; a stage that differs is not an error but a failed line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the golden folder cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file of the golden folder is not what it should be.
    #[error("{path} is not a golden file: {problem}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No case has the name that was asked for.
    #[error("there is no case {name}; there are {}", cases.join(", "))]
    NoSuchCase {
        /// The name asked for.
        name: String,
        /// The names there are.
        cases: Vec<String>,
    },
    /// The folder's checkpoint cannot be written.
    #[error("cannot write the golden checkpoint")]
    Checkpoint(#[from] tiny::Error),
    /// The folder's checkpoint cannot be opened.
    #[error("cannot open the golden checkpoint")]
    Open(#[from] checkpoint::Error),
    /// The folder's checkpoint cannot be loaded.
    #[error("cannot load the golden checkpoint")]
    Load(#[from] LoadError),
    /// There is nothing that operations could be compared with: only the processor computes.
    #[error("there is no GPU whose operations could be compared with the processor's: name one with --device cuda:N")]
    NoGpu,
    /// The engine failed on a case.
    #[error("case {case} did not run")]
    Run {
        /// The case.
        case: String,
        /// What the engine said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The values of a golden tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    /// F32, BF16 or F16, widened.
    Float(Vec<f32>),
    /// F64.
    Double(Vec<f64>),
    /// I64 or I16, widened.
    Integer(Vec<i64>),
    /// U8.
    Byte(Vec<u8>),
}

/// One golden file, which remembers what was asked of it.
#[derive(Debug)]
pub(super) struct GoldenFile {
    path: PathBuf,
    tensors: BTreeMap<String, (Vec<usize>, Values)>,
    metadata: BTreeMap<String, String>,
    reached: RefCell<BTreeSet<String>>,
}

impl GoldenFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let bytes = read(&path, GOLDEN_LIMIT)?;
        let malformed = |problem: String| Error::Malformed { path: path.clone(), problem };
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| malformed(error.to_string()))?;
        let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let file = SafeTensors::deserialize(&bytes).map_err(|error| malformed(error.to_string()))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let values = values(view.dtype(), view.data())
                .ok_or_else(|| malformed(format!("{name} has element type {:?}", view.dtype())))?;
            tensors.insert(name, (view.shape().to_vec(), values));
        }
        Ok(Self { path, tensors, metadata, reached: RefCell::default() })
    }

    /// Returns the tensor of that name, which counts as reached.
    pub(super) fn find(&self, name: &str) -> Option<&Values> {
        Some(self.find_shaped(name)?.1)
    }

    /// Returns the same, with its shape.
    pub(super) fn find_shaped(&self, name: &str) -> Option<(&[usize], &Values)> {
        let (shape, values) = self.tensors.get(name)?;
        self.reached.borrow_mut().insert(name.to_owned());
        Some((shape, values))
    }

    /// Floats of a tensor that has to be there, with its shape.
    pub(super) fn floats(&self, name: &str) -> Result<(&[usize], &[f32]), Error> {
        self.find(name);
        match self.tensors.get(name) {
            Some((shape, Values::Float(values))) => Ok((shape, values)),
            _ => Err(self.malformed(format!("it lacks the floats {name}"))),
        }
    }

    /// Integers of a tensor that has to be there.
    pub(super) fn integers(&self, name: &str) -> Result<&[i64], Error> {
        match self.find(name) {
            Some(Values::Integer(values)) => Ok(values),
            _ => Err(self.malformed(format!("it lacks the integers {name}"))),
        }
    }

    /// Bytes of a tensor that has to be there, with its shape.
    pub(super) fn bytes(&self, name: &str) -> Result<(&[usize], &[u8]), Error> {
        match self.find_shaped(name) {
            Some((shape, Values::Byte(values))) => Ok((shape, values)),
            _ => Err(self.malformed(format!("it lacks the bytes {name}"))),
        }
    }

    /// A value of the file's metadata.
    pub(super) fn metadata(&self, key: &str) -> Result<&str, Error> {
        match self.metadata.get(key) {
            Some(value) => Ok(value),
            None => Err(self.malformed(format!("its metadata lacks {key}"))),
        }
    }

    /// Every tensor's name.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Names that nothing asked for.
    pub(super) fn unreached(&self) -> Vec<&str> {
        let reached = self.reached.borrow();
        self.names().filter(|name| !reached.contains(*name)).collect()
    }

    pub(super) fn malformed(&self, problem: String) -> Error {
        Error::Malformed { path: self.path.clone(), problem }
    }
}

fn values(dtype: Dtype, bytes: &[u8]) -> Option<Values> {
    let pairs = || bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
    Some(match dtype {
        Dtype::F32 => {
            Values::Float(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
        }
        Dtype::BF16 => Values::Float(pairs().map(|b| bf16::from_le_bytes(b).to_f32()).collect()),
        Dtype::F16 => Values::Float(pairs().map(|b| f16::from_le_bytes(b).to_f32()).collect()),
        Dtype::F64 => Values::Double(bytes.chunks_exact(8).map(|b| f64::from_le_bytes(eight(b))).collect()),
        Dtype::I64 => Values::Integer(bytes.chunks_exact(8).map(|b| i64::from_le_bytes(eight(b))).collect()),
        Dtype::I16 => Values::Integer(pairs().map(|b| i64::from(i16::from_le_bytes(b))).collect()),
        Dtype::U8 => Values::Byte(bytes.to_vec()),
        _ => return None,
    })
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes.try_into().expect("chunks of eight have eight bytes")
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let named = path.to_owned();
    files::read(path, limit).map_err(|error| match error {
        FileError::Io { source, .. } => Error::Read { path: named, source },
        FileError::Problem(problem) => Error::Malformed { path: named, problem: problem.to_string() },
    })
}

/// Reads a JSON file of the golden folder.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = read(path, TABLE_LIMIT)?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::Malformed { path: path.to_owned(), problem: error.to_string() })
}
