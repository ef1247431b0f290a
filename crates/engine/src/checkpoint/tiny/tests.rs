use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::assets::{Assets, MANIFEST, RECIPE};
use super::build::{make, parse};
use super::manifest::Manifest;
use super::recipe::{Recipe, Tensors};
use super::*;
use crate::checkpoint::layout::Layout;
use crate::checkpoint::{Checkpoint, ComponentId, map_file};

/// Returns the repository's golden folder.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn embedded() -> (Recipe, Manifest) {
    (parse(&Assets::Embedded, RECIPE).unwrap(), parse(&Assets::Embedded, MANIFEST).unwrap())
}

/// Returns the recipe's digest: names in order, each followed by its value bytes.
fn digest(tensors: &Tensors) -> String {
    let mut hash = Sha256::new();
    for (name, tensor) in tensors {
        hash.update(name.as_bytes());
        hash.update(&tensor.bytes);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every file under a folder, by relative path.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn every_component_has_the_bits_of_the_oracle() {
    let (recipe, manifest) = embedded();
    let mut checked = 0;
    for (component, expected) in &recipe.sha256_of_value_bytes {
        let tensors = match component.strip_prefix("original/") {
            None => recipe.tensors(component).unwrap(),
            Some(place) => {
                let file = manifest.weights.iter().find(|file| file.path.starts_with(&format!("original/{place}")));
                let file = file.or_else(|| manifest.weights.iter().find(|f| f.map == "vae_original")).unwrap();
                make(&recipe, &manifest, file).unwrap()
            }
        };
        assert_eq!(&digest(&tensors), expected, "{component}");
        checked += 1;
    }
    assert_eq!(checked, 8);
}

#[test]
fn latent_statistics_of_the_recipe_seed_are_those_of_the_configs() {
    let (recipe, _) = embedded();
    for (component, folder, channels) in [("vae", "vae", 24), ("audio_vae", "audio_vae", 32)] {
        let config: serde_json::Value =
            parse(&Assets::Embedded, &format!("configs/diffusers/{folder}/config.json")).unwrap();
        for (values, key) in
            recipe.latent_statistics(component, channels).into_iter().zip(["latents_mean", "latents_std"])
        {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            assert_eq!(serde_json::json!(values), config[key], "{component} {key}");
        }
    }
}

#[test]
fn every_file_of_the_manifest_is_compiled_in() {
    let (_, manifest) = embedded();
    for file in &manifest.files {
        let bytes = Assets::Embedded.read(&file.from).unwrap();
        assert_eq!(bytes, fs::read(golden().join(&file.from)).unwrap(), "{}", file.from);
    }
}

#[test]
fn a_golden_folder_and_the_built_in_recipe_give_the_same_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    for layout in [Layout::Original, Layout::Diffusers] {
        let (from_golden, built_in) = (dir.path().join(format!("{layout}-a")), dir.path().join(format!("{layout}-b")));
        write_from_golden(&golden(), layout, &from_golden).unwrap();
        write_tiny(0, layout, &built_in).unwrap();
        assert!(tree(&from_golden) == tree(&built_in), "{layout} differs");
    }
}

#[test]
fn another_seed_changes_weights_and_latent_statistics_only() {
    let dir = tempfile::tempdir().unwrap();
    let (zero, seven) = (dir.path().join("0"), dir.path().join("7"));
    write_tiny(0, Layout::Diffusers, &zero).unwrap();
    write_tiny(7, Layout::Diffusers, &seven).unwrap();
    let (zero_files, seven_files) = (tree(&zero), tree(&seven));
    assert!(zero_files.keys().eq(seven_files.keys()));
    let changed: Vec<&Path> = zero_files
        .iter()
        .filter(|(path, bytes)| seven_files[*path] != **bytes)
        .map(|(path, _)| path.as_path())
        .collect();
    for path in &changed {
        let config = path.ends_with("vae/config.json") || path.ends_with("audio_vae/config.json");
        assert!(config || path.extension().unwrap() == "safetensors", "{}", path.display());
    }
    assert_eq!(changed.len(), 9);
    let (zero, seven) = (Checkpoint::open(&zero).unwrap(), Checkpoint::open(&seven).unwrap());
    assert_ne!(zero.video_vae().latents_std, seven.video_vae().latents_std);
    let (recipe, _) = embedded();
    let [mean, _] = Recipe { seed: 7, ..recipe }.latent_statistics("audio_vae", 32);
    assert_eq!(seven.audio_vae().latents_mean, mean);
}

#[test]
fn written_files_are_readable_by_the_safetensors_library() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tiny");
    write_tiny(3, Layout::Original, &out).unwrap();
    let path = out.join("Ref2VA/transformer/model-00002-of-00003.safetensors");
    let bytes = fs::read(&path).unwrap();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let ours = map_file(&path).unwrap();
    assert_eq!(theirs.len(), ours.len());
    for tensor in ours {
        let view = theirs.tensor(tensor.name()).unwrap();
        assert_eq!(view.shape(), tensor.shape());
        assert_eq!(view.data(), tensor.bytes());
        assert_eq!(tensor.bytes().as_ptr().align_offset(tensor.dtype().size()), 0);
    }
}

