//! Reading JSON files with errors that name them.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use crate::checkpoint::error::{ConfigProblem, Error};

/// Reads a file that must hold one JSON object.
///
/// Errors: [`Error::Missing`] when the file is absent, [`Error::Json`], [`Error::Config`] when it holds something else.
pub(in crate::checkpoint) fn read_object(path: &Path) -> Result<Map<String, Value>, Error> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            let what = "config file".to_owned();
            return Err(Error::Missing { what, path: path.to_owned() });
        }
        Err(source) => return Err(Error::Io { doing: "read", path: path.to_owned(), source }),
    };
    match serde_json::from_slice(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => {
            let problems = vec![ConfigProblem::Rule("the file must hold a JSON object".to_owned())];
            Err(Error::Config { path: path.to_owned(), problems })
        }
        Err(source) => Err(Error::Json { path: path.to_owned(), source }),
    }
}
