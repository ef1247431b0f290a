//! Reading JSON files with errors that name them.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use crate::checkpoint::error::{ConfigProblem, Error};
use crate::files::{self, CONFIG_LIMIT, FileError};

/// Reads a file that must hold one JSON object.
///
/// Errors: [`Error::Missing`] when the file is absent, [`Error::File`] when it is no regular file or too large,
/// [`Error::Json`], [`Error::Config`] when it holds something else.
pub(in crate::checkpoint) fn read_object(path: &Path) -> Result<Map<String, Value>, Error> {
    let text = match files::read(path, CONFIG_LIMIT) {
        Ok(text) => text,
        Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let what = "config file".to_owned();
            return Err(Error::Missing { what, path: path.to_owned() });
        }
        Err(error) => return Err(Error::file(path)(error)),
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