#[test]
fn partitions_share_files_but_not_transformers() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tiny");
    write_tiny(0, Layout::Original, &out).unwrap();
    let inode = |path: &str| fs::metadata(out.join(path)).unwrap().ino();
    for shared in ["text_encoder", "video_vae/source", "audio_vae"] {
        let file = format!("{shared}/model.safetensors");
        assert_eq!(inode(&format!("FL2VA/{file}")), inode(&format!("Ref2VA/{file}")), "{file}");
    }
    let shard = "transformer/model-00001-of-00003.safetensors";
    assert_ne!(fs::read(out.join("FL2VA").join(shard)).unwrap(), fs::read(out.join("Ref2VA").join(shard)).unwrap());
}

#[test]
fn an_empty_directory_is_filled_and_a_used_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tiny");
    fs::create_dir(&out).unwrap();
    write_tiny(0, Layout::Diffusers, &out).unwrap();
    let before = tree(&out);
    let error = write_tiny(1, Layout::Diffusers, &out).unwrap_err();
    assert!(matches!(error, Error::NotEmpty(_)), "{error}");
    assert!(tree(&out) == before);
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(write_tiny(1, Layout::Diffusers, &file).unwrap_err(), Error::NotADirectory(_)));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_broken_golden_folder_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("golden");
    fs::create_dir_all(folder.join("configs")).unwrap();
    let out = dir.path().join("out");
    let attempt = || write_from_golden(&folder, Layout::Original, &out).unwrap_err();

    assert!(attempt().to_string().contains("recipe.json"));
    fs::write(folder.join("recipe.json"), "{}").unwrap();
    assert!(matches!(attempt(), Error::Json { file, .. } if file == "recipe.json"));
    fs::copy(golden().join("recipe.json"), folder.join("recipe.json")).unwrap();
    let manifest = fs::read_to_string(golden().join(MANIFEST)).unwrap();
    fs::write(folder.join(MANIFEST), &manifest).unwrap();
    assert!(matches!(attempt(), Error::Io { doing: "open", .. }));
    let escaping = manifest.replacen("original/FL2VA/model_index.json", "original/../../model_index.json", 1);
    fs::write(folder.join(MANIFEST), escaping).unwrap();
    assert!(attempt().to_string().contains("leaves the folder"));
    let weights_only = serde_json::json!({
        "files": [],
        "weights": [{"path": "original/FL2VA/transformer/model.safetensors", "component": "transformer", "map": "dit_original"}],
        "maps": {"dit_original": [{"to": "x", "op": "swap_halves", "from": ["no.such.tensor"]}]},
    });
    fs::write(folder.join(MANIFEST), weights_only.to_string()).unwrap();
    assert!(attempt().to_string().contains("no.such.tensor"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the golden folder is left");
}

#[test]
fn sparse_checkpoints_of_released_size_take_little_space() {
    let dir = tempfile::tempdir().unwrap();
    for layout in [Layout::Original, Layout::Diffusers] {
        let out = dir.path().join(layout.as_str());
        write_sparse_released(layout, &out).unwrap();
        let checkpoint = Checkpoint::open(&out).unwrap();
        let used: u64 = [ComponentId::Dit(checkpoint.partitions()[1]), ComponentId::TextEncoder]
            .into_iter()
            .flat_map(|id| {
                let paths: std::collections::BTreeSet<PathBuf> =
                    checkpoint.component(id).unwrap().stored().map(|raw| raw.path().to_owned()).collect();
                paths.into_iter().map(|path| fs::metadata(path).unwrap().blocks() * 512)
            })
            .sum();
        assert!(used < 4 << 20, "{used} bytes on disk");
    }
}
