//! Opening, reading and refusing whole checkpoints.

mod damage;
mod files;
mod opening;
mod released;

use std::path::{Path, PathBuf};

use super::Layout;
use super::tiny::write_tiny;

/// Writes the tiny checkpoint of seed 0 into a fresh folder.
fn tiny(layout: Layout) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tiny");
    write_tiny(0, layout, &root).unwrap();
    (dir, root)
}

/// Changes one JSON file in place.
fn edit(path: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let mut value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}
