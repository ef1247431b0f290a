//! The differences between stored and expected tensors.

use std::fmt::{self, Display};

use serde::Serialize;

use super::super::component::ComponentId;
use super::super::dtype::StoredDtype;
use super::super::error::Error;

/// Every difference between what a component stores and what its config asks for. Names are as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TensorReport {
    /// Needed, but not stored.
    pub missing: Vec<String>,
    /// Stored for a part that the config does not count: one of the two is wrong, and the values would be left out.
    pub beyond_config: Vec<BeyondConfig>,
    /// Stored, but not known: left alone.
    pub unknown: Vec<String>,
    /// Stored in another shape.
    pub wrong_shape: Vec<ShapeMismatch>,
    /// Stored in another element type.
    pub wrong_dtype: Vec<DtypeMismatch>,
}

/// A tensor of a block, layer or stage past the last one that the config asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BeyondConfig {
    /// The stored name.
    pub tensor: String,
    /// The stored name of the list that it belongs to.
    pub list: String,
    /// How many entries of the list the config asks for.
    pub count: u64,
}

/// A tensor of unexpected shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShapeMismatch {
    /// The stored name.
    pub tensor: String,
    /// The shape that the config asks for.
    pub expected: Vec<usize>,
    /// The stored shape.
    pub actual: Vec<usize>,
}

/// A tensor of unexpected element type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DtypeMismatch {
    /// The stored name.
    pub tensor: String,
    /// The element type of the release.
    pub expected: StoredDtype,
    /// The stored element type.
    pub actual: StoredDtype,
}

impl TensorReport {
    /// Tells whether the component can be used. Unknown tensors do no harm.
    pub fn is_usable(&self) -> bool {
        let fits = self.missing.is_empty() && self.wrong_shape.is_empty() && self.wrong_dtype.is_empty();
        fits && self.beyond_config.is_empty()
    }

    /// Turns differences that make a component unusable into an error.
    ///
    /// Errors: [`Error::Unfit`] with the whole report.
    pub fn into_result(self, component: ComponentId) -> Result<(), Error> {
        if self.is_usable() {
            return Ok(());
        }
        Err(Error::Unfit { component, report: Box::new(self) })
    }

    /// Returns one line for each difference.
    pub fn lines(&self) -> Vec<String> {
        let missing = self.missing.iter().map(|name| format!("missing {name}"));
        let shapes = self.wrong_shape.iter().map(|mismatch| {
            format!("{} has shape {:?}, expected {:?}", mismatch.tensor, mismatch.actual, mismatch.expected)
        });
        let dtypes = self
            .wrong_dtype
            .iter()
            .map(|mismatch| format!("{} is {}, expected {}", mismatch.tensor, mismatch.actual, mismatch.expected));
        let beyond = self
            .beyond_config
            .iter()
            .map(|beyond| format!("{} is stored, the config has {} {}", beyond.tensor, beyond.count, beyond.list));
        let unknown = self.unknown.iter().map(|name| format!("unknown {name}"));
        missing.chain(shapes).chain(dtypes).chain(beyond).chain(unknown).collect()
    }
}

/// Shows the first differences and how many more there are.
impl Display for TensorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let lines = self.lines();
        f.write_str(&lines[..lines.len().min(SHOWN)].join("; "))?;
        if lines.len() > SHOWN {
            write!(f, "; and {} more", lines.len() - SHOWN)?;
        }
        Ok(())
    }
}
