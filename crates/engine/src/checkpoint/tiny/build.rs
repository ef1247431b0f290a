//! Putting a tiny checkpoint together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::assets::{Assets, MANIFEST, RECIPE, checked};
use super::error::Error;
use super::manifest::{Manifest, WeightFile};
use super::maps;
use super::recipe::{Recipe, Tensors};
use super::staging::Staging;
use super::writer;
use crate::checkpoint::layout::Layout;
use crate::checkpoint::settings::Settings;

/// Writes the tiny checkpoint of a golden folder, with the seed its goldens were made from.
///
/// `golden` must hold `recipe.json`, `configs/manifest.json` and the files that the manifest names. `out` must be
/// absent or an empty directory; it appears whole or not at all.
///
/// Errors: [`Error::NotEmpty`], [`Error::Json`] and [`Error::Golden`] naming the golden file, [`Error::Io`].
pub fn write_from_golden(golden: &Path, layout: Layout, out: &Path) -> Result<(), Error> {
    let assets = Assets::Folder(golden.to_owned());
    let recipe: Recipe = parse(&assets, RECIPE)?;
    write(&assets, &recipe, false, layout, out)
}

/// Writes a tiny checkpoint of the given seed, with the sizes of the repository's goldens and both partitions.
///
/// `out` must be absent or an empty directory; it appears whole or not at all.
///
/// Errors: [`Error::NotEmpty`], [`Error::NotADirectory`], [`Error::Io`].
pub fn write_tiny(seed: u64, layout: Layout, out: &Path) -> Result<(), Error> {
    let assets = Assets::Embedded;
    let mut recipe: Recipe = parse(&assets, RECIPE)?;
    let reseeded = recipe.seed != seed;
    recipe.seed = seed;
    write(&assets, &recipe, reseeded, layout, out)
}

/// Reads a JSON file of a golden folder.
pub(super) fn parse<T: DeserializeOwned>(assets: &Assets, file: &str) -> Result<T, Error> {
    let text = assets.read(file)?;
    serde_json::from_slice(&text).map_err(|source| Error::Json { file: file.to_owned(), source })
}

fn write(assets: &Assets, recipe: &Recipe, reseeded: bool, layout: Layout, out: &Path) -> Result<(), Error> {
    let manifest: Manifest = parse(assets, MANIFEST)?;
    let staging = Staging::begin(out)?;
    let mut indexes: BTreeMap<PathBuf, BTreeMap<String, String>> = BTreeMap::new();
    for file in &manifest.files {
        let Some(relative) = inside(&file.path, layout)? else { continue };
        let mut bytes = assets.read(&file.from)?.into_owned();
        if file.path.ends_with(".safetensors.index.json") {
            let folder = relative.parent().unwrap_or(Path::new("")).to_owned();
            indexes.insert(folder, weight_map(&bytes, &file.from)?);
        } else if reseeded && relative.ends_with("config.json") {
            bytes = with_statistics(bytes, &file.from, recipe)?;
        }
        staging.write(relative, &bytes)?;
    }
    let mut made: BTreeMap<(&str, &str), Made> = BTreeMap::new();
    for file in &manifest.weights {
        let Some(relative) = inside(&file.path, layout)? else { continue };
        let made = match made.entry((&file.component, &file.map)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Made { tensors: make(recipe, &manifest, file)?, files: Vec::new() })
            }
        };
        let map = relative.parent().and_then(|folder| indexes.get(folder));
        made.write(&staging, relative, map)?;
    }
    let settings = serde_json::to_vec_pretty(&Settings::tiny().to_json());
    let settings = settings.expect("settings are plain numbers and texts");
    staging.write(Path::new("clapboard.json"), &settings)?;
    staging.publish()
}

/// The tensors of one component in one naming, and the files that hold them already.
struct Made {
    tensors: Tensors,
    files: Vec<(BTreeSet<String>, PathBuf)>,
}

impl Made {
    /// Writes the tensors that the index places in this file, or all of them without an index.
    fn write(
        &mut self,
        staging: &Staging,
        relative: &Path,
        index: Option<&BTreeMap<String, String>>,
    ) -> Result<(), Error> {
        let file = relative.file_name().unwrap_or_default().to_string_lossy();
        let here = |name: &String| index.is_none_or(|index| index.get(name).is_some_and(|place| *place == file));
        let names: BTreeSet<String> = self.tensors.keys().filter(|name| here(name)).cloned().collect();
        if let Some((_, existing)) = self.files.iter().find(|(held, _)| *held == names) {
            return staging.share(existing, relative);
        }
        let path = staging.place(relative)?;
        let held: Vec<_> =
            self.tensors.iter().filter(|(name, _)| names.contains(*name)).map(|(n, t)| (n.as_str(), t)).collect();
        writer::write(&path, &held)?;
        self.files.push((names, path));
        Ok(())
    }
}

/// Makes a component's tensors in the naming of a weight file.
pub(super) fn make(recipe: &Recipe, manifest: &Manifest, file: &WeightFile) -> Result<Tensors, Error> {
    let tensors = recipe.tensors(&file.component)?;
    if file.map == "identity" {
        return Ok(tensors);
    }
    let unknown = || Error::golden(MANIFEST, format!("{} needs the unknown map {}", file.path, file.map));
    let map = manifest.maps.get(&file.map).ok_or_else(unknown)?;
    let heads = match file.component.as_str() {
        "vae" => recipe.configs.vae.decoder_num_attention_heads,
        _ => recipe.configs.transformer.num_attention_heads,
    };
    maps::apply(map, &tensors, recipe, heads)
}

/// Returns a path without its layout, or nothing when it belongs to the other layout.
fn inside(path: &str, layout: Layout) -> Result<Option<&Path>, Error> {
    let Some(rest) = path.strip_prefix(layout.as_str()) else { return Ok(None) };
    let Some(rest) = rest.strip_prefix('/') else { return Ok(None) };
    checked(rest).map(Some)
}

/// Reads which file holds which tensor.
fn weight_map(bytes: &[u8], file: &str) -> Result<BTreeMap<String, String>, Error> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let index: Index = serde_json::from_slice(bytes).map_err(|source| Error::Json { file: file.to_owned(), source })?;
    Ok(index.weight_map)
}

/// Replaces the latent statistics of a VAE's config by those of the recipe's seed; other files stay as they are.
fn with_statistics(bytes: Vec<u8>, file: &str, recipe: &Recipe) -> Result<Vec<u8>, Error> {
    let mut config: Value =
        serde_json::from_slice(&bytes).map_err(|source| Error::Json { file: file.to_owned(), source })?;
    let Some(channels) = config.get("latents_mean").and_then(Value::as_array).map(Vec::len) else {
        return Ok(bytes);
    };
    let component = if file.contains("audio_vae") { "audio_vae" } else { "vae" };
    let [mean, std] = recipe.latent_statistics(component, channels);
    let numbers = |values: Vec<f32>| Value::from(values.into_iter().map(f64::from).collect::<Vec<_>>());
    config["latents_mean"] = numbers(mean);
    config["latents_std"] = numbers(std);
    let text = serde_json::to_vec_pretty(&config);
    Ok(text.expect("a JSON value is always writable"))
}
