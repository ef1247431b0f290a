//! Listing objects in the order of their keys.

use std::fs;
use std::io;
use std::path::Path;

use clapboard_jobs::BlobKey;
use clapboard_jobs::blob::ObjectInfo;

/// Returns up to `limit` objects below `objects` whose keys begin with `prefix` and sort after `after`.
pub(super) fn list(objects: &Path, prefix: &str, after: Option<&BlobKey>, limit: usize) -> io::Result<Vec<ObjectInfo>> {
    let mut walk = Walk { prefix, after: after.map(BlobKey::as_str), limit, found: Vec::new() };
    walk.folder(objects, "")?;
    Ok(walk.found)
}

struct Walk<'a> {
    prefix: &'a str,
    after: Option<&'a str>,
    limit: usize,
    found: Vec<ObjectInfo>,
}

impl Walk<'_> {
    /// Visits a folder, whose keys all begin with `base`.
    fn folder(&mut self, path: &Path, base: &str) -> io::Result<()> {
        // A folder that is removed while it is being listed has become empty.
        let Some(entries) = super::found(fs::read_dir(path))? else {
            return Ok(());
        };
        // A folder sorts as its name and a slash, which is how its keys go on.
        let mut keys = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
            keys.push(format!("{base}{name}{slash}"));
        }
        keys.sort_unstable();
        for key in keys {
            if self.found.len() >= self.limit {
                break;
            }
            let Some(name) = key.strip_prefix(base) else {
                continue;
            };
            if name.ends_with('/') {
                if self.may_hold(&key) {
                    self.folder(&path.join(name), &key)?;
                }
            } else if key.starts_with(self.prefix) && self.after.is_none_or(|after| key.as_str() > after) {
                self.object(&path.join(name), &key)?;
            }
        }
        Ok(())
    }

    /// Tells whether a key that begins with `base` may be asked for.
    fn may_hold(&self, base: &str) -> bool {
        let wanted = base.starts_with(self.prefix) || self.prefix.starts_with(base);
        let passed = self.after.is_some_and(|after| after > base && !after.starts_with(base));
        wanted && !passed
    }

    fn object(&mut self, path: &Path, key: &str) -> io::Result<()> {
        // A file that no put can have made is not ours.
        let Ok(key) = key.parse::<BlobKey>() else {
            return Ok(());
        };
        let Some(metadata) = super::found(fs::metadata(path))? else {
            return Ok(());
        };
        self.found.extend(super::info(key, &metadata)?);
        Ok(())
    }
}
