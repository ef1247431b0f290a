//! Opening, reading and refusing whole checkpoints.

mod damage;
mod files;
mod opening;
mod released;

use std::path::{Path, PathBuf};

use clapboard_h3::Partition;

use super::tiny::write_tiny;
use super::{Component, ComponentId, DitConfig, Inventory, Layout, Stored};

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

/// Lists the tensors of a small transformer of `layers` blocks.
pub(crate) fn tiny_dit(layers: usize) -> Inventory {
    let config = DitConfig {
        hidden_size: 32,
        num_heads: 2,
        head_dim: 96,
        ffn_dim: 48,
        num_layers: layers,
        ..DitConfig::released()
    };
    Inventory::dit(ComponentId::Dit(Partition::Fl2va), &config)
}

/// Draws the tensors of a small transformer of two blocks.
pub(crate) fn tiny_dit_tensors() -> Vec<Stored> {
    let inventory = tiny_dit(2);
    let component = Component::drawn(&inventory, Layout::Diffusers, 5, |_| true).unwrap();
    let names = inventory.tensors().iter().map(|tensor| tensor.name.as_str());
    names.filter(|name| component.contains(name)).map(|name| component.get(name).unwrap()).collect()
}
