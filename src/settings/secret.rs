//! What must not be seen: passwords, keys, and addresses that hold them.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use clap::builder::{OsStringValueParser, TypedValueParser};

/// The longest secret that is read from a file, in bytes: whatever is longer was not meant.
const MAX_BYTES: u64 = 64 * 1024;

/// A text that is shown as `[redacted]` wherever it is printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// Returns the text, for whoever it is meant.
    pub(crate) fn reveal(self) -> String {
        self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    /// Takes any text: a refusal of the command line would show it.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// Reads the name of a secret's file, which may be empty: that is not given.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Returns the secret that is given by itself or in a file; none when neither is. An empty text counts as not given, as
/// an unset variable of a compose file is.
///
/// Errors: a sentence that names the setting, or the file, and never what is in it.
pub(super) fn given(name: &str, value: Option<Secret>, file: Option<PathBuf>) -> anyhow::Result<Option<Secret>> {
    let value = value.filter(|secret| !secret.0.is_empty());
    let file = file.filter(|path| !path.as_os_str().is_empty());
    match (value, file) {
        (Some(_), Some(_)) => bail!("{name} and {name}-file are both given, and one of them is enough"),
        (None, Some(file)) => read(&file).with_context(|| format!("{name}-file cannot be used")).map(Some),
        (value, None) => Ok(value),
    }
}

/// Reads a secret from a file, without the line break that editors put at its end.
fn read(path: &Path) -> anyhow::Result<Secret> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.with_context(|| format!("could not read {}", path.display()))?;
    ensure!(text.len() as u64 <= MAX_BYTES, "{} has more than {MAX_BYTES} bytes", path.display());
    let secret = text.trim_end_matches(['\r', '\n']);
    ensure!(!secret.is_empty(), "{} is empty", path.display());
    Ok(Secret(secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn secret(text: &str) -> Option<Secret> {
        Some(Secret(text.to_owned()))
    }

    #[test]
    fn a_secret_is_never_shown() {
        assert_eq!(format!("{:?}", secret("hunter2")), "Some([redacted])");
    }

    #[test]
    fn a_file_counts_as_the_setting_itself_without_its_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "hunter2 \r\n").unwrap();
        assert_eq!(given("--key", None, Some(path.clone())).unwrap(), secret("hunter2 "));
        assert_eq!(given("--key", secret(""), Some(path)).unwrap(), secret("hunter2 "));
        assert_eq!(given("--key", secret("x"), None).unwrap(), secret("x"));
        assert_eq!(given("--key", secret(""), Some(PathBuf::new())).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_is_told_without_the_secret() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, large) = (folder.path().join("empty"), folder.path().join("large"));
        fs::write(&empty, "\n").unwrap();
        fs::write(&large, "x".repeat(70_000)).unwrap();
        let refusal = |value, file| format!("{:#}", given("--key", value, Some(file)).unwrap_err());
        let both = refusal(secret("hunter2"), empty.clone());
        assert_eq!(both, "--key and --key-file are both given, and one of them is enough");
        assert_eq!(refusal(None, empty.clone()), format!("--key-file cannot be used: {} is empty", empty.display()));
        assert!(refusal(None, large).ends_with("large has more than 65536 bytes"));
        let absent = refusal(None, folder.path().join("absent"));
        assert!(absent.starts_with("--key-file cannot be used: could not open "), "{absent}");
    }
}
